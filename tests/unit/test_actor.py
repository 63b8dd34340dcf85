import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mujax_pipe.agents.gmz import GMZ
from mujax_pipe.agents.types import SearchOutput
from mujax_pipe.errors import UserError
from mujax_pipe.training.actor import explored, stretch_keys
from mujax_pipe.training.checkpoint import save_best
from mujax_pipe.training.environment_loop import EnvironmentLoop
from mujax_pipe.training.envs import EnvironmentBatch
from mujax_pipe.training.inference import load_actor, load_policy
from tests.fakes import SPEC, Walk, tiny_config

OBSERVATIONS = np.array([[0.5, -2.0], [3.0, 1.0], [0.0, 0.0], [-1.0, 4.0]])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    config = tiny_config()
    metadata = {
        "algorithm": "gmz",
        "config": dataclasses.asdict(config),
        "environment_spec": SPEC._asdict(),
        "step": 3,
    }
    save_best(directory / "best", GMZ(config, SPEC).init(jax.random.key(0)), metadata)
    return directory


def drawn(actor, times=8):
    return np.array([actor.act(OBSERVATIONS) for _ in range(times)])


def test_draws_are_a_function_of_seed_and_order(run):
    policy = load_policy(run)
    one, again, other = drawn(load_actor(run)), drawn(policy.actor()), drawn(policy.actor(seed=1))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    # It explores: the same observations, another action.
    assert (one != one[0]).any()
    assert set(one.ravel().tolist()) == {0, 1, 2}


def test_one_observation_gives_one_legal_action(run):
    actor = load_actor(run)
    for legal in range(3):
        action = actor.act(OBSERVATIONS[0], np.arange(3) != legal)
        assert (type(action), action) == (int, legal)


@pytest.mark.parametrize("role", ["act", "actor"])
def test_a_mask_that_does_not_fit_is_refused(run, role):
    act = load_policy(run).act if role == "act" else load_actor(run).act
    with pytest.raises(UserError, match=r"shape \(2,\): allowed are \(3,\) and \(4, 3\)"):
        act(OBSERVATIONS, np.zeros(2))
    with pytest.raises(UserError, match="at least one must be legal"):
        act(OBSERVATIONS, np.ones(3))


def test_a_loaded_actor_plays_in_a_loop(run):
    environments = EnvironmentBatch(lambda i: Walk(length=3), 2, lambda i, e: 10 * i + e)
    chunk, episodes = EnvironmentLoop(load_actor(run), environments).act(7)
    assert chunk.action.shape == (2, 7)
    assert [episode.length for episode in episodes] == [3] * 4


def searched(num_states, *, probs=(0.7, 0.3, 0.0), action=0):
    return SearchOutput(
        action=jnp.full(num_states, action, jnp.int32),
        policy_probs=jnp.tile(jnp.array(probs), (num_states, 1)),
        value=jnp.zeros(num_states),
    )


def test_without_exploration_actions_stay_and_are_as_likely_as_the_search_says():
    output, probs = explored(
        searched(5), jnp.zeros((5, 3), bool), jnp.float32(0), jax.random.split(jax.random.key(0), 5)
    )
    np.testing.assert_array_equal(output.action, 0)
    np.testing.assert_allclose(probs, 0.7, rtol=1e-6)


def test_a_share_of_the_actions_is_uniform_among_the_legal_ones():
    number, share = 20_000, 0.4
    invalid = jnp.tile(jnp.array([False, False, True]), (number, 1))
    keys = jax.random.split(jax.random.key(0), number)
    output, probs = explored(searched(number), invalid, jnp.float32(share), keys)
    counts = np.bincount(output.action, minlength=3) / number
    # Half of what is drawn is action 1, which the search would not have taken.
    np.testing.assert_allclose(counts, [1 - share / 2, share / 2, 0.0], atol=0.01)
    expected = np.where(output.action == 0, 0.6 * 0.7 + 0.2, 0.6 * 0.3 + 0.2)
    np.testing.assert_allclose(probs, expected, rtol=1e-6)


@pytest.mark.parametrize("longest", [1, 8, 11])
def test_a_drawn_action_is_held_for_a_stretch_of_any_power_of_two(longest):
    number, steps, key = 300, 32, jax.random.key(3)
    keys = np.array(
        [
            jax.random.key_data(stretch_keys(key, jnp.int32(count), longest, number))
            for count in range(steps)
        ]
    )
    changed = (keys[1:] != keys[:-1]).any(axis=-1)
    # In each window an environment has stretches of one length.
    window = min(longest, 8)
    for first in range(0, steps, window):
        inside = changed[first : first + window - 1]
        counts = 1 + inside.sum(axis=0)
        assert set(counts) <= {2**i for i in range(window.bit_length())}
        if first:
            assert changed[first - 1].all()
    # No two environments share a key.
    assert len(np.unique(keys[0], axis=0)) == number


def test_stretches_of_each_length_are_as_likely():
    number, longest = 6000, 4
    keys = np.array(
        [
            jax.random.key_data(stretch_keys(jax.random.key(0), jnp.int32(count), longest, number))
            for count in range(longest)
        ]
    )
    changes = (keys[1:] != keys[:-1]).any(axis=-1).sum(axis=0)
    # 4, 2 and 1 stretches in a window.
    np.testing.assert_allclose(np.bincount(changes)[[3, 1, 0]] / number, 1 / 3, atol=0.02)


def test_what_is_held_is_the_same_action_where_it_is_legal():
    number = 50
    keys = stretch_keys(jax.random.key(0), jnp.int32(5), 16, number)
    free = jnp.zeros((number, 3), bool)
    held, _ = explored(searched(number), free, jnp.float32(1), keys)
    again, _ = explored(searched(number, action=1), free, jnp.float32(1), keys)
    np.testing.assert_array_equal(held.action, again.action)
    without, _ = explored(searched(number), free.at[:, 2].set(True), jnp.float32(1), keys)
    legal = np.asarray(held.action) != 2
    np.testing.assert_array_equal(without.action[legal], held.action[legal])
    assert 2 not in np.asarray(without.action)


def test_exploration_falls_in_even_parts_of_the_run():
    algorithm = GMZ(tiny_config(exploration=(0.5, 0.25, 0.0), num_learner_steps=9), SPEC)
    found = [float(algorithm.exploration(jnp.int32(step))) for step in (0, 2, 3, 6, 8, 100)]
    assert found == [0.5, 0.5, 0.25, 0.0, 0.0, 0.0]
