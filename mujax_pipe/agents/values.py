"""Categorical values in symlog space.

A scalar x becomes a distribution over D bins whose centres are evenly spaced in
y = sign(x) log(1 + |x|), by integrating a normal around y over each bin (HL-Gauss; Farebrother et
al. 2024, "Stop regressing", eq. 3.4; the symlog space is Hafner et al. 2023, eq. 9).

A distribution is read back as a mean in the space of x, not of y: returns of a stochastic
environment are mixtures, and the mean of a concave function is not the function of the mean.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import rlax

from mujax_pipe.agents.types import Array

# Width of the normal in bins; 0.75 spreads a value over about six bins (Farebrother et al., 4.1).
_SIGMA_IN_BINS = 0.75


def scalar_to_probs(scalar: Array, num_bins: int, limit: float) -> Array:
    """Returns the HL-Gauss distribution of each scalar.

    Args:
      scalar: values or rewards, [...], finite; clipped to the outermost bins.
      num_bins: D.
      limit: centre of the outermost bin in symlog space.

    Returns:
      Probabilities, [..., D].
    """
    width = _bin_width(num_bins, limit)
    y = jnp.clip(rlax.signed_logp1(scalar), -limit, limit)[..., None]
    outermost = limit + width / 2
    edges = np.linspace(-outermost, outermost, num_bins + 1).astype(np.float32)
    edges = np.expand_dims(edges, tuple(range(y.ndim - 1)))
    # Half the error function is the normal's distribution function, up to a constant.
    cdf = jax.scipy.special.erf((edges - y) / (jnp.sqrt(2.0) * _SIGMA_IN_BINS * width))
    return jnp.diff(cdf, axis=-1) / (cdf[..., -1:] - cdf[..., :1])


def probs_to_scalar(probs: Array, limit: float) -> Array:
    """Returns the mean of each distribution, [..., D] -> [...]; inverts `scalar_to_probs`."""
    num_bins = probs.shape[-1]
    half = num_bins // 2
    # Bins mirror each other: by their differences a symmetric distribution means exactly 0, however
    # large the outermost bins are.
    difference = probs[..., num_bins - half :] - probs[..., :half][..., ::-1]
    values = _bin_values(num_bins, limit)[num_bins - half :]
    return jnp.matmul(difference, values, precision=jax.lax.Precision.HIGHEST)


def logits_to_scalar(logits: Array, limit: float) -> Array:
    """Returns the mean of each distribution given by logits, [..., D] -> [...]."""
    return probs_to_scalar(jax.nn.softmax(logits), limit)


def _bin_width(num_bins: int, limit: float) -> float:
    return 2.0 * limit / (num_bins - 1)


def _bin_values(num_bins: int, limit: float) -> np.ndarray:
    """The value each bin stands for, [D]; from float64, whose last bits float32 does not see.

    With variance v around y in symlog space, exp overshoots by exp(v / 2) (mean of a log-normal),
    so each bin gives that back: the mean of an encoded scalar is the scalar.
    """
    width = _bin_width(num_bins, limit)
    # The spread of the normal, and of a bin around its centre (Sheppard).
    variance = (_SIGMA_IN_BINS * width) ** 2 + width**2 / 12.0
    centres = np.linspace(-limit, limit, num_bins)
    values = np.sign(centres) * (np.exp(np.abs(centres) - variance / 2.0) - 1.0)
    return values.astype(np.float32)
