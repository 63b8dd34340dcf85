import dataclasses

import jax
import numpy as np
import pytest

from mujax_pipe.agents.gmz import GMZ
from mujax_pipe.errors import UserError
from mujax_pipe.training.checkpoint import save_best
from mujax_pipe.training.inference import load_policy
from tests.fakes import SPEC, tiny_config

OBSERVATIONS = np.array([[0.5, -2.0], [3.0, 1.0], [0.0, 0.0]])


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A run's folder, and the parameters in it."""
    directory = tmp_path_factory.mktemp("run")
    config = tiny_config()
    leaves, tree = jax.tree.flatten(GMZ(config, SPEC).init(jax.random.key(0)))
    rng = np.random.default_rng(0)
    params = tree.unflatten([x + rng.normal(size=x.shape).astype(np.float32) for x in leaves])
    metadata = {
        "algorithm": "gmz",
        "config": dataclasses.asdict(config),
        "environment_spec": SPEC._asdict(),
        "step": 3,
    }
    save_best(directory / "best", params, metadata)
    return directory, params


@pytest.fixture(scope="module")
def policy(saved):
    return load_policy(saved[0])


def test_a_run_and_its_best_folder_both_load(saved, policy):
    directory, params = saved
    for loaded in (policy, load_policy(str(directory / "best"))):
        jax.tree.map(np.testing.assert_array_equal, params, loaded.params)
        assert loaded.algorithm.config == tiny_config()
        assert loaded.algorithm.spec == SPEC
        assert loaded.metadata["step"] == 3


def test_one_observation_gives_one_action(policy):
    action, probs, value = policy.search(OBSERVATIONS[0])
    assert type(action) is int
    assert type(value) is float
    assert probs.shape == (3,)
    assert policy.act(OBSERVATIONS[0]) == action


def test_a_batch_is_its_observations_one_by_one(policy):
    actions, probs, values = policy.search(OBSERVATIONS)
    assert (actions.shape, probs.shape, values.shape) == ((3,), (3, 3), (3,))
    for index, observation in enumerate(OBSERVATIONS):
        action, prob, value = policy.search(observation)
        assert actions[index] == action
        np.testing.assert_allclose(probs[index], prob, rtol=1e-4)
        np.testing.assert_allclose(values[index], value, rtol=1e-3, atol=1e-3)


def test_acting_again_gives_the_same(policy):
    for one, other in zip(policy.search(OBSERVATIONS), policy.search(OBSERVATIONS), strict=True):
        np.testing.assert_array_equal(one, other)


def test_illegal_actions_are_not_taken(policy):
    best = policy.act(OBSERVATIONS[0])
    mask = np.arange(3) == best
    action, probs, _ = policy.search(OBSERVATIONS[0], mask)
    assert action != best
    assert probs[best] == 0.0
    # One mask for the whole batch, or one an observation.
    assert (policy.act(OBSERVATIONS, mask) != best).all()
    assert policy.act(OBSERVATIONS, ~np.eye(3, dtype=bool)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 1, 2)])
def test_an_observation_of_the_wrong_shape_is_refused(policy, shape):
    with pytest.raises(UserError, match=r"allowed are \(2,\) and \(B, 2\)"):
        policy.act(np.zeros(shape))


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds no checkpoint"):
        load_policy(tmp_path / "nothing")


def test_an_unknown_algorithm_is_refused(tmp_path):
    save_best(tmp_path / "best", {"w": np.zeros(1)}, {"algorithm": "dreamer"})
    with pytest.raises(UserError, match=r"algorithm 'dreamer': this version knows gmz, smz"):
        load_policy(tmp_path)


def test_a_setting_that_this_version_lacks_is_refused(tmp_path):
    config = {**dataclasses.asdict(tiny_config()), "old_setting": 1}
    metadata = {"algorithm": "gmz", "config": config, "environment_spec": SPEC._asdict()}
    save_best(tmp_path / "best", {"w": np.zeros(1)}, metadata)
    with pytest.raises(UserError, match=r"config.old_setting: unknown key"):
        load_policy(tmp_path)
