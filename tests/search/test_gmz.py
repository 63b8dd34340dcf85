import functools

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

from mujax_pipe.agents.gmz import GMZ
from mujax_pipe.agents.types import EnvironmentSpec
from tests.fakes import SPEC, tiny_config

STEP = np.int32(0)


class Bandits(GMZ):
    """Bandits with known tables: an observation holds prior logits, then the reward of each arm."""

    root_value = 0.25

    def root(self, params, observation):
        logits, _ = jnp.split(observation, 2, axis=-1)
        value = jnp.full(len(observation), self.root_value)
        return mctx.RootFnOutput(prior_logits=logits, value=value, embedding=observation)

    def _recurrent(self, params, key, action, embedding):
        _, rewards = jnp.split(embedding, 2, axis=-1)
        reward = jnp.take_along_axis(rewards, action[:, None], axis=-1)[:, 0]
        output = mctx.RecurrentFnOutput(
            reward=reward,
            discount=jnp.zeros_like(reward),
            prior_logits=jnp.zeros_like(rewards),
            value=jnp.zeros_like(reward),
        )
        return output, embedding


def play_bandits(logits, rewards, *, explore=False, key=0, invalid=None, **settings):
    num_actions = logits.shape[-1]
    spec = EnvironmentSpec(observation_dim=2 * num_actions, num_actions=num_actions)
    algorithm = Bandits(tiny_config(**settings), spec)
    observation = jnp.concatenate([logits, rewards], axis=-1)
    invalid = np.zeros(logits.shape, bool) if invalid is None else invalid
    search = jax.jit(functools.partial(algorithm.search, explore=explore))
    return search({}, jax.random.key(key), observation, invalid, STEP)


def test_a_bandit_of_two_arms_in_closed_form():
    """Eight simulations visit each arm four times, so that every Q value is known.

    The improved policy is softmax(logits + (c_visit + 4) c_scale q), q rescaled to [0, 1]; the
    root's value is that of acting by it.
    """
    logits, rewards = jnp.array([[0.3, -0.2]]), jnp.array([[0.1, 0.7]])
    output = play_bandits(logits, rewards, num_simulations=8, value_scale=0.02, maxvisit_init=46.0)
    expected = jax.nn.softmax(logits + (46.0 + 4.0) * 0.02 * jnp.array([[0.0, 1.0]]))
    np.testing.assert_allclose(output.policy_probs, expected, rtol=1e-4)
    np.testing.assert_allclose(output.value, jnp.sum(expected * rewards, axis=-1), rtol=1e-4)
    np.testing.assert_array_equal(output.action, [1])
    assert output.action.dtype == jnp.int32


@pytest.mark.parametrize("num_simulations", [2, 8])
def test_the_improved_policy_is_no_worse_than_the_prior(num_simulations):
    """Danihelka et al. 2022, section 4: for any prior and any Q, however few simulations."""
    rng = np.random.default_rng(0)
    logits, rewards = rng.normal(size=(2, 256, 5)).astype(np.float32)
    output = play_bandits(jnp.array(logits), jnp.array(rewards), num_simulations=num_simulations)
    prior = (jax.nn.softmax(logits) * rewards).sum(axis=-1)
    improved = (output.policy_probs * rewards).sum(axis=-1)
    # The value of unvisited arms is an estimate, so a single bandit may lose; not their mean.
    assert float((improved - prior).mean()) > 0.1
    if num_simulations == 8:
        assert float((improved >= prior - 1e-4).mean()) > 0.95


def test_enough_simulations_find_the_best_arm():
    rng = np.random.default_rng(1)
    rewards = jnp.array(rng.permuted(np.tile(np.arange(4.0), (64, 1)), axis=1), jnp.float32)
    output = play_bandits(jnp.zeros((64, 4)), rewards, num_simulations=16, value_scale=1.0)
    np.testing.assert_array_equal(output.action, np.argmax(rewards, axis=-1))


def test_settings_of_the_policy_reach_the_search():
    logits, rewards = jnp.array([[0.0, 0.0]]), jnp.array([[0.0, 1.0]])
    probs = lambda **settings: float(
        play_bandits(logits, rewards, num_simulations=4, **settings).policy_probs[0, 1]
    )
    assert probs(value_scale=0.0) == pytest.approx(0.5)
    assert probs(value_scale=0.01, maxvisit_init=0.0) < probs(value_scale=0.01) - 0.05
    # With one action considered only the prior's favourite is visited.
    one = play_bandits(
        jnp.array([[1.0, 0.0]]), jnp.array([[0.0, 1.0]]), max_num_considered_actions=1
    )
    assert one.action.tolist() == [0]


# The network's own search.


def test_values_closer_than_the_smallest_range_are_not_stretched():
    """Differences of a hundredth of it move the policy by a hundredth of the scale."""
    logits, rewards = jnp.array([[0.3, -0.2]]), jnp.array([[0.001, 0.002]])
    settings = {"num_simulations": 8, "value_scale": 0.02, "maxvisit_init": 46.0}
    output = play_bandits(logits, rewards, min_value_range=0.1, **settings)
    expected = jax.nn.softmax(logits + (46.0 + 4.0) * 0.02 * jnp.array([[0.0, 0.01]]))
    np.testing.assert_allclose(output.policy_probs, expected, rtol=1e-4)
    stretched = play_bandits(logits, rewards, min_value_range=1e-8, **settings)
    assert stretched.policy_probs[0, 1] > output.policy_probs[0, 1] + 0.1


@pytest.fixture(scope="module")
def algorithm():
    return GMZ(tiny_config(num_simulations=4), SPEC)


@pytest.fixture(scope="module")
def params(algorithm):
    leaves, tree = jax.tree.flatten(algorithm.init(jax.random.key(0)))
    rng = np.random.default_rng(0)
    noise = lambda x: 0.3 * rng.normal(size=x.shape).astype(np.float32)
    return tree.unflatten([x + noise(x) for x in leaves])


@pytest.fixture(scope="module")
def greedy(algorithm):
    return jax.jit(functools.partial(algorithm.search, explore=False))


@pytest.fixture(scope="module")
def noisy(algorithm):
    return jax.jit(functools.partial(algorithm.search, explore=True))


B = 32
OBSERVATIONS = np.random.default_rng(2).normal(size=(B, 2)).astype(np.float32)
LEGAL = np.zeros((B, 3), bool)


def masks():
    """Every mask that leaves an action, over and over."""
    kinds = np.array([[int(bit) for bit in f"{n:03b}"] for n in range(7)], bool)
    return kinds[np.arange(B) % 7]


@pytest.mark.parametrize("explore", [False, True])
def test_illegal_actions_have_no_chance(greedy, noisy, params, explore):
    search, invalid = (noisy if explore else greedy), masks()
    for number in range(8):
        output = search(params, jax.random.key(number), OBSERVATIONS, invalid, STEP)
        np.testing.assert_array_equal(output.policy_probs[invalid], 0.0)
        assert not invalid[np.arange(B), output.action].any()
        np.testing.assert_allclose(output.policy_probs.sum(axis=-1), 1.0, rtol=1e-5)
        assert np.isfinite(output.value).all()
        assert (np.asarray(output.policy_probs)[~invalid] > 0.0).all()


def test_one_legal_action_is_taken_with_certainty(greedy, params):
    invalid = ~np.eye(3, dtype=bool)[np.arange(B) % 3]
    output = greedy(params, jax.random.key(0), OBSERVATIONS, invalid, STEP)
    np.testing.assert_array_equal(output.action, np.arange(B) % 3)
    np.testing.assert_array_equal(output.policy_probs, ~invalid)
    assert np.isfinite(output.value).all()


def test_without_exploration_the_key_does_not_matter(greedy, params):
    one, other = (greedy(params, jax.random.key(k), OBSERVATIONS, LEGAL, STEP) for k in (0, 12345))
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_exploration_draws_from_the_key(noisy, greedy, params):
    actions = [
        np.asarray(noisy(params, jax.random.key(k), OBSERVATIONS, LEGAL, STEP).action)
        for k in (0, 1, 0)
    ]
    assert (actions[0] != actions[1]).any()
    np.testing.assert_array_equal(actions[0], actions[2])
    assert (greedy(params, jax.random.key(0), OBSERVATIONS, LEGAL, STEP).action != actions[0]).any()


def test_a_state_is_searched_alike_in_any_company(greedy, params):
    whole = greedy(params, jax.random.key(0), OBSERVATIONS, LEGAL, STEP)
    some = greedy(params, jax.random.key(0), OBSERVATIONS[3:5], LEGAL[3:5], STEP)
    np.testing.assert_array_equal(whole.action[3:5], some.action)
    np.testing.assert_allclose(whole.policy_probs[3:5], some.policy_probs, rtol=1e-4, atol=1e-6)


def test_the_model_says_what_a_simulated_step_brings(algorithm, params):
    """Reward, value and prior of the network after the action; the discount of the config."""
    root = algorithm.root(params, OBSERVATIONS)
    action = jnp.arange(B) % 3
    output, embedding = algorithm._recurrent(params, jax.random.key(0), action, root.embedding)
    network = algorithm.bind(params)
    following, reward = network.dynamics(root.embedding, algorithm.one_hot_action(action))
    np.testing.assert_array_equal(embedding, following)
    np.testing.assert_array_equal(output.reward, algorithm.to_scalar(reward))
    np.testing.assert_array_equal(output.prior_logits, network.predict(following)[0])
    np.testing.assert_array_equal(output.value, algorithm.to_scalar(network.predict(following)[1]))
    np.testing.assert_array_equal(output.discount, np.float32(algorithm.config.discount))
