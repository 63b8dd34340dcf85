import dataclasses

import jax
import numpy as np
import pytest
import rlax

from mujax_pipe.agents.returns import episode_masks, make_targets, policy_ratio, value_targets
from mujax_pipe.agents.types import Transition
from mujax_pipe.agents.values import probs_to_scalar, scalar_to_probs
from tests.fakes import numbered, tiny_config

GAMMA = 0.5


def window(reward, value, terminated=(), truncated=(), bootstrap=0.0):
    """One window; `terminated` and `truncated` hold times."""
    steps = len(reward)

    def at(times):
        return np.isin(np.arange(steps), times)

    blank = jax.tree.map(lambda x: x[0], numbered(1, steps))
    return dataclasses.replace(
        blank,
        reward=np.asarray(reward, np.float32),
        value=np.asarray(value, np.float32),
        discount=1.0 - at(terminated).astype(np.float32),
        truncated=at(truncated),
        bootstrap_value=np.where(at(truncated), np.float32(bootstrap), np.float32(0.0)),
    )


def batch_of(one: Transition) -> Transition:
    return jax.tree.map(lambda x: x[None], one)


compiled = pytest.mark.parametrize("compiled", [False, True], ids=["plain", "jit"])


def targets_of(one, n, td_lambda=1.0, compiled=False, discount=GAMMA, ratio=None):
    function = jax.jit(value_targets, static_argnums=(2, 3, 4)) if compiled else value_targets
    ratio = np.ones_like(one.reward) if ratio is None else np.asarray(ratio, np.float32)
    return np.asarray(function(one, ratio, discount, n, td_lambda))


# Hand-worked windows: K = 2, n = 2, discount 0.5.


@compiled
def test_n_step_return_within_an_episode(compiled):
    one = window([1, 2, 3, 4, 99], [90, 91, 10, 20, 30])
    # r0 + r1/2 + v2/4, and so on.
    expected = [1 + 1 + 2.5, 2 + 1.5 + 5, 3 + 2 + 7.5]
    np.testing.assert_array_equal(targets_of(one, 2, compiled=compiled), expected)


@compiled
def test_a_termination_earns_its_reward_and_nothing_after(compiled):
    one = window([1, 2, 3, 4, 99], [90, 91, 10, 20, 30], terminated=[1])
    np.testing.assert_array_equal(targets_of(one, 2, compiled=compiled), [2.0, 2.0, 12.5])


@compiled
def test_a_truncation_bootstraps_from_where_it_led(compiled):
    one = window([1, 2, 3, 4, 99], [90, 91, 10, 20, 30], truncated=[1], bootstrap=8)
    # 2 + 8/2 = 6 at the truncated step, 1 + 6/2 before it.
    np.testing.assert_array_equal(targets_of(one, 2, compiled=compiled), [4.0, 6.0, 12.5])


def test_a_truncation_and_a_termination_in_one_window():
    one = window([1, 2, 3, 4, 99], [90, 91, 10, 20, 30], truncated=[0], terminated=[2], bootstrap=8)
    np.testing.assert_array_equal(targets_of(one, 2), [1 + 4, 2 + 1.5, 3])


def test_a_termination_then_a_truncation_in_one_window():
    one = window([1, 2, 3, 4, 99], [90, 91, 10, 20, 30], terminated=[0], truncated=[2], bootstrap=8)
    np.testing.assert_array_equal(targets_of(one, 2), [1, 2 + 0.5 * (3 + 4), 3 + 4])


def test_a_window_that_starts_on_a_terminal_step():
    one = window([5, 2, 3, 4, 99], [90, 91, 10, 20, 30], terminated=[0])
    np.testing.assert_array_equal(targets_of(one, 2)[0], 5.0)


def test_an_end_on_the_last_rewarded_step_drops_the_bootstrap():
    one = window([1, 2, 3, 4, 99], [90, 91, 10, 20, 30], terminated=[3])
    np.testing.assert_array_equal(targets_of(one, 2), [4.5, 8.5, 3 + 2])


def test_td_lambda_by_hand():
    """G0 = r0 + g (0.75 v1 + 0.25 (r1 + g v2)), with g = 0.5 and n = 2."""
    one = window([1, 2, 3, 4, 99], [90, 8, 10, 20, 30])
    first = 1 + 0.5 * (0.75 * 8 + 0.25 * (2 + 0.5 * 10))
    np.testing.assert_allclose(targets_of(one, 2, 0.25)[0], first, rtol=1e-6)


# Reductions.


def random_window(seed, steps=9, terminated=(), truncated=(), bootstrap=0.0):
    rng = np.random.default_rng(seed)
    return window(rng.normal(size=steps), rng.normal(size=steps), terminated, truncated, bootstrap)


@pytest.mark.parametrize("seed", range(3))
def test_lambda_0_is_one_step_td_whatever_n(seed):
    one = random_window(seed)
    expected = one.reward[:5] + GAMMA * one.value[1:6]
    np.testing.assert_allclose(targets_of(one, 4, 0.0), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(targets_of(one, 1, 1.0)[:5], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_large_n_is_monte_carlo(seed):
    one = random_window(seed, terminated=[5])
    powers = GAMMA ** np.arange(6)
    expected = [np.dot(powers[: 6 - t], one.reward[t:6]) for t in range(3)]
    np.testing.assert_allclose(targets_of(one, 6), expected, rtol=1e-5)


def test_discount_0_is_the_reward():
    one = random_window(0, truncated=[1], bootstrap=5)
    np.testing.assert_allclose(
        targets_of(one, 4, discount=0.0), one.reward[:5], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("td_lambda", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("seed", range(3))
def test_returns_equal_a_plain_recursion(seed, td_lambda):
    """G[t, n] = r + c ((1 - l) V' + l G[t+1, n-1]), G[t, 0] = V[t], over random ends."""
    rng = np.random.default_rng(seed)
    one = random_window(seed, 12, terminated=[2 + seed, 9], truncated=[6], bootstrap=rng.normal())

    def recursion(t, n):
        if n == 0:
            return one.value[t]
        if one.discount[t] == 0:
            return one.reward[t]
        if one.truncated[t]:
            return one.reward[t] + GAMMA * one.bootstrap_value[t]
        if n == 1:
            return one.reward[t] + GAMMA * one.value[t + 1]
        rest = (1 - td_lambda) * one.value[t + 1] + td_lambda * recursion(t + 1, n - 1)
        return one.reward[t] + GAMMA * rest

    expected = [recursion(t, 5) for t in range(7)]
    np.testing.assert_allclose(targets_of(one, 5, td_lambda), expected, rtol=1e-5)


# Masks.


def masks(terminated=(), truncated=(), steps=5):
    one = window([0] * steps, [0] * steps, terminated, truncated)
    alive, absorbed = episode_masks(one.discount, one.truncated)
    return np.asarray(alive).tolist(), np.asarray(absorbed).tolist()


@pytest.mark.parametrize(
    ("terminated", "truncated", "alive", "absorbed"),
    [
        ([], [], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]),
        ([1], [], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1]),
        ([0], [], [1, 0, 0, 0, 0], [0, 1, 1, 1, 1]),
        ([], [1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]),
        ([], [0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]),
        ([1], [3], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1]),
        ([3], [1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]),
        ([1, 3], [], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1]),
        ([4], [], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]),
    ],
)
def test_episode_masks(terminated, truncated, alive, absorbed):
    assert masks(terminated, truncated) == (alive, absorbed)


def make(one, **settings):
    config = tiny_config(unroll_steps=3, bootstrap_steps=2, discount=GAMMA, **settings)
    return jax.tree.map(
        lambda x: np.asarray(x[0]),
        make_targets(batch_of(one), np.ones((1, len(one.reward)), np.float32), config),
    )


def decoded(probs):
    return np.asarray(probs_to_scalar(probs, 8.0))


REWARD, VALUE = [1, 2, 3, 4, 5, 6], [1, 1, 1, 1, 1, 1]


def test_absorbing_states_are_learned_as_zero():
    targets = make(window(REWARD, VALUE, terminated=[1]), after_terminal="absorbing")
    np.testing.assert_array_equal(targets.value_mask, [1, 1, 1, 1])
    np.testing.assert_array_equal(targets.reward_mask, [1, 1, 1])
    np.testing.assert_array_equal(targets.policy_mask, [1, 1, 0, 0])
    zero = np.asarray(scalar_to_probs(0.0 * np.ones(2, np.float32), 21, 8.0))
    np.testing.assert_array_equal(targets.value_probs[2:], zero)
    np.testing.assert_array_equal(targets.reward_probs[2:], zero[:1])


def test_masked_states_are_not_learned():
    targets = make(window(REWARD, VALUE, terminated=[1]), after_terminal="masked")
    np.testing.assert_array_equal(targets.value_mask, [1, 1, 0, 0])
    np.testing.assert_array_equal(targets.reward_mask, [1, 1, 0])
    np.testing.assert_array_equal(targets.policy_mask, [1, 1, 0, 0])


@pytest.mark.parametrize("after_terminal", ["absorbing", "masked"])
def test_nothing_is_learned_past_a_truncation(after_terminal):
    one = window(REWARD, VALUE, truncated=[1], bootstrap=8)
    targets = make(one, after_terminal=after_terminal)
    np.testing.assert_array_equal(targets.value_mask, [1, 1, 0, 0])
    np.testing.assert_array_equal(targets.reward_mask, [1, 1, 0])
    np.testing.assert_array_equal(targets.policy_mask, [1, 1, 0, 0])
    # Where the cut step led is not in the window.
    np.testing.assert_array_equal(targets.transition_mask, [1, 0, 0])


@pytest.mark.parametrize(
    ("after_terminal", "known"), [("absorbing", [1, 1, 1]), ("masked", [1, 1, 0])]
)
def test_an_ending_is_a_transition_and_so_is_staying_there(after_terminal, known):
    one = window(REWARD, VALUE, terminated=[1])
    targets = make(one, after_terminal=after_terminal)
    np.testing.assert_array_equal(targets.transition_mask, known)


def test_targets_hold_rewards_returns_actions_and_policies_of_their_steps():
    one = window(REWARD, VALUE)
    targets = make(one)

    def encode(x):
        return np.asarray(scalar_to_probs(np.asarray(x, np.float32), 21, 8.0))

    np.testing.assert_allclose(targets.reward_probs, encode([1, 2, 3]), rtol=1e-5, atol=1e-7)
    returns = [1 + 1 + 0.25, 2 + 1.5 + 0.25, 3 + 2 + 0.25, 4 + 2.5 + 0.25]
    np.testing.assert_allclose(targets.value_probs, encode(returns), rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(targets.action, one.action[:3])
    np.testing.assert_array_equal(targets.observation, one.observation[:4])
    np.testing.assert_array_equal(targets.policy_probs, one.policy_probs[:4])


def test_a_batch_of_targets_is_its_windows_one_by_one():
    ones = [random_window(i, 6, terminated=[i], truncated=[4], bootstrap=2.0) for i in range(3)]
    config = tiny_config(unroll_steps=3, bootstrap_steps=2)
    ratio = np.ones((3, 6), np.float32)
    together = make_targets(jax.tree.map(lambda *x: np.stack(x), *ones), ratio, config)
    for i, one in enumerate(ones):
        alone = jax.tree.map(
            lambda x: x[0],
            make_targets(batch_of(one), np.ones((1, len(one.reward)), np.float32), config),
        )
        row = jax.tree.map(lambda x, i=i: x[i], together)
        jax.tree.map(np.testing.assert_array_equal, alone, row)


@pytest.mark.parametrize("after_terminal", ["absorbing", "masked"])
@pytest.mark.parametrize("kind", ["terminated", "truncated"])
@pytest.mark.parametrize("end", [0, 1, 2, 3, 4])
def test_nothing_of_the_next_episode_leaks(end, kind, after_terminal):
    """Every field after the end is replaced; nothing that counts may change, by a single bit."""
    one = window(REWARD, VALUE, **{kind: [end]}, bootstrap=8)
    other = jax.tree.map(lambda x: x[0], numbered(1, 6, first=7))
    other = dataclasses.replace(
        other,
        discount=np.array([0, 1, 0, 1, 0, 0], np.float32),
        truncated=np.array([0, 1, 0, 0, 0, 0], bool),
        bootstrap_value=np.full(6, 70, np.float32),
    )

    def splice(x, y):
        return np.concatenate([x[: end + 1], y[end + 1 :]])

    before = make(one, after_terminal=after_terminal)
    after = make(jax.tree.map(splice, one, other), after_terminal=after_terminal)
    for name in ("value", "reward", "policy"):
        mask = getattr(before, f"{name}_mask")
        np.testing.assert_array_equal(mask, getattr(after, f"{name}_mask"))
        assert mask[0] == 1.0
        probs, other_probs = (getattr(t, f"{name}_probs")[mask == 1.0] for t in (before, after))
        np.testing.assert_array_equal(probs, other_probs)


# Off-policy data: V-trace.


@compiled
def test_an_action_that_today_would_not_take_leaves_the_value_of_its_state(compiled):
    one = window([1, 2, 3, 4, 99], [90, 91, 10, 20, 30])
    ratio = [0, 1, 0, 1, 1]
    # State 1 trusts its own action, r1 + v2 / 2, and follows the trace no further.
    expected = [90, 2 + 5, 10]
    np.testing.assert_array_equal(targets_of(one, 2, compiled=compiled, ratio=ratio), expected)


@compiled
def test_half_trust_moves_half_way(compiled):
    one = window([1, 2, 3, 4, 99], [90, 91, 10, 20, 30])
    # d1 = 2 + 5 - 91 = -84, d2 = 3 + 10 - 10 = 3; e = (d1 + e2 / 2) / 2 with e2 = d2 / 2.
    expected = 91 + 0.5 * (-84 + 0.5 * 0.5 * 3)
    assert targets_of(one, 2, compiled=compiled, ratio=[0.5] * 5)[1] == expected


@pytest.mark.parametrize("td_lambda", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_on_policy_targets_are_rlax_s_n_step_returns(n, td_lambda):
    one = random_window(3, 8, terminated=[5])
    expected = rlax.n_step_bootstrapped_returns(
        one.reward[:-1], GAMMA * one.discount[:-1], one.value[1:], n, td_lambda
    )
    found = targets_of(one, n, td_lambda)
    np.testing.assert_allclose(found, expected[: len(found)], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("td_lambda", [0.5, 1.0])
def test_followed_to_the_end_it_is_rlax_s_vtrace(td_lambda):
    one, steps = random_window(4, 8), 7
    ratio = np.random.default_rng(0).uniform(0.0, 1.0, 8).astype(np.float32)
    errors = rlax.vtrace(
        one.value[:-1],
        one.value[1:],
        one.reward[:-1],
        GAMMA * one.discount[:-1],
        ratio[:-1],
        lambda_=td_lambda,
    )
    found = targets_of(one, steps, td_lambda, ratio=ratio)
    np.testing.assert_allclose(found, (one.value[:-1] + errors)[:1], rtol=1e-5, atol=1e-5)


def test_the_ratio_of_policies_is_clipped_at_one_and_finite():
    today = np.array([[0.2, 0.8], [0.9, 0.1], [0.0, 1.0], [0.5, 0.5]], np.float32)
    then = np.array([[0.4, 0.3, 0.0, 0.0]], np.float32)
    ratio = policy_ratio(today[None], then, np.zeros((1, 4), np.int32))
    np.testing.assert_array_equal(ratio, [[0.5, 1.0, 0.0, 1.0]])
