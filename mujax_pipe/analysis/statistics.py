"""Point estimates and intervals over the seeds of a cell.

A seed's score is one sample: episodes of one seed say nothing about the next training run. Point
estimates are rliable's (Agarwal et al. 2021, "Deep reinforcement learning at the edge of the
statistical precipice"). Its intervals are drawn here by scipy, because rliable draws from NumPy's
global random state, whatever generator it is given, and a tracked file must depend on the seed in
params.yaml alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from rliable import metrics

from mujax_pipe.analysis.intervals import (
    IntervalSettings,
    interquartile_interval,
    interquartile_mean,
    interval,
)


def final_scores(scores: pd.DataFrame, settings: IntervalSettings) -> pd.DataFrame:
    """Estimates over seeds of each environment and algorithm.

    Args:
      scores: columns algo, env, seed, mean (of each seed's final evaluation), last_mean.
      settings: of the intervals.

    Returns:
      One row an environment and algorithm, in order of appearance: env, algo, seeds, mean, low,
      high, iqm, iqm_low, iqm_high, last (mean of the last checkpoints), min, max. Bounds are NaN
      with one seed.
    """
    rows = []
    for (env, algo), group in scores.groupby(["env", "algo"], sort=False):
        samples = group["mean"].to_numpy()
        low, high = interval(samples, settings)
        iqm_low, iqm_high = interquartile_interval(samples, settings)
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
                "last": float(group["last_mean"].mean()),
                "min": float(samples.min()),
                "max": float(samples.max()),
            }
        )
    order = {env: place for place, env in enumerate(scores["env"].unique())}
    return pd.DataFrame(rows).sort_values(
        "env", key=lambda column: column.map(order), kind="stable", ignore_index=True
    )


def learning_curves(curves: pd.DataFrame, settings: IntervalSettings) -> pd.DataFrame:
    """Point-wise interquartile mean and interval over seeds of each environment and algorithm.

    Only evaluations that every seed of the pair has count: where seeds stop at different steps, a
    mean over those left would jump for no reason of learning.

    Args:
      curves: columns algo, env, seed, step, env_steps, score.
      settings: of the intervals.

    Returns:
      Columns env, algo, step, env_steps, seeds, iqm, low, high. Bounds are NaN with one seed.
    """
    columns = ["env", "algo", "step", "env_steps", "seeds", "iqm", "low", "high"]
    parts = []
    for (env, algo), group in curves.groupby(["env", "algo"], sort=False):
        samples = group.pivot(index="seed", columns=["step", "env_steps"], values="score")
        samples = samples.dropna(axis="columns")
        if samples.empty:
            continue
        low, high = interquartile_interval(samples.to_numpy(), settings)
        part = samples.columns.to_frame(index=False)
        estimates = {
            "iqm": interquartile_mean(samples.to_numpy()),
            "low": low,
            "high": high,
        }
        parts.append(part.assign(env=env, algo=algo, seeds=len(samples), **estimates))
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def over_seconds(curves: pd.DataFrame, settings: IntervalSettings) -> pd.DataFrame:
    """Interquartile mean and interval at each evaluation, against the seeds' mean seconds.

    Args:
      curves: columns algo, env, seed, step, score, seconds.
      settings: of the intervals.

    Returns:
      Columns env, algo, seconds, seeds, iqm, low, high, min, max; evaluations that every seed has.
    """
    rows = []
    for (env, algo), group in curves.groupby(["env", "algo"], sort=False):
        seeds = group["seed"].nunique()
        for _, at in group.groupby("step"):
            if len(at) == seeds:
                scores = at["score"].to_numpy()
                bounds = map(float, interquartile_interval(scores, settings))
                middle = (at["seconds"].mean(), seeds, float(interquartile_mean(scores)))
                rows.append((env, algo, *middle, *bounds, scores.min(), scores.max()))
    columns = ["env", "algo", "seconds", "seeds", "iqm", "low", "high", "min", "max"]
    return pd.DataFrame(rows, columns=columns)


def steps_to_threshold(curves: pd.DataFrame, thresholds: Mapping[str, float]) -> pd.DataFrame:
    """How many environment steps each algorithm needs until a score is reached.

    Args:
      curves: columns algo, env, seed, step, env_steps, score.
      thresholds: environment -> score.

    Returns:
      One row an environment and algorithm: env, algo, threshold, seeds, reached (how many seeds
      did), and lowest, median and highest environment steps of the first evaluation at or above
      it. A seed that never reached it counts as infinitely many; NaN stands for that.
    """
    rows = []
    for env in curves["env"].unique():
        for algo, group in curves[curves["env"] == env].groupby("algo", sort=False):
            good = group[group["score"] >= thresholds[env]]
            first = good.groupby("seed")["env_steps"].min()
            seeds = group["seed"].nunique()
            steps = np.concatenate([first.to_numpy(float), np.full(seeds - len(first), np.inf)])
            found = {"lowest": steps.min(), "median": np.median(steps), "highest": steps.max()}
            finite = {k: v if np.isfinite(v) else np.nan for k, v in found.items()}
            rows.append(
                {
                    "env": env,
                    "algo": algo,
                    "threshold": thresholds[env],
                    "seeds": seeds,
                    "reached": len(first),
                    **finite,
                }
            )
    return pd.DataFrame(rows)


def by_budget(searches: pd.DataFrame, settings: IntervalSettings) -> pd.DataFrame:
    """Mean and interval over seeds of each search budget.

    Args:
      searches: columns algo, env, seed, simulations, mean.
      settings: of the intervals.

    Returns:
      Columns env, algo, simulations, seeds, mean, low, high, min, max.
    """
    rows = []
    groups = searches.groupby(["env", "algo", "simulations"], sort=False)
    for (env, algo, simulations), group in groups:
        scores = group["mean"]
        bounds = _bounds(scores, settings)
        spread = (scores.min(), scores.max())
        rows.append((env, algo, simulations, len(group), scores.mean(), *bounds, *spread))
    columns = ["env", "algo", "simulations", "seeds", "mean", "low", "high", "min", "max"]
    return pd.DataFrame(rows, columns=columns)


def _bounds(samples: pd.Series, settings: IntervalSettings) -> tuple[float, float]:
    low, high = interval(samples.to_numpy(), settings)
    return float(low), float(high)
