import dataclasses

import jax
import numpy as np
import pytest

from mujax_pipe.agents.gmz import GMZ
from mujax_pipe.errors import UserError
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
