import dataclasses
import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mujax_pipe.agents.returns import make_targets
from mujax_pipe.agents.smz import (
    SMZ,
    chance_metrics,
    most_visited_score,
    nearest_code,
    straight_through,
)
from tests.fakes import SPEC, numbered
from tests.learning.toys import tiny_smz_config

K, C = 2, 4


def randomised(algorithm):
    """Parameters without the zeros of fresh output layers, which stop gradients at first."""
    leaves, tree = jax.tree.flatten(algorithm.init(jax.random.key(0)))
    rng = np.random.default_rng(0)
    return tree.unflatten(
        [leaf + 0.3 * rng.normal(size=leaf.shape).astype(np.float32) for leaf in leaves]
    )


@pytest.fixture(scope="module")
def algorithm():
    return SMZ(tiny_smz_config(), SPEC)


@pytest.fixture(scope="module")
def params(algorithm):
    return randomised(algorithm)


def some_targets(algorithm, **fields):
    windows = numbered(8, algorithm.config.window_length)
    rng = np.random.default_rng(1)
    shape = windows.reward.shape
    windows = dataclasses.replace(
        windows,
        reward=rng.normal(size=shape).astype(np.float32),
        policy_probs=rng.dirichlet(np.ones(3), size=shape).astype(np.float32),
        **fields,
    )
    return make_targets(windows, np.ones_like(windows.reward), algorithm.config)


@pytest.fixture(scope="module")
def targets(algorithm):
    return some_targets(algorithm)


@pytest.fixture(scope="module")
def loss_and_grad(algorithm):
    return jax.jit(jax.value_and_grad(algorithm.loss, has_aux=True))


def largest(tree):
    return max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(tree))


# Codes.


def test_the_nearest_code_is_the_largest_coordinate():
    encoded = jnp.array([[0.2, 0.5, 0.3], [0.4, 0.3, 0.3]])
    np.testing.assert_array_equal(nearest_code(encoded), [[0, 1, 0], [1, 0, 0]])
    distances = np.square(np.asarray(encoded)[:, None] - np.eye(3)).sum(axis=-1)
    np.testing.assert_array_equal(np.argmax(nearest_code(encoded), -1), distances.argmin(-1))


def test_straight_through_has_the_value_of_the_code_and_the_gradient_of_the_encoding():
    encoded, code, weights = (jnp.array(x) for x in ([0.2, 0.8], [0.0, 1.0], [3.0, 5.0]))
    value, gradient = jax.value_and_grad(lambda e: weights @ straight_through(e, code))(encoded)
    np.testing.assert_allclose(value, 5.0, rtol=1e-6)
    np.testing.assert_array_equal(gradient, weights)


def test_chance_metrics_by_hand():
    """Three real transitions use codes 0, 0 and 1; the prior is even over two codes, then sure."""
    code = jnp.array([[[1.0, 0, 0], [1.0, 0, 0]], [[0, 1.0, 0], [0, 0, 1.0]]])
    mask = jnp.array([[1.0, 1.0], [1.0, 0.0]])
    even, sure = [0.0, 0.0, -1e9], [0.0, -1e9, -1e9]
    logits = jnp.array([[even, sure], [even, [0.0, 0.0, 0.0]]])
    metrics = chance_metrics(logits, code, mask)
    usage = np.exp(-(2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3)))
    np.testing.assert_allclose(metrics["code_perplexity"], usage, rtol=1e-5)
    np.testing.assert_array_equal(metrics["codes_used"], 2.0)
    np.testing.assert_allclose(metrics["chance_perplexity"], 2 ** (2 / 3), rtol=1e-5)


def test_chance_metrics_without_a_real_transition_are_finite():
    metrics = chance_metrics(jnp.zeros((2, K, C)), jnp.zeros((2, K, C)), jnp.zeros((2, K)))
    assert {name: float(x) for name, x in metrics.items()} == {
        "code_perplexity": 1.0,
        "codes_used": 0.0,
        "chance_perplexity": 1.0,
    }


# Gradients.


def test_gradients_reach_every_parameter(params, targets, loss_and_grad):
    _, gradients = loss_and_grad(params, targets)
    for path, gradient in jax.tree.leaves_with_path(gradients):
        assert np.abs(gradient).max() > 1e-7, jax.tree_util.keystr(path)


def encoder_gradient(params, targets, monkeypatch, *, through, commitment):
    """The encoder's largest gradient, with or without each of its two ways in."""
    if not through:
        cut = lambda encoded, code: code
        monkeypatch.setattr("mujax_pipe.agents.smz.straight_through", cut)
    algorithm = SMZ(tiny_smz_config(commitment_weight=commitment), SPEC)
    gradients, _ = jax.jit(jax.grad(algorithm.loss, has_aux=True))(params, targets)
    assert largest(gradients["transit"]) > 0
    return largest(gradients["encoder"])


@pytest.mark.parametrize(
    ("through", "commitment", "reached"),
    [(True, 0.0, True), (False, 1.0, True), (False, 0.0, False)],
)
def test_the_encoder_learns_through_the_dynamics_and_by_commitment_alone(
    params, targets, monkeypatch, through, commitment, reached
):
    """Straight through the code or by commitment; nothing else, the chance prior least of all."""
    gradient = encoder_gradient(
        params, targets, monkeypatch, through=through, commitment=commitment
    )
    assert (gradient > 1e-6) == reached


def test_the_chance_prior_learns_from_codes_it_cannot_move(params, targets, algorithm):
    """Its loss alone has no gradient for the encoder."""
    chance_loss = lambda p: algorithm.loss(p, targets)[1]["chance_loss"]
    gradients = jax.jit(jax.grad(chance_loss))(params)
    assert largest(gradients["chance"]) > 0
    # The codes do reach later afterstates through the dynamics; a single step has none.
    one = SMZ(tiny_smz_config(unroll_steps=1), SPEC)
    chance_loss = lambda p: one.loss(p, some_targets(one))[1]["chance_loss"]
    gradients = jax.jit(jax.grad(chance_loss))(params)
    assert largest(gradients["chance"]) > 0 and largest(gradients["encoder"]) == 0


# Losses.


def test_the_loss_is_the_weighted_sum_of_its_parts(params, targets):
    weights = {
        "policy": 2.0,
        "value": 3.0,
        "reward": 5.0,
        "afterstate_value": 7.0,
        "chance": 11.0,
        "commitment": 13.0,
        "consistency": 17.0,
    }
    settings = {f"{name}_weight": weight for name, weight in weights.items()}
    algorithm = SMZ(tiny_smz_config(**settings), SPEC)
    loss, metrics = jax.jit(algorithm.loss)(params, targets)
    expected = sum(weight * metrics[f"{name}_loss"] for name, weight in weights.items())
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_a_fresh_network_pays_the_entropy_of_uniform_heads(algorithm, targets, loss_and_grad):
    """Logits are 0: each step costs log A, D or C, 2 for root and unrolled steps, else 1."""
    (_, metrics), _ = loss_and_grad(algorithm.init(jax.random.key(0)), targets)
    np.testing.assert_allclose(metrics["policy_loss"], 2 * np.log(3), rtol=1e-5)
    np.testing.assert_allclose(metrics["value_loss"], 2 * np.log(21), rtol=1e-5)
    np.testing.assert_allclose(metrics["reward_loss"], np.log(21), rtol=1e-5)
    np.testing.assert_allclose(metrics["afterstate_value_loss"], np.log(21), rtol=1e-5)
    np.testing.assert_allclose(metrics["chance_loss"], np.log(C), rtol=1e-5)
    np.testing.assert_allclose(metrics["chance_perplexity"], C, rtol=1e-5)


def test_commitment_is_the_squared_distance_to_the_code_by_hand(algorithm, params, targets):
    (_, metrics), _ = jax.jit(jax.value_and_grad(algorithm.loss, has_aux=True))(params, targets)
    network = algorithm.bind(params)
    encoded = np.asarray(network.encode(targets.observation[:, :-1], targets.observation[:, 1:]))
    code = np.eye(C)[encoded.argmax(axis=-1)]
    # Both transitions weigh 1/2.
    expected = np.square(encoded - code).sum(axis=-1).mean()
    np.testing.assert_allclose(metrics["commitment_loss"], expected, rtol=1e-4)


def test_what_follows_a_truncated_episode_does_not_count(algorithm, params, loss_and_grad):
    """Cut after its first step, a window has no second transition: whatever stands there."""
    shape = (8, algorithm.config.window_length)
    truncated = np.zeros(shape, bool)
    truncated[:, 0] = True
    one = some_targets(algorithm, truncated=truncated)
    other = dataclasses.replace(
        one,
        action=one.action.at[:, 1].set(0),
        reward_probs=one.reward_probs.at[:, 1].set(one.reward_probs[:, 0]),
        value_probs=one.value_probs.at[:, 1:].set(one.value_probs[:, :1]),
        observation=one.observation.at[:, 2].set(9.0),
    )
    jax.tree.map(
        np.testing.assert_array_equal,
        loss_and_grad(params, one)[1],
        loss_and_grad(params, other)[1],
    )


@pytest.mark.parametrize("name", ["afterstate_value", "chance"])
def test_past_a_terminal_state_afterstates_are_trained_too(algorithm, params, name):
    """Absorbing states have zero value in the tree only if their afterstates have."""
    discount = np.ones((8, algorithm.config.window_length), np.float32)
    discount[:, 0] = 0.0
    ended = some_targets(algorithm, discount=discount)
    other = dataclasses.replace(ended, action=(ended.action.at[:, 1].add(1)) % 3)
    # The action taken in the absorbing state moves its afterstate, and so the loss.
    loss = jax.jit(lambda targets: algorithm.loss(params, targets)[1][f"{name}_loss"])
    assert float(loss(ended)) != float(loss(other))


def test_the_afterstate_learns_the_return_of_the_state_before_it(algorithm, params, targets):
    """Same return: the reward follows the afterstate. Its target at k is the value's at k."""
    afterstate_loss = jax.jit(lambda t: algorithm.loss(params, t)[1]["afterstate_value_loss"])
    base = float(afterstate_loss(targets))
    other = targets.value_probs[::-1]
    changed = lambda k: dataclasses.replace(
        targets, value_probs=targets.value_probs.at[:, k].set(other[:, k])
    )
    assert float(afterstate_loss(changed(0))) != base != float(afterstate_loss(changed(1)))
    # The last state has no afterstate in the window.
    assert float(afterstate_loss(changed(K))) == base


def test_the_unrolled_model_is_the_network_step_by_step(algorithm, params, targets):
    network = algorithm.bind(params)
    codes = jax.nn.one_hot(jnp.arange(8 * K).reshape(8, K) % C, C)
    unrolled = algorithm._unroll(network, targets, codes)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    embedding = network.represent(targets.observation[:, 0])
    for step in range(K):
        policy, value = network.predict(embedding)
        close(unrolled.policy[:, step], policy)
        close(unrolled.value[:, step], value)
        afterstate = network.act(embedding, algorithm.one_hot_action(targets.action[:, step]))
        chance, afterstate_value = network.predict_afterstate(afterstate)
        close(unrolled.chance[:, step], chance)
        close(unrolled.afterstate_value[:, step], afterstate_value)
        embedding, reward = network.dynamics(afterstate, codes[:, step])
        close(unrolled.reward[:, step], reward)
    close(unrolled.value[:, K], network.predict(embedding)[1])


# Search.

B = 32
OBSERVATIONS = np.random.default_rng(2).normal(size=(B, 2)).astype(np.float32)
LEGAL = np.zeros((B, 3), bool)


def searcher(explore, **settings):
    algorithm = SMZ(tiny_smz_config(**{"num_simulations": 6, **settings}), SPEC)
    return jax.jit(functools.partial(algorithm.search, explore=explore))


@pytest.fixture(scope="module")
def greedy():
    return searcher(False)


@pytest.fixture(scope="module")
def noisy():
    return searcher(True)


def assert_same(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_evaluation_depends_on_neither_key_nor_noise_nor_temperature(greedy, params):
    search = lambda program, key, step: program(
        params, jax.random.key(key), OBSERVATIONS, LEGAL, np.int32(step)
    )
    base = search(greedy, 0, 0)
    assert_same(base, search(greedy, 123, 19))
    loud = searcher(False, dirichlet_fraction=1.0, temperatures=(5.0,))
    assert_same(base, search(loud, 7, 3))


def test_exploration_draws_from_the_key(noisy, params):
    search = lambda key: noisy(params, jax.random.key(key), OBSERVATIONS, LEGAL, np.int32(0))
    assert_same(search(0), search(0))
    assert (np.asarray(search(0).action) != np.asarray(search(1).action)).any()
    assert (np.asarray(search(0).policy_probs) != np.asarray(search(1).policy_probs)).any()


def test_root_noise_changes_the_visits_and_nothing_else_does(params):
    """Without noise all that a key moves is the draw of the action."""
    quiet = searcher(True, dirichlet_fraction=0.0)
    one, other = (
        quiet(params, jax.random.key(k), OBSERVATIONS, LEGAL, np.int32(0)) for k in (0, 1)
    )
    np.testing.assert_array_equal(one.policy_probs, other.policy_probs)
    assert (one.action != other.action).any()


def test_the_temperature_of_the_schedule_reaches_the_draw(params):
    """At temperature 0 the most visited action is certain; at 1 it is not."""
    # Of seven visits to three actions one has more than another.
    schedule = {"temperatures": (1.0, 0.0), "num_learner_steps": 20, "num_simulations": 7}
    search, greedy = searcher(True, dirichlet_fraction=0.0, **schedule), searcher(False, **schedule)
    best = greedy(params, jax.random.key(0), OBSERVATIONS, LEGAL, np.int32(0)).policy_probs.max(-1)
    share = []
    for step in (0, 10):
        found = search(params, jax.random.key(3), OBSERVATIONS, LEGAL, np.int32(step))
        taken = np.take_along_axis(np.asarray(found.policy_probs), found.action[:, None], 1)[:, 0]
        share.append(float((taken == best).mean()))
    assert share[0] < 1.0 == share[1]


@pytest.mark.parametrize("explore", [False, True])
def test_illegal_actions_have_no_chance(greedy, noisy, params, explore):
    kinds = np.array([[int(bit) for bit in f"{n:03b}"] for n in range(7)], bool)
    invalid, search = kinds[np.arange(B) % 7], noisy if explore else greedy
    for number in range(8):
        found = search(params, jax.random.key(number), OBSERVATIONS, invalid, np.int32(0))
        np.testing.assert_array_equal(np.asarray(found.policy_probs)[invalid], 0.0)
        np.testing.assert_allclose(found.policy_probs.sum(axis=-1), 1.0, rtol=1e-5)
        assert not invalid[np.arange(B), found.action].any()
        assert np.isfinite(found.value).all()


def test_the_temperature_falls_in_even_parts_of_the_run():
    algorithm = SMZ(tiny_smz_config(temperatures=(1.0, 0.5, 0.25), num_learner_steps=9), SPEC)
    steps = (0, 2, 3, 5, 6, 8, 9, 1000)
    found = [float(algorithm.temperature(jnp.int32(step))) for step in steps]
    assert found == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25]
    constant = SMZ(tiny_smz_config(temperatures=(0.7,)), SPEC)
    assert float(constant.temperature(jnp.int32(5))) == pytest.approx(0.7)


def test_visits_rank_first_then_values_and_illegal_actions_last():
    summary = types.SimpleNamespace(
        visit_counts=jnp.array([[3.0, 3.0, 1.0, 0.0]]),
        qvalues=jnp.array([[0.1, 0.2, 9.0, 99.0]]),
    )
    order = lambda invalid: np.argsort(-most_visited_score(summary, jnp.array([invalid]))[0])
    assert order([False] * 4).tolist() == [1, 0, 2, 3]
    assert order([False, True, False, False]).tolist() == [0, 2, 3, 1]
    # An unvisited legal action still comes before an illegal one that has all the visits.
    assert order([True, True, True, False])[0] == 3


def test_values_closer_than_the_smallest_range_do_not_steer_the_visits(params):
    """With a range beyond every value visits follow the prior, as if all actions were alike."""

    def visits(smallest):
        search = searcher(False, num_simulations=32, min_value_range=smallest)
        return np.asarray(
            search(params, jax.random.key(0), OBSERVATIONS, LEGAL, np.int32(0)).policy_probs
        )

    prior = SMZ(tiny_smz_config(), SPEC).policy_and_value(params, OBSERVATIONS, LEGAL)[0]
    distance = [np.abs(visits(smallest) - prior).max(axis=-1).mean() for smallest in (1e9, 1e-8)]
    assert distance[0] < 0.1 < distance[1]
