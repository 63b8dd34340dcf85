import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rlax
from flax import nnx

from mujax_pipe.agents.gmz import GMZ
from mujax_pipe.agents.networks import MLP, beside, initialised, mix_uniform
from tests.fakes import SPEC, tiny_config


@pytest.fixture(scope="module")
def algorithm():
    return GMZ(tiny_config(), SPEC)


@pytest.fixture(scope="module")
def params(algorithm):
    return algorithm.init(jax.random.key(0))


@pytest.fixture(scope="module")
def noisy(params):
    """Parameters without the zeros that fresh output layers have."""
    leaves, tree = jax.tree.flatten(params)
    rng = np.random.default_rng(0)
    return tree.unflatten(
        [leaf + 0.3 * rng.normal(size=leaf.shape).astype(np.float32) for leaf in leaves]
    )


OBSERVATIONS = np.array([[0.5, -2.0], [1e6, 3.0], [-1e30, 0.0]], np.float32)


def test_shapes(algorithm, noisy):
    network = algorithm.bind(noisy)
    embedding = network.represent(OBSERVATIONS)
    action = algorithm.one_hot_action(jnp.array([0, 1, 2]))
    following, reward = network.dynamics(embedding, action)
    policy, value = network.predict(following)
    assert (embedding.shape, following.shape) == ((3, 8), (3, 8))
    assert (policy.shape, value.shape, reward.shape) == ((3, 3), (3, 21), (3, 21))


def test_leading_axes_are_mapped_over(algorithm, noisy):
    network = algorithm.bind(noisy)
    batch = network.represent(OBSERVATIONS)
    stacked = network.represent(np.stack([OBSERVATIONS, OBSERVATIONS]))
    np.testing.assert_allclose(stacked[1], batch, rtol=1e-6)
    np.testing.assert_allclose(network.represent(OBSERVATIONS[1]), batch[1], rtol=1e-5, atol=1e-6)


def test_a_fresh_network_predicts_zero_value_and_reward_and_a_uniform_policy(algorithm, params):
    network = algorithm.bind(params)
    root = algorithm.root(params, OBSERVATIONS)
    _, reward = network.dynamics(root.embedding, algorithm.one_hot_action(jnp.zeros(3, jnp.int32)))
    # Sums of terms up to exp(8) in float32.
    np.testing.assert_allclose(root.value, 0.0, atol=0.02)
    np.testing.assert_allclose(algorithm.to_scalar(reward), 0.0, atol=0.02)
    np.testing.assert_allclose(jax.nn.softmax(root.prior_logits), 1 / 3, rtol=1e-6)


def test_embeddings_are_normalised_however_far_the_model_is_unrolled(algorithm, params):
    network = algorithm.bind(params)
    embedding = network.represent(OBSERVATIONS)
    action = algorithm.one_hot_action(jnp.array([2, 0, 1]))
    for _ in range(20):
        np.testing.assert_allclose(embedding.mean(axis=-1), 0.0, atol=1e-5)
        np.testing.assert_allclose(embedding.std(axis=-1), 1.0, rtol=1e-2)
        embedding, _ = network.dynamics(embedding, action)


def test_observations_are_squashed_by_symlog(algorithm, noisy):
    network = algorithm.bind(noisy)
    trunk = network.represent.norm(network.represent.trunk(rlax.signed_logp1(OBSERVATIONS)))
    np.testing.assert_array_equal(network.represent(OBSERVATIONS), trunk)
    assert np.isfinite(trunk).all()


def test_reward_and_next_state_depend_on_the_action(algorithm, noisy):
    network = algorithm.bind(noisy)
    embedding = network.represent(np.tile(OBSERVATIONS[:1], (3, 1)))
    following, reward = network.dynamics(embedding, jnp.eye(3))
    for answer in (following, reward):
        assert np.abs(np.diff(answer, axis=0)).max(axis=-1).min() > 1e-3


def test_initialisation_is_a_function_of_the_key(algorithm, params):
    leaves = jax.tree.leaves
    for one, other in zip(leaves(params), leaves(algorithm.init(jax.random.key(0))), strict=True):
        np.testing.assert_array_equal(one, other)
    different = leaves(algorithm.init(jax.random.key(1)))
    assert any((a != b).any() for a, b in zip(leaves(params), different, strict=True))


def test_kernels_are_drawn_with_the_deviation_that_keeps_variance():
    """Of one draw for all: no kernel repeats another's numbers."""
    made = {"a": jnp.full((100, 40), 0.1), "b": jnp.full((400, 10), 0.05), "bias": jnp.zeros(40)}
    drawn = initialised(jax.random.key(0), {**made, "zero": jnp.zeros((5, 5))})
    for name in ("a", "b"):
        deviation = float(made[name][0, 0])
        assert float(jnp.std(drawn[name])) == pytest.approx(deviation, rel=0.05)
        assert float(jnp.abs(drawn[name]).max()) <= 2.0 * deviation / 0.8796
    first, other = drawn["a"].ravel() / 0.1, drawn["b"].ravel() / 0.05
    assert abs(float(jnp.corrcoef(first, other)[0, 1])) < 0.1
    assert not drawn["bias"].any()
    assert not drawn["zero"].any()


def test_hidden_kernels_begin_with_the_variance_of_their_inputs():
    mlp = MLP((50,), 200, 3, zero=False, rngs=nnx.Rngs(0))
    np.testing.assert_allclose(mlp.hidden[0].kernel[...], 200**-0.5)
    np.testing.assert_allclose(mlp.out.kernel[...], 50**-0.5)


def test_mlp_has_the_layers_asked_for():
    mlp = MLP((5, 7), 3, 2, zero=False, rngs=nnx.Rngs(0))
    shapes = [layer.kernel.shape for layer in (*mlp.hidden, mlp.out)]
    assert shapes == [(3, 5), (5, 7), (7, 2)]
    assert len(mlp.norms) == 2


def test_mix_uniform_by_hand():
    probs = jax.nn.softmax(mix_uniform(jnp.log(jnp.array([0.7, 0.2, 0.1])), 0.3))
    np.testing.assert_allclose(probs, [0.59, 0.24, 0.17], rtol=1e-6)


def test_mix_uniform_rules_no_action_out():
    probs = jax.nn.softmax(mix_uniform(jnp.array([1e4, 0.0, -1e4, 0.0]), 0.01))
    np.testing.assert_allclose(probs, [0.9925, 0.0025, 0.0025, 0.0025], rtol=1e-5)


def test_mix_uniform_of_nothing_leaves_the_logits():
    logits = jnp.array([3.0, -200.0])
    np.testing.assert_array_equal(mix_uniform(logits, 0.0), logits)


def test_the_policy_head_mixes(algorithm, noisy):
    without = GMZ(tiny_config(unimix=0.0), SPEC)
    mixed = jax.nn.softmax(algorithm.root(noisy, OBSERVATIONS).prior_logits)
    pure = jax.nn.softmax(without.root(noisy, OBSERVATIONS).prior_logits)
    np.testing.assert_allclose(mixed, 0.99 * pure + 0.01 / 3, rtol=1e-5)


def test_what_was_done_is_as_long_as_where():
    """Else a layer sees little of the action: embeddings have elements of about 1."""
    embedding = np.random.default_rng(0).choice([-1.0, 1.0], size=(5, 64)).astype(np.float32)
    joined = np.asarray(beside(embedding, jax.nn.one_hot(jnp.arange(5) % 3, 3)))
    np.testing.assert_array_equal(joined[:, :64], embedding)
    lengths = np.linalg.norm(joined[:, :64], axis=-1), np.linalg.norm(joined[:, 64:], axis=-1)
    np.testing.assert_allclose(*lengths, rtol=1e-6)
    np.testing.assert_array_equal(joined[:, 64:].argmax(axis=-1), [0, 1, 2, 0, 1])
