import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mujax_pipe.agents.values import logits_to_scalar, probs_to_scalar, scalar_to_probs

BINS, LIMIT = 101, 8.0
MOST = math.expm1(LIMIT)

compiled = pytest.mark.parametrize("compiled", [False, True], ids=["plain", "jit"])


def encode(x, bins=BINS, limit=LIMIT):
    return scalar_to_probs(jnp.asarray(x, jnp.float32), bins, limit)


@compiled
def test_hl_gauss_probabilities_by_hand(compiled):
    """Three bins at -1, 0, 1 of width 1: Phi at +-0.5 and +-1.5 over sigma 0.75, renormalised."""
    function = functools.partial(scalar_to_probs, num_bins=3, limit=1.0)
    probs = (jax.jit(function) if compiled else function)(jnp.float32(0.0))
    # Phi(2/3) = 0.747507, Phi(2) = 0.977250.
    middle, side = 2 * 0.747507 - 1, 0.977250 - 0.747507
    expected = np.array([side, middle, side]) / (middle + 2 * side)
    np.testing.assert_allclose(probs, expected, rtol=1e-5)


def test_hl_gauss_off_centre_by_hand():
    """y = log(1 + x) = 0.5 lies on the edge between the bins at 0 and 1."""

    def phi(z):
        return 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))

    cdf = [phi((edge - 0.5) / 0.75) for edge in (-1.5, -0.5, 0.5, 1.5)]
    expected = np.diff(cdf) / (cdf[-1] - cdf[0])
    np.testing.assert_allclose(encode(math.expm1(0.5), 3, 1.0), expected, rtol=1e-5)


@pytest.mark.parametrize("scalar", [-MOST, -3.0, -1e-3, 0.0, 0.5, 20.0, 1e6, -1e30])
def test_probabilities_are_a_distribution(scalar):
    probs = encode(scalar)
    assert probs.shape == (BINS,)
    assert (np.asarray(probs) >= 0.0).all()
    np.testing.assert_allclose(probs.sum(), 1.0, rtol=1e-6)


@compiled
def test_decode_inverts_encode(compiled):
    # Out to three widths of the normal before the outermost bin, where it is cut off.
    y = np.linspace(-LIMIT + 0.5, LIMIT - 0.5, 401)
    x = np.sign(y) * np.expm1(np.abs(y))

    def both(x):
        return probs_to_scalar(encode(x), LIMIT)

    decoded = (jax.jit(both) if compiled else both)(x)
    np.testing.assert_allclose(decoded, x, rtol=2e-3, atol=0.02)


def test_encode_is_odd_and_zero_is_zero():
    x = np.array([0.3, 4.0, 900.0])
    np.testing.assert_allclose(encode(-x), np.asarray(encode(x))[:, ::-1], rtol=1e-4, atol=1e-7)
    assert float(probs_to_scalar(encode(0.0), LIMIT)) == pytest.approx(0.0, abs=0.01)


def test_a_scalar_beyond_the_outermost_bin_is_clipped():
    np.testing.assert_array_equal(encode(1e9), encode(2 * MOST))
    assert np.argmax(encode(1e9)) == BINS - 1


@pytest.mark.parametrize(("one", "other"), [(0.0, 100.0), (-1.0, 1.0), (-50.0, 400.0), (1.0, 9.0)])
def test_a_mixture_decodes_to_the_mean_of_its_scalars(one, other):
    mixture = 0.5 * (encode(one) + encode(other))
    mean = (one + other) / 2
    scale = max(abs(one), abs(other))
    np.testing.assert_allclose(probs_to_scalar(mixture, LIMIT), mean, atol=2e-3 * scale + 0.02)
    # Decoding the mean of symlog space would say something else entirely.
    if (one, other) == (0.0, 100.0):
        assert math.expm1(math.log1p(100.0) / 2) == pytest.approx(9.05, abs=0.01)


def test_logits_are_read_through_a_softmax():
    probs = encode(np.array([2.0, -7.0]))
    np.testing.assert_allclose(
        logits_to_scalar(jnp.log(probs + 1e-30) + 3.0, LIMIT),
        probs_to_scalar(probs, LIMIT),
        rtol=1e-5,
    )


def test_leading_axes_are_kept():
    assert encode(np.zeros((2, 3))).shape == (2, 3, BINS)
    assert probs_to_scalar(encode(np.zeros((2, 3))), LIMIT).shape == (2, 3)


def test_zero_logits_stand_for_zero():
    assert float(logits_to_scalar(jnp.zeros(BINS), LIMIT)) == pytest.approx(0.0, abs=1e-3)
