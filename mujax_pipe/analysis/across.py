"""Estimates across environments, on scores where the base has 0 and the reference 1.

After Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical precipice":
runs are resampled within each environment (stratified bootstrap, percentile intervals). Point
estimates are rliable's; its intervals draw from NumPy's global random state, so they are drawn
here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from rliable import metrics

from mujax_pipe.analysis.intervals import MIN_SEEDS, IntervalSettings

Statistic = Callable[[np.ndarray], np.ndarray | float]

METRICS: Mapping[str, Statistic] = {
    "Median": metrics.aggregate_median,
    "IQM": metrics.aggregate_iqm,
    "Mean": metrics.aggregate_mean,
    "Optimality gap": metrics.aggregate_optimality_gap,
}

# Thresholds of a performance profile: from a little worse than random to beyond the reference.
THRESHOLDS = np.round(np.linspace(-0.1, 1.1, 61), 3)


def normalised(scores: pd.DataFrame, anchors: Mapping[str, tuple[float, float]]) -> pd.DataFrame:
    """Adds a column `normalised`: (score - base) / (reference - base).

    Args:
      scores: columns algo, env, seed, mean.
      anchors: environment -> (base, reference).
    """
    base, reference = (scores["env"].map(lambda e, i=i: anchors[e][i]) for i in range(2))
    return scores.assign(normalised=(scores["mean"] - base) / (reference - base))


def shared_environments(scores: pd.DataFrame) -> list[str]:
    """Returns the environments that every algorithm has: over others they are not compared."""
    count = scores.groupby("env", sort=False)["algo"].nunique()
    return [str(env) for env in count.index[count == scores["algo"].nunique()]]


def runs_by_tasks(scores: pd.DataFrame, algo: str) -> np.ndarray:
    """Returns an algorithm's normalised scores `[S, E]` in the shared environments.

    Of seeds that all of these have.
    """
    mine = scores[scores["algo"] == algo]
    table = mine.pivot(index="seed", columns="env", values="normalised")
    return table[shared_environments(scores)].dropna().to_numpy()


def uneven_cells(scores: pd.DataFrame) -> list[str]:
    """Says which environments some algorithm lacks, and, a line an algorithm, which lack seeds."""
    lines = []
    shared = shared_environments(scores)
    if alone := [env for env in scores["env"].unique() if env not in shared]:
        lines.append(
            f"Across environments {', '.join(alone)} does not count: not of all algorithms."
        )
    for algo, mine in scores[scores["env"].isin(shared)].groupby("algo", sort=False):
        seeds = {env: set(group["seed"]) for env, group in mine.groupby("env", sort=False)}
        every = set.union(*seeds.values())
        lacking = [
            f"{env} has no seed {', '.join(map(str, sorted(every - found)))}"
            for env, found in seeds.items()
            if every - found
        ]
        if lacking:
            lines.append(f"Across environments {algo} has fewer seeds: {'; '.join(lacking)}.")
    return lines


def aggregate_metrics(scores: pd.DataFrame, settings: IntervalSettings) -> pd.DataFrame:
    """Returns columns algo, metric, environments, seeds, value, low, high: `METRICS` of each."""
    rows = []
    for algo in scores["algo"].unique():
        runs = runs_by_tasks(scores, algo)
        if not len(runs):
            continue
        for name, metric in METRICS.items():
            low, high = _stratified(runs, metric, settings)
            rows.append(
                (algo, name, runs.shape[1], len(runs), float(metric(runs)), float(low), float(high))
            )
    columns = ["algo", "metric", "environments", "seeds", "value", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def performance_profiles(scores: pd.DataFrame, settings: IntervalSettings) -> pd.DataFrame:
    """Returns columns algo, threshold, share, low, high: the share of runs above each threshold.

    It is the mean over environments of the share of an environment's runs (ibid., section 4.3).
    """
    parts = []
    for algo in scores["algo"].unique():
        runs = runs_by_tasks(scores, algo)
        if not len(runs):
            continue
        low, high = _stratified(runs, _shares, settings)
        part = {"threshold": THRESHOLDS, "share": _shares(runs), "low": low, "high": high}
        parts.append(pd.DataFrame(part).assign(algo=algo))
    columns = ["algo", "threshold", "share", "low", "high"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def probability_of_improvement(scores: pd.DataFrame, settings: IntervalSettings) -> pd.DataFrame:
    """How likely a run of one algorithm beats one of another, in each environment and over all.

    Returns:
      Columns algo, other, env, probability, low, high; env is `all` for the mean over environments.
    """
    rows = []
    for algo, other in itertools.combinations(scores["algo"].unique(), 2):
        ours, theirs = (_by_env(scores, name) for name in (algo, other))
        envs = [env for env in ours if env in theirs]
        for name in (*envs, *(["all"] if len(envs) > 1 else [])):
            chosen = envs if name == "all" else [name]
            samples = [*(ours[env] for env in chosen), *(theirs[env] for env in chosen)]
            value = _beats(samples)
            low, high = _resampled(samples, _beats, settings)
            rows.append((algo, other, name, value, float(low), float(high)))
    columns = ["algo", "other", "env", "probability", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def _by_env(scores: pd.DataFrame, algo: str) -> dict[str, np.ndarray]:
    mine = scores[scores["algo"] == algo]
    return {str(env): group["mean"].to_numpy() for env, group in mine.groupby("env", sort=False)}


def _beats(samples: Sequence[np.ndarray]) -> float:
    """Mean over environments of P(X > Y) + P(X = Y) / 2: first all X, then all Y.

    As rliable's `probability_of_improvement`, which goes through a Mann-Whitney test: thirty times
    as long where thousands of resamples ask for it.
    """
    half = len(samples) // 2
    pairs = zip(samples[:half], samples[half:], strict=True)
    return float(np.mean([_wins(x, y) / (len(x) * len(y)) for x, y in pairs]))


def _wins(x: np.ndarray, y: np.ndarray) -> float:
    """Counts pairs that x wins, and half of those that are drawn."""
    x = x[:, None]
    return np.count_nonzero(x > y) + 0.5 * np.count_nonzero(x == y)


def _shares(runs: np.ndarray) -> np.ndarray:
    return np.mean(runs[:, :, None] > THRESHOLDS, axis=(0, 1))


def _stratified(
    runs: np.ndarray, statistic: Statistic, settings: IntervalSettings
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile interval of a function of runs `[S, E]`, resampled within each environment."""
    return _resampled(list(runs.T), lambda drawn: statistic(np.stack(drawn, axis=1)), settings)


def _resampled(
    samples: Sequence[np.ndarray],
    statistic: Callable[[Sequence[np.ndarray]], np.ndarray | float],
    settings: IntervalSettings,
) -> tuple[np.ndarray, np.ndarray]:
    """Percentile interval of a function of several samples, each resampled by itself."""
    if min(map(len, samples)) < MIN_SEEDS:
        nothing = np.full(np.shape(statistic(samples)), np.nan)
        return nothing, nothing
    generator = np.random.default_rng(settings.bootstrap_seed)
    draws = [
        statistic([x[generator.integers(len(x), size=len(x))] for x in samples])
        for _ in range(settings.bootstrap_samples)
    ]
    tail = (1 - settings.confidence) / 2
    low, high = np.quantile(np.asarray(draws), [tail, 1 - tail], axis=0)
    return low, high
