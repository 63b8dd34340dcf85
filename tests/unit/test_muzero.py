import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mujax_pipe.agents import ALGORITHMS, algorithm_for, algorithm_name
from mujax_pipe.agents.gmz import GMZ
from mujax_pipe.agents.muzero import (
    consistency,
    policy_metrics,
    step_weights,
    weighted_cross_entropy,
)
from mujax_pipe.agents.returns import make_targets
from mujax_pipe.config import CONFIGS, MuZeroConfig
from tests.fakes import SPEC, numbered, tiny_config

K = 2


@pytest.fixture(scope="module")
def algorithm():
    return GMZ(tiny_config(), SPEC)


@pytest.fixture(scope="module")
def params(algorithm):
    """Without the zeros of fresh output layers, which stop gradients on their first step."""
    leaves, tree = jax.tree.flatten(algorithm.init(jax.random.key(0)))
    rng = np.random.default_rng(0)
    return tree.unflatten(
        [leaf + 0.3 * rng.normal(size=leaf.shape).astype(np.float32) for leaf in leaves]
    )


@pytest.fixture(scope="module")
def targets(algorithm):
    windows = numbered(4, algorithm.config.window_length)
    rng = np.random.default_rng(1)
    windows = dataclasses.replace(
        windows,
        reward=rng.normal(size=windows.reward.shape).astype(np.float32),
        policy_probs=rng.dirichlet(np.ones(3), size=windows.reward.shape).astype(np.float32),
    )
    return make_targets(windows, np.ones_like(windows.reward), algorithm.config)


@pytest.fixture(scope="module")
def loss_and_grad(algorithm):
    return jax.jit(jax.value_and_grad(algorithm.loss, has_aux=True))


def test_the_root_weighs_as_much_as_all_unrolled_steps():
    np.testing.assert_array_equal(step_weights(4), [1.0, 0.25, 0.25, 0.25, 0.25])
    np.testing.assert_array_equal(step_weights(1), [1.0, 1.0])


def test_weighted_cross_entropy_by_hand():
    logits = jnp.log(jnp.array([[[0.5, 0.5], [0.25, 0.75]], [[0.9, 0.1], [0.2, 0.8]]]))
    probs = jnp.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [1.0, 0.0]]])
    mask = jnp.array([[1.0, 1.0], [1.0, 0.0]])
    weights = jnp.array([1.0, 0.5])
    first = -np.log(0.5) - 0.5 * (0.5 * np.log(0.25) + 0.5 * np.log(0.75))
    expected = (first - np.log(0.1)) / 2
    result = weighted_cross_entropy(logits, probs, mask, weights)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_a_masked_target_has_no_gradient():
    logits = jnp.arange(12.0).reshape(2, 2, 3)
    probs = jnp.full((2, 2, 3), 1 / 3).at[:, :, 0].set(0.9)
    mask = jnp.array([[1.0, 0.0], [0.0, 1.0]])
    gradient = jax.grad(weighted_cross_entropy)(logits, probs, mask, jnp.ones(2))
    np.testing.assert_array_equal(np.abs(gradient).max(axis=-1) > 0, mask == 1.0)


def test_the_loss_is_the_weighted_sum_of_its_parts(targets, params):
    weights = {"policy": 2.0, "value": 3.0, "reward": 5.0, "consistency": 7.0}
    config = tiny_config(**{f"{name}_weight": weight for name, weight in weights.items()})
    algorithm = GMZ(config, SPEC)
    loss, metrics = jax.jit(algorithm.loss)(params, targets)
    expected = sum(weight * metrics[f"{name}_loss"] for name, weight in weights.items())
    assert all(metrics[f"{name}_loss"] > 0.1 for name in weights)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    np.testing.assert_array_equal(loss, metrics["loss"])


def test_a_fresh_network_pays_the_entropy_of_uniform_heads(algorithm, targets, loss_and_grad):
    """Logits are 0, so each step costs log D or log A: 2 for root and unrolled, 1 for rewards."""
    (_, metrics), _ = loss_and_grad(algorithm.init(jax.random.key(0)), targets)
    np.testing.assert_allclose(metrics["policy_loss"], 2 * np.log(3), rtol=1e-5)
    np.testing.assert_allclose(metrics["value_loss"], 2 * np.log(21), rtol=1e-5)
    np.testing.assert_allclose(metrics["reward_loss"], np.log(21), rtol=1e-5)
    np.testing.assert_allclose(metrics["prior_entropy"], np.log(3), rtol=1e-5)


def test_gradients_reach_every_parameter(params, targets, loss_and_grad):
    _, gradients = loss_and_grad(params, targets)
    for path, gradient in jax.tree.leaves_with_path(gradients):
        assert np.abs(gradient).max() > 1e-6, jax.tree_util.keystr(path)


@pytest.mark.parametrize("part", ["policy", "value", "reward"])
def test_each_loss_trains_its_own_head_alone(part, params, targets, loss_and_grad):
    """The other targets are masked, so only one loss is left."""
    masks = {
        f"{name}_mask": jnp.zeros_like(getattr(targets, f"{name}_mask"))
        for name in ("policy", "value", "reward")
        if name != part
    }
    _, gradients = loss_and_grad(params, dataclasses.replace(targets, **masks))

    def largest(tree):
        return max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(tree))

    head = {
        "policy": gradients["predict"]["policy"],
        "value": gradients["predict"]["value"],
        "reward": gradients["reward"],
    }
    assert {name for name, tree in head.items() if largest(tree) > 0} == {part}
    assert largest(gradients["represent"]) > 0


@pytest.mark.parametrize("name", ["policy", "value", "reward"])
def test_what_is_masked_does_not_count(name, params, targets, loss_and_grad):
    mask, probs = getattr(targets, f"{name}_mask"), getattr(targets, f"{name}_probs")
    cut = dataclasses.replace(targets, **{f"{name}_mask": mask.at[:, 1:].set(0.0)})
    other = dataclasses.replace(cut, **{f"{name}_probs": probs.at[:, 1:].set(probs[:, :1])})
    whole, one, two = (loss_and_grad(params, t) for t in (targets, cut, other))
    jax.tree.map(np.testing.assert_array_equal, one[1], two[1])
    assert float(whole[0][0]) != float(one[0][0])


def test_only_consistency_looks_at_later_observations(params, targets, loss_and_grad):
    """The model predicts steps 1..K from the root and the actions."""
    other = dataclasses.replace(targets, observation=targets.observation.at[:, 1:].set(7.0))
    moved = dataclasses.replace(targets, action=(targets.action + 1) % 3)
    whole, other, moved = (loss_and_grad(params, t)[0][1] for t in (targets, other, moved))
    for name in ("policy_loss", "value_loss", "reward_loss"):
        assert float(whole[name]) == float(other[name]) != float(moved[name])
    assert float(whole["consistency_loss"]) != float(other["consistency_loss"])


def test_consistency_by_hand():
    """Angles of 0, 90 and 180 degrees, and a state that was not reached."""
    unrolled = jnp.array([[[2.0, 0.0], [0.0, 3.0]], [[1.0, 0.0], [1.0, 1.0]]])
    encoded = jnp.array([[[5.0, 0.0], [4.0, 0.0]], [[-1.0, 0.0], [9.0, -2.0]]])
    mask = jnp.array([[1.0, 1.0], [1.0, 0.0]])
    found = consistency(unrolled, encoded, mask, jnp.array([1.0, 0.5]))
    np.testing.assert_allclose(found, ((0.0 + 0.5 * 1.0) + 2.0) / 2, atol=1e-6)


def test_consistency_pulls_the_model_and_not_what_it_is_pulled_to():
    rng = np.random.default_rng(0)
    unrolled, encoded = rng.normal(size=(2, 3, 2, 4)).astype(np.float32)
    mask, weights = jnp.ones((3, 2)), jnp.ones(2)
    model, target = jax.grad(consistency, argnums=(0, 1))(unrolled, encoded, mask, weights)
    assert (np.abs(model).max(axis=-1) > 0).all()
    np.testing.assert_array_equal(target, 0.0)


def test_states_past_the_end_are_not_pulled_to(params, targets, loss_and_grad):
    over = dataclasses.replace(targets, policy_mask=targets.policy_mask.at[:, 1:].set(0.0))
    assert float(loss_and_grad(params, over)[0][1]["consistency_loss"]) == 0.0


def test_the_unrolled_model_is_the_network_step_by_step(algorithm, params, targets):
    network = algorithm.bind(params)
    unrolled = algorithm._unroll(network, targets)
    embedding = network.represent(targets.observation[:, 0])
    for step in range(K + 1):
        expected = network.predict(embedding)
        for found, wanted in (
            (unrolled.embedding, embedding),
            (unrolled.policy, expected[0]),
            (unrolled.value, expected[1]),
        ):
            np.testing.assert_allclose(found[:, step], wanted, rtol=1e-4, atol=1e-5)
        if step < K:
            action = algorithm.one_hot_action(targets.action[:, step])
            embedding, expected_reward = network.dynamics(embedding, action)
            found = unrolled.reward[:, step]
            np.testing.assert_allclose(found, expected_reward, rtol=1e-4, atol=1e-5)


def test_each_unrolled_step_halves_the_gradient(algorithm, params, targets):
    """Of the value at step K with respect to the first observation: (1/2)^K of the true one."""
    network = algorithm.bind(params)

    def plain(observation):
        embedding = network.represent(observation)
        for time in range(K):
            action = algorithm.one_hot_action(targets.action[:, time])
            embedding, _ = network.dynamics(embedding, action)
        return network.predict(embedding)[1][..., 0].sum()

    def unrolled(observation):
        changed = dataclasses.replace(
            targets, observation=targets.observation.at[:, 0].set(observation)
        )
        return algorithm._unroll(network, changed).value[:, K, 0].sum()

    expected, found = jax.jit(lambda x: (jax.grad(plain)(x), jax.grad(unrolled)(x)))(
        targets.observation[:, 0]
    )
    assert np.abs(found).min() > 1e-6
    np.testing.assert_allclose(found, expected * 0.5**K, rtol=1e-3, atol=1e-6)


def test_policy_metrics_by_hand(targets):
    probs = jnp.zeros_like(targets.policy_probs).at[:, 0].set(jnp.array([0.5, 0.5, 0.0]))
    logits = jnp.zeros_like(probs).at[:, 0].set(jnp.log(jnp.array([0.25, 0.5, 0.25])))
    metrics = policy_metrics(logits, dataclasses.replace(targets, policy_probs=probs))
    np.testing.assert_allclose(metrics["prior_entropy"], 1.5 * np.log(2), rtol=1e-5)
    np.testing.assert_allclose(metrics["search_entropy"], np.log(2), rtol=1e-5)
    np.testing.assert_allclose(metrics["policy_divergence"], 0.5 * np.log(2), rtol=1e-5)


def test_every_config_has_its_algorithm():
    assert ALGORITHMS.keys() == CONFIGS.keys()
    for name, cls in CONFIGS.items():
        assert algorithm_name(cls()) == name
        assert type(algorithm_for(cls(), SPEC)) is ALGORITHMS[name]


def test_a_config_without_an_algorithm_is_refused():
    with pytest.raises(TypeError, match="MuZeroConfig"):
        algorithm_name(MuZeroConfig())
