"""Search in models given as exact tables, against value iteration.

The tables enter where the networks do: `bind` returns them, and the callbacks that the algorithms
give to mctx read them. States are one-hot, so that a table is a matrix product away.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mujax_pipe.agents.gmz import GMZ
from mujax_pipe.agents.smz import SMZ
from mujax_pipe.agents.types import EnvironmentSpec
from tests.fakes import tiny_config
from tests.learning.toys import tiny_smz_config

S, A, C = 5, 3, 3
SPEC = EnvironmentSpec(observation_dim=S, num_actions=A)
DISCOUNT = 0.5
STATES = np.eye(S, dtype=np.float32)
STEP = np.int32(0)

# A deterministic model: where each action leads from each state, and what it pays.
FOLLOWING = np.array([[1, 2, 0], [3, 0, 4], [4, 2, 1], [0, 4, 3], [4, 1, 2]])
REWARDS = np.array(
    [[0.0, 0.4, 0.2], [0.5, -0.4, 1.0], [-0.2, 0.4, 0.0], [0.9, -0.1, 0.0], [0.1, 0.1, 0.1]]
)

# A stochastic one: odds, destination and pay of each of three outcomes of each action.
ODDS = np.array(
    [
        [[0.5, 0.25, 0.25], [0.2, 0.8, 0.0], [0.2, 0.2, 0.6]],
        [[0.1, 0.8, 0.1], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]],
        [[0.4, 0.2, 0.4], [0.3, 0.3, 0.4], [0.0, 0.5, 0.5]],
        [[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.5, 0.0, 0.5]],
        [[0.0, 0.1, 0.9], [0.7, 0.2, 0.1], [0.25, 0.5, 0.25]],
    ]
)
OUTCOME_FOLLOWING = (FOLLOWING[:, :, None] + np.arange(C)) % S
OUTCOME_REWARDS = REWARDS[:, :, None] + np.array([-0.3, 0.0, 0.6])


def optimal_q(odds, following, rewards):
    """Value iteration; every argument is [S, A, C]."""
    value = np.zeros(S)
    for _ in range(100):
        q = np.sum(odds * (rewards + DISCOUNT * value[following]), axis=-1)
        value = q.max(axis=-1)
    return q


Q = optimal_q(np.ones((S, A, 1)), FOLLOWING[:, :, None], REWARDS[:, :, None])
STOCHASTIC_Q = optimal_q(ODDS, OUTCOME_FOLLOWING, OUTCOME_REWARDS)


class Table:
    """A network without a policy that knows the dynamics, and of values only a common bound.

    Rewards are at most 1.6, so that no state is worth more than 3.2. A search that starts from too
    much looks everywhere; all that is right in the end it has found itself.
    """

    BOUND = 3.2

    def represent(self, observation):
        return observation

    def predict(self, embedding):
        batch = embedding.shape[:-1]
        return jnp.zeros((*batch, A)), jnp.full(batch, self.BOUND)

    def dynamics(self, embedding, action):
        following = jnp.einsum("bs,ba,sat->bt", embedding, action, np.eye(S)[FOLLOWING])
        return following, jnp.einsum("bs,ba,sa->b", embedding, action, REWARDS)


class StochasticTable(Table):
    """An afterstate is a state and an action, [S A] one-hot."""

    def act(self, embedding, action):
        pairs = embedding[:, :, None] * action[:, None, :]
        return pairs.reshape(len(pairs), S * A)

    def predict_afterstate(self, afterstate):
        odds = afterstate @ ODDS.reshape(S * A, C)
        return jnp.log(jnp.maximum(odds, 1e-30)), jnp.full(len(afterstate), self.BOUND)

    def dynamics(self, afterstate, code):
        destination = np.eye(S)[OUTCOME_FOLLOWING].reshape(S * A, C, S)
        following = jnp.einsum("bp,bc,pct->bt", afterstate, code, destination)
        rewards = OUTCOME_REWARDS.reshape(S * A, C)
        return following, jnp.einsum("bp,bc,pc->b", afterstate, code, rewards)


class KnownGMZ(GMZ):
    def bind(self, params):
        return Table()

    def to_scalar(self, logits):
        return logits


class KnownSMZ(SMZ):
    def bind(self, params):
        return StochasticTable()

    def to_scalar(self, logits):
        return logits


def make(cls, **settings):
    settings = {"discount": DISCOUNT, **settings}
    if cls is KnownGMZ:
        return cls(tiny_config(**settings), SPEC)
    return cls(tiny_smz_config(num_codes=C, **settings), SPEC)


def search(cls, states=STATES, *, invalid=None, explore=False, **settings):
    """Searches from several states at once."""
    invalid = np.zeros((len(states), A), bool) if invalid is None else invalid
    program = jax.jit(functools.partial(make(cls, **settings).search, explore=explore))
    return program({}, jax.random.key(0), states, invalid, STEP)


# Every state with every single action that may be legal there.
EACH_STATE, EACH_ACTION = np.repeat(STATES, A, axis=0), np.tile(np.arange(A), S)
ONLY = np.eye(A, dtype=bool)[EACH_ACTION]


@pytest.mark.parametrize(("cls", "q"), [(KnownGMZ, Q), (KnownSMZ, STOCHASTIC_Q)])
def test_search_values_converge_to_the_exact_ones(cls, q):
    """With one legal action the value of a search is that action's."""
    errors = [
        np.abs(search(cls, EACH_STATE, invalid=~ONLY, num_simulations=number).value - q.ravel())
        for number in (8, 64, 1024)
    ]
    means = [float(error.mean()) for error in errors]
    assert means[0] > 2.0 * means[1] > 4.0 * means[2]
    assert errors[-1].max() < 0.1


@pytest.mark.parametrize(("cls", "q"), [(KnownGMZ, Q), (KnownSMZ, STOCHASTIC_Q)])
def test_the_best_action_is_found(cls, q):
    best, second = np.sort(q, axis=-1)[:, ::-1][:, :2].T
    assert (best - second).min() > 0.04  # No ties to argue about.
    found = search(cls, num_simulations=512)
    np.testing.assert_array_equal(found.action, q.argmax(axis=-1))
    np.testing.assert_array_equal(np.argmax(found.policy_probs, axis=-1), q.argmax(axis=-1))


@pytest.mark.parametrize("explore", [False, True])
@pytest.mark.parametrize("cls", [KnownGMZ, KnownSMZ])
def test_illegal_actions_have_no_chance(cls, explore):
    """The best action is illegal: none of its visits, none of its probability."""
    q = Q if cls is KnownGMZ else STOCHASTIC_Q
    states, actions = np.tile(STATES, (20, 1)), np.tile(q.argmax(axis=-1), 20)
    invalid = np.eye(A, dtype=bool)[actions]
    found = search(cls, states, invalid=invalid, explore=explore, num_simulations=32)
    assert (found.action != actions).all()
    np.testing.assert_array_equal(np.asarray(found.policy_probs)[invalid], 0.0)
    np.testing.assert_allclose(found.policy_probs.sum(axis=-1), 1.0, rtol=1e-6)
    assert np.isfinite(found.value).all()


@pytest.mark.parametrize("explore", [False, True])
@pytest.mark.parametrize("cls", [KnownGMZ, KnownSMZ])
def test_one_legal_action_is_taken_with_certainty(cls, explore):
    for number in (1, 8):
        found = search(cls, EACH_STATE, invalid=~ONLY, explore=explore, num_simulations=number)
        np.testing.assert_array_equal(found.action, EACH_ACTION)
        np.testing.assert_array_equal(found.policy_probs, ONLY)
        assert np.isfinite(found.value).all()


def test_chance_outcomes_are_visited_by_their_odds():
    """One legal action and no future: the value is a mean over the outcomes that were visited.

    The root has its own estimate, the first of 101 simulations the afterstate's; the other 100 go
    to outcomes of odds 0.5, 0.25 and 0.25.
    """
    first, rest = STATES[:1], ~ONLY[:1]
    found = search(KnownSMZ, first, invalid=rest, num_simulations=101, discount=0.0)
    counts = np.array([50, 25, 25])
    expected = (2 * Table.BOUND + counts @ OUTCOME_REWARDS[0, 0]) / 102
    np.testing.assert_allclose(found.value, expected, atol=0.01)


def test_the_improved_policy_of_a_bandit_is_no_worse_than_the_prior():
    """Danihelka et al. 2022, section 4: the sum of pi' q is at least that of pi q.

    Every arm is visited, so that q is exact and the claim holds for each bandit, not on average.
    """
    rng = np.random.default_rng(0)
    num = 500
    logits = (2.0 * rng.normal(size=(num, A))).astype(np.float32)
    rewards = rng.normal(size=(num, A)).astype(np.float32)

    class Bandits(GMZ):
        def bind(self, params):
            return BanditTable()

        def to_scalar(self, logits):
            return logits

    class BanditTable:
        """An embedding holds prior logits, then the reward of each arm."""

        def represent(self, observation):
            return observation

        def predict(self, embedding):
            return embedding[:, :A], jnp.zeros(len(embedding))

        def dynamics(self, embedding, action):
            return embedding, jnp.sum(embedding[:, A:] * action, axis=-1)

    spec = EnvironmentSpec(observation_dim=2 * A, num_actions=A)
    algorithm = Bandits(tiny_config(num_simulations=12, discount=0.0), spec)
    observation = np.concatenate([logits, rewards], axis=-1)
    program = jax.jit(functools.partial(algorithm.search, explore=False))
    found = program({}, jax.random.key(0), observation, np.zeros((num, A), bool), STEP)
    prior = np.sum(jax.nn.softmax(logits) * rewards, axis=-1)
    improved = np.sum(found.policy_probs * rewards, axis=-1)
    assert (improved >= prior - 1e-5).all()
    assert float((improved - prior).mean()) > 0.3
