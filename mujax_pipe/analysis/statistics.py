"""Point estimates and bootstrap intervals over the seeds of a cell.

A seed's score is one sample: episodes of one seed say nothing about the next training run. Point
estimates are rliable's (Agarwal et al. 2021, "Deep reinforcement learning at the edge of the
statistical precipice"). Its interval for one environment is the percentile bootstrap over runs;
that is computed here by scipy, because rliable draws from NumPy's global random state, whatever
generator it is given, and a tracked file must depend on the seed in params.yaml alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import pandas as pd
import scipy.stats
from rliable import metrics

# Resampled numbers held in memory at once (8 bytes each).
_BATCH_NUMBERS = 4_000_000

# Fewer seeds have no spread to resample.
MIN_SEEDS = 2

Statistic = Callable[..., np.ndarray]


class BootstrapSettings(Protocol):
    """What `analysis` in params.yaml says."""

    @property
    def confidence(self) -> float: ...
    @property
    def bootstrap_samples(self) -> int: ...
    @property
    def bootstrap_seed(self) -> int: ...


def interquartile_mean(samples: np.ndarray, axis: int = 0) -> np.ndarray:
    """Mean of what is left without the lowest and highest quarter along `axis` (rounded down).

    With fewer than four samples nothing is cut, and this is the mean.
    """
    return scipy.stats.trim_mean(samples, proportiontocut=0.25, axis=axis)


def interval(
    samples: np.ndarray, settings: BootstrapSettings, statistic: Statistic = np.mean
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile bootstrap interval of `statistic` over the first axis.

    Args:
      samples: `[S, ...]`, one row a seed. Seeds are resampled whole: the same draw for all columns.
      settings: confidence, number of resamples, and the seed of their draw. Every call draws
        anew from that seed, so an interval does not depend on which others are computed.
      statistic: a function of `(samples, axis)`.

    Returns:
      Lower and upper bounds `[...]`; NaN with fewer than `MIN_SEEDS` rows.
    """
    if len(samples) < MIN_SEEDS:
        nothing = np.full(samples.shape[1:], np.nan)
        return nothing, nothing
    bounds = scipy.stats.bootstrap(
        (samples,),
        statistic,
        axis=0,
        vectorized=True,
        n_resamples=settings.bootstrap_samples,
        batch=max(1, _BATCH_NUMBERS // samples.size),
        confidence_level=settings.confidence,
        method="percentile",
        rng=np.random.default_rng(settings.bootstrap_seed),
    ).confidence_interval
    return np.asarray(bounds.low), np.asarray(bounds.high)


def final_scores(scores: pd.DataFrame, settings: BootstrapSettings) -> pd.DataFrame:
    """Estimates over seeds of each environment and algorithm.

    Args:
      scores: columns algo, env, seed, mean (of each seed's final evaluation).
      settings: of the bootstrap.

    Returns:
      One row an environment and algorithm, in order of appearance: env, algo, seeds, mean, low,
      high, iqm, iqm_low, iqm_high, min, max. Bounds are NaN with one seed.
    """
    rows = []
    for (env, algo), group in scores.groupby(["env", "algo"], sort=False):
        samples = group["mean"].to_numpy()
        low, high = interval(samples, settings)
        iqm_low, iqm_high = interval(samples, settings, interquartile_mean)
        runs_by_tasks = samples[:, None]
        rows.append(
            {
                "env": env,
                "algo": algo,
                "seeds": len(samples),
                "mean": float(metrics.aggregate_mean(runs_by_tasks)),
                "low": float(low),
                "high": float(high),
                "iqm": float(metrics.aggregate_iqm(runs_by_tasks)),
                "iqm_low": float(iqm_low),
                "iqm_high": float(iqm_high),
                "min": float(samples.min()),
                "max": float(samples.max()),
            }
        )
    order = {env: place for place, env in enumerate(scores["env"].unique())}
    return pd.DataFrame(rows).sort_values(
        "env", key=lambda column: column.map(order), kind="stable", ignore_index=True
    )


def learning_curves(curves: pd.DataFrame, settings: BootstrapSettings) -> pd.DataFrame:
    """Point-wise mean and interval over seeds of each environment and algorithm.

    Only evaluations that every seed of the pair has count: where seeds stop at different steps, a
    mean over those left would jump for no reason of learning.

    Args:
      curves: columns algo, env, seed, step, env_steps, score.
      settings: of the bootstrap.

    Returns:
      Columns env, algo, step, env_steps, seeds, mean, low, high. Bounds are NaN with one seed.
    """
    columns = ["env", "algo", "step", "env_steps", "seeds", "mean", "low", "high"]
    parts = []
    for (env, algo), group in curves.groupby(["env", "algo"], sort=False):
        samples = group.pivot(index="seed", columns=["step", "env_steps"], values="score")
        samples = samples.dropna(axis="columns")
        if samples.empty:
            continue
        low, high = interval(samples.to_numpy(), settings)
        part = samples.columns.to_frame(index=False)
        estimates = {"mean": samples.mean().to_numpy(), "low": low, "high": high}
        parts.append(part.assign(env=env, algo=algo, seeds=len(samples), **estimates))
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)
