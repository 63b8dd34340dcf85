"""Intervals for a statistic over seeds, by the names that `analysis.interval` in params.yaml takes.

With few seeds they differ. The percentile bootstrap (Efron 1979), which rliable draws and the field
reports (Agarwal et al. 2021), is too narrow: a resample of n values has (n - 1) / n of their
variance. BCa (Efron 1987) corrects its bias and skew, the studentised bootstrap (Hall 1988) its
width, both where there is enough data to see them. Student's t is exact for normal scores. How
often each holds the mean is measured by `benchmarks/coverage.py`; docs/statistics.md has the table.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import scipy.stats

# Resampled numbers held in memory at once (8 bytes each).
_BATCH_NUMBERS = 4_000_000

# Cut from either end for an interquartile mean.
_QUARTER = 0.25

# Fewer seeds have no spread.
MIN_SEEDS = 2

Statistic = Callable[..., np.ndarray]
Bounds = tuple[np.ndarray, np.ndarray]


class IntervalSettings(Protocol):
    """What `analysis` in params.yaml says."""

    @property
    def interval(self) -> str: ...
    @property
    def confidence(self) -> float: ...
    @property
    def bootstrap_samples(self) -> int: ...
    @property
    def bootstrap_seed(self) -> int: ...


def interval(samples: np.ndarray, settings: IntervalSettings) -> Bounds:
    """Interval of the mean over the first axis, of the kind that `settings.interval` names.

    Args:
      samples: `[S, ...]`, one row a seed.
      settings: kind, confidence, and the resampling of the bootstrap kinds.

    Returns:
      Lower and upper bounds `[...]`; NaN with fewer than `MIN_SEEDS` rows.
    """
    return INTERVALS[settings.interval](samples, settings)


def interquartile_mean(samples: np.ndarray, axis: int = 0) -> np.ndarray:
    """Mean of what is left without the lowest and highest quarter along `axis` (rounded down).

    With fewer than four samples nothing is cut, and this is the mean.
    """
    return scipy.stats.trim_mean(samples, proportiontocut=_QUARTER, axis=axis)


def interquartile_interval(samples: np.ndarray, settings: IntervalSettings) -> Bounds:
    """Interval of the interquartile mean; see `interval`.

    Student's t is that of trimmed means (Tukey and McLaughlin 1963).
    """
    kind = interquartile_kind(settings.interval)
    if kind == "t":
        return student_t(samples, settings, cut=int(_QUARTER * len(samples)))
    if kind == "bca":
        return bca(samples, settings, interquartile_mean)
    return percentile(samples, settings, interquartile_mean)


def interquartile_kind(kind: str) -> str:
    """Returns the kind that `interquartile_interval` has for one of `INTERVALS`.

    A studentised bootstrap of trimmed means is not at hand, and percentiles stand for it.
    """
    return "percentile" if kind == "studentised" else kind


def percentile(
    samples: np.ndarray, settings: IntervalSettings, statistic: Statistic = np.mean
) -> Bounds:
    """Percentile bootstrap of `statistic`, a function of `(samples, axis)`; see `interval`.

    Seeds are resampled whole: the same draw for all columns. Every call draws anew from the seed,
    so an interval does not depend on which others are computed.
    """
    return _bootstrap(samples, settings, statistic, "percentile")


def bca(samples: np.ndarray, settings: IntervalSettings, statistic: Statistic = np.mean) -> Bounds:
    """Bias-corrected and accelerated bootstrap of `statistic`; see `percentile`.

    Where all samples are equal, so are the bounds.
    """
    with warnings.catch_warnings():
        # Of equal samples, whose bounds it cannot tell.
        warnings.simplefilter("ignore", scipy.stats.DegenerateDataWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        low, high = _bootstrap(samples, settings, statistic, "BCa")
    equal = len(samples) >= MIN_SEEDS and np.ptp(samples, axis=0) == 0
    mean = np.mean(samples, axis=0)
    return np.where(equal, mean, low), np.where(equal, mean, high)


def studentised(samples: np.ndarray, settings: IntervalSettings) -> Bounds:
    """Bootstrap of (mean - true mean) / standard error (Hall 1988); see `interval`.

    With very few seeds some bounds are infinite: too many resamples hold one value alone.
    """
    if len(samples) < MIN_SEEDS:
        return _nothing(samples)
    count = len(samples)
    mean, error = samples.mean(axis=0), _standard_error(samples)
    generator = np.random.default_rng(settings.bootstrap_seed)
    drawn = samples[generator.integers(count, size=(settings.bootstrap_samples, count))]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = (drawn.mean(axis=1) - mean) / _standard_error(drawn, axis=1)
    ratios = np.nan_to_num(ratios, nan=0.0, posinf=np.inf, neginf=-np.inf)
    tail = (1 - settings.confidence) / 2
    # No interpolation: between a number and infinity there is none.
    low, high = np.quantile(ratios, [tail, 1 - tail], axis=0, method="inverted_cdf")
    with np.errstate(invalid="ignore"):
        bounds = mean - high * error, mean - low * error
    equal = error == 0
    return np.where(equal, mean, bounds[0]), np.where(equal, mean, bounds[1])


def student_t(samples: np.ndarray, settings: IntervalSettings, cut: int = 0) -> Bounds:
    """Student's t interval of the mean without `cut` samples at either end; see `interval`."""
    if len(samples) < MIN_SEEDS:
        return _nothing(samples)
    ordered, count = np.sort(samples, axis=0), len(samples) - 2 * cut
    mean = ordered[cut : cut + count].mean(axis=0)
    # Winsorised: what is cut counts as the nearest that is not.
    kept = np.clip(samples, ordered[cut], ordered[cut + count - 1])
    error = _standard_error(kept) * len(samples) / count
    half = scipy.stats.t.ppf((1 + settings.confidence) / 2, count - 1) * error
    return mean - half, mean + half


INTERVALS: Mapping[str, Callable[[np.ndarray, IntervalSettings], Bounds]] = types.MappingProxyType(
    {"t": student_t, "percentile": percentile, "bca": bca, "studentised": studentised}
)

# As captions name them.
NAMES: Mapping[str, str] = types.MappingProxyType(
    {
        "t": "Student's t",
        "percentile": "percentile bootstrap",
        "bca": "BCa bootstrap",
        "studentised": "studentised bootstrap",
    }
)


# As a legend has room for.
SHORT: Mapping[str, str] = types.MappingProxyType(
    {"t": "t", "percentile": "percentile", "bca": "BCa", "studentised": "studentised"}
)


def _bootstrap(
    samples: np.ndarray, settings: IntervalSettings, statistic: Statistic, method: str
) -> Bounds:
    if len(samples) < MIN_SEEDS:
        return _nothing(samples)
    bounds = scipy.stats.bootstrap(
        (samples,),
        statistic,
        axis=0,
        vectorized=True,
        n_resamples=settings.bootstrap_samples,
        batch=max(1, _BATCH_NUMBERS // samples.size),
        confidence_level=settings.confidence,
        method=method,
        rng=np.random.default_rng(settings.bootstrap_seed),
    ).confidence_interval
    return np.asarray(bounds.low), np.asarray(bounds.high)


def _standard_error(samples: np.ndarray, axis: int = 0) -> np.ndarray:
    return samples.std(axis=axis, ddof=1) / np.sqrt(samples.shape[axis])


def _nothing(samples: np.ndarray) -> Bounds:
    nothing = np.full(samples.shape[1:], np.nan)
    return nothing, nothing
