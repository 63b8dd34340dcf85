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
        searched(5), jnp.zeros((5, 3), bool), jnp.float32(0), jax.random.split(jax.random.key(0), 1)
    )
    np.testing.assert_array_equal(output.action, 0)
    np.testing.assert_allclose(probs, 0.7, rtol=1e-6)


def test_a_share_of_the_actions_is_uniform_among_the_legal_ones():
    number, share = 20_000, 0.4
    invalid = jnp.tile(jnp.array([False, False, True]), (number, 1))
    keys = jax.random.split(jax.random.key(0), 1)
    output, probs = explored(searched(number), invalid, jnp.float32(share), keys)
    counts = np.bincount(output.action, minlength=3) / number
    # Half of what is drawn is action 1, which the search would not have taken.
    np.testing.assert_allclose(counts, [1 - share / 2, share / 2, 0.0], atol=0.01)
    expected = np.where(output.action == 0, 0.6 * 0.7 + 0.2, 0.6 * 0.3 + 0.2)
    np.testing.assert_allclose(probs, expected, rtol=1e-6)


def held(steps, longest, number, *, legal=(True, True, True)):
    """Actions of steps in a row that are all drawn, [T, B]."""
    invalid = jnp.tile(~jnp.array(legal), (number, 1))
    keys = [stretch_keys(jax.random.key(3), jnp.int32(count), longest) for count in range(steps)]
    outputs = [explored(searched(number), invalid, jnp.float32(1), key)[0] for key in keys]
    return np.array([output.action for output in outputs])


@pytest.mark.parametrize("longest", [4, 7])
def test_a_drawn_action_is_held_for_a_stretch_of_a_power_of_two(longest):
    windows = held(8, longest, 3000).reshape(2, 4, -1)
    changes = windows[:, 1:] != windows[:, :-1]
    never = ~changes.any(axis=1)
    in_the_middle = ~changes[:, 0] & changes[:, 1] & ~changes[:, 2]
    # A third of the windows has each length; one action in three is the one before.
    np.testing.assert_allclose(never.mean(), (1 + 1 / 3 + 1 / 27) / 3, atol=0.02)
    np.testing.assert_allclose(in_the_middle.mean(), (2 / 3 + 2 / 27) / 3, atol=0.02)
    # Nothing is held from one window to the next.
    np.testing.assert_allclose((windows[1, 0] == windows[0, -1]).mean(), 1 / 3, atol=0.03)


def test_without_stretches_each_step_is_drawn_anew():
    actions = held(8, 1, 3000)
    np.testing.assert_allclose((actions[1:] == actions[:-1]).mean(), 1 / 3, atol=0.02)


def test_what_is_held_stays_legal():
    free, masked = held(8, 8, 200), held(8, 8, 200, legal=(True, True, False))
    assert (free == 2).any()
    np.testing.assert_array_equal(masked[free != 2], free[free != 2])
    assert not (masked == 2).any()


def test_exploration_falls_in_even_parts_of_the_run():
    algorithm = GMZ(tiny_config(exploration=(0.5, 0.25, 0.0), num_learner_steps=9), SPEC)
    found = [float(algorithm.exploration(jnp.int32(step))) for step in (0, 2, 3, 6, 8, 100)]
    assert found == [0.5, 0.5, 0.25, 0.0, 0.0, 0.0]
