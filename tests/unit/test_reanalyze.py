import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mujax_pipe.agents import GMZ, SMZ
from mujax_pipe.training.reanalyze import reanalyze
from tests.fakes import SPEC, Linear, numbered, tiny_config

K, N = 2, 4


def reanalyzed(ratio, *, params=None, windows=None):
    config = tiny_config(reanalyze_ratio=ratio)
    algorithm = Linear(config, SPEC)
    windows = numbered(N, config.window_length) if windows is None else windows
    windows = jax.tree.map(jnp.asarray, windows)
    params = {"w": np.array([2.0, -1.0], np.float32)} if params is None else params
    fresh, _ = reanalyze(algorithm, params, jax.random.key(0), windows, np.int32(0))
    return windows, fresh, windows.observation @ params["w"]


@pytest.mark.parametrize(
    ("ratio", "rows"), [(0.0, 0), (0.25, 1), (0.3, 1), (0.5, 2), (0.9, 4), (1.0, 4)]
)
def test_the_share_of_rows_is_searched_again_and_all_get_the_newest_values(ratio, rows):
    windows, fresh, network = reanalyzed(ratio)
    # The fake search adds 100 to the network's value, so that one can tell them apart.
    np.testing.assert_allclose(
        fresh.value[:rows, : K + 1], 100 + network[:rows, : K + 1], rtol=1e-6
    )
    np.testing.assert_allclose(fresh.value[:rows, K + 1 :], network[:rows, K + 1 :], rtol=1e-5)
    np.testing.assert_allclose(fresh.value[rows:], network[rows:], rtol=1e-5)
    assert (fresh.value != windows.value).all()
    np.testing.assert_array_equal(fresh.policy_probs[rows:], windows.policy_probs[rows:])


def test_fresh_policies_mind_the_illegal_actions_of_their_own_state():
    windows = numbered(N, 5)
    invalid = np.random.default_rng(0).random((N, 5, 3)) < 0.5
    invalid[..., 0] &= ~invalid.all(axis=-1)
    _, fresh, _ = reanalyzed(1.0, windows=dataclasses.replace(windows, invalid_actions=invalid))
    legal = ~invalid[:, : K + 1]
    np.testing.assert_allclose(
        fresh.policy_probs[:, : K + 1], legal / legal.sum(axis=-1, keepdims=True), rtol=1e-6
    )
    np.testing.assert_array_equal(fresh.policy_probs[:, K + 1 :], windows.policy_probs[:, K + 1 :])


def test_what_happened_is_left_alone():
    windows, fresh, _ = reanalyzed(1.0)
    for field in dataclasses.fields(windows):
        if field.name not in ("value", "policy_probs"):
            np.testing.assert_array_equal(getattr(windows, field.name), getattr(fresh, field.name))


def test_the_newest_parameters_are_used():
    values = [reanalyzed(1.0, params={"w": np.full(2, w, np.float32)})[1].value for w in (0.0, 1.0)]
    assert (values[0] != values[1]).all()


def test_a_truncated_bootstrap_value_stays_what_it_was():
    """It was the network's value when the episode was cut; its observation is not stored."""
    windows = dataclasses.replace(numbered(N, 5), bootstrap_value=np.full((N, 5), 3.0, np.float32))
    _, fresh, _ = reanalyzed(1.0, windows=windows)
    np.testing.assert_array_equal(fresh.bootstrap_value, windows.bootstrap_value)


@pytest.mark.parametrize("explores", [False, True])
def test_the_algorithm_says_whether_fresh_searches_explore(explores):
    asked = []

    class Asked(Linear):
        reanalyze_explores = explores

        def search(self, *arguments, explore):
            asked.append(explore)
            return super().search(*arguments, explore=explore)

    config = tiny_config(reanalyze_ratio=0.5)
    windows = jax.tree.map(jnp.asarray, numbered(N, config.window_length))
    params = {"w": np.ones(2, np.float32)}
    reanalyze(Asked(config, SPEC), params, jax.random.key(0), windows, np.int32(0))
    assert asked == [explores]
    assert not GMZ.reanalyze_explores
    assert SMZ.reanalyze_explores


def test_the_ratio_is_to_how_likely_the_action_was_not_to_the_search_policy():
    """Explored actions were likelier than the search would have had them."""
    config = tiny_config(reanalyze_ratio=0.0)
    windows = numbered(N, config.window_length)
    likely = np.full_like(windows.action_prob, 2 / 3)
    windows = jax.tree.map(jnp.asarray, dataclasses.replace(windows, action_prob=likely))
    params = {"w": np.ones(2, np.float32)}
    _, ratio = reanalyze(Linear(config, SPEC), params, jax.random.key(0), windows, np.int32(0))
    np.testing.assert_allclose(ratio, 0.5, rtol=1e-6)
