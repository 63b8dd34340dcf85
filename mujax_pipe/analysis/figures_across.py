"""Figures of distributions, and across environments (Agarwal et al. 2021)."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from mujax_pipe.analysis.style import (
    ONE_COLUMN,
    TWO_COLUMNS,
    Captions,
    band,
    bars,
    legend,
    note,
    panels_for,
    score_axis,
)


def score_distribution(quantiles: pd.DataFrame, captions: Captions) -> Figure:
    """Share of final episodes up to each return: a line a seed, one panel an environment.

    Args:
      quantiles: columns algo, env, seed, quantile, return.
      captions: looks of the algorithms, titles of the environments.
    """
    figure, panels = panels_for(list(quantiles["env"].unique()), captions, row_height=1.75)
    for env, axes in panels:
        mine = quantiles[quantiles["env"] == env]
        for (algo, _), seed in mine.groupby(["algo", "seed"], sort=False):
            look = captions.looks[algo]
            axes.plot(
                seed["return"], 100 * seed["quantile"], color=look.colour, linestyle=look.line,
                linewidth=0.9, alpha=0.8, drawstyle="steps-pre",
            )  # fmt: skip
        score_axis(axes.xaxis, mine["return"])
        axes.set_ylim(-2, 102)
    figure.supxlabel("Return of an episode", fontsize=8)
    figure.supylabel("Episodes up to it, %", fontsize=8)
    legend(figure, quantiles, captions, interval=False)
    return figure


def aggregate_metrics(metrics: pd.DataFrame, captions: Captions) -> Figure:
    """Metrics across environments with their intervals: one panel a metric, one row an algorithm.

    Args:
      metrics: columns algo, metric, environments, seeds, value, low, high.
      captions: looks of the algorithms.
    """
    names = list(metrics["metric"].unique())
    if not names:
        return note("No seed is in every environment of all algorithms")
    algos = [captions.looks[algo].name for algo in metrics["algo"].unique()]
    height = 0.75 + 0.25 * len(algos)
    figure = Figure(figsize=(TWO_COLUMNS, height), layout="constrained")
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False).flatten()
    for name, axes in zip(names, panels, strict=True):
        mine = metrics[metrics["metric"] == name]
        bars(axes, mine, "value", captions)
        axes.set_title(name)
        axes.set_yticks(range(len(algos)), algos)
        score_axis(axes.xaxis, pd.concat([mine["value"], mine["low"], mine["high"]]).dropna(), 3)
    environments, few, many = (
        metrics["environments"].iloc[0], metrics["seeds"].min(), metrics["seeds"].max()
    )  # fmt: skip
    seeds = f"{few}" if few == many else f"{few} to {many}"
    figure.supxlabel(
        f"Normalised score over {environments} environments and {seeds} seeds: "
        "0 is the base (a random policy), 1 the reference",
        fontsize=8,
    )
    return figure


def performance_profiles(profiles: pd.DataFrame, captions: Captions) -> Figure:
    """Share of runs above each normalised score, with intervals.

    Args:
      profiles: columns algo, threshold, share, low, high.
      captions: looks of the algorithms.
    """
    if profiles.empty:
        return note("No seed is in every environment of all algorithms")
    figure = Figure(figsize=(ONE_COLUMN, 2.3), layout="constrained")
    axes = figure.subplots()
    for algo, rows in profiles.groupby("algo", sort=False):
        look = captions.looks[algo]
        percent = rows.assign(**{k: 100 * rows[k] for k in ("share", "low", "high")})
        band(axes, rows["threshold"], percent, "share", look, label=look.name)
    axes.set(xlabel="Normalised score", ylabel="Runs above it, %", ylim=(-3, 103))
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def probability_of_improvement(pairs: pd.DataFrame, captions: Captions) -> Figure:
    """How likely a run of the first algorithm beats one of the second, with intervals.

    Args:
      pairs: columns algo, other, env, probability, low, high.
      captions: looks of the algorithms, titles of the environments.
    """
    if pairs.empty:
        return note("One algorithm: nothing to compare")
    algos = list(dict.fromkeys(zip(pairs["algo"], pairs["other"], strict=True)))
    labels = []
    for row in pairs.to_dict("records"):
        where = captions.titles.get(row["env"], "All environments")
        several = len(algos) > 1
        names = (captions.looks[row[key]].name for key in ("algo", "other"))
        labels.append(f"{where}: {' over '.join(names)}" if several else where)
    figure = Figure(figsize=(ONE_COLUMN, 0.7 + 0.25 * len(pairs)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0.5, color="black", linewidth=0.6)
    bars(axes, pairs, "probability", captions)
    axes.set_yticks(range(len(labels)), labels)
    first, second = (captions.looks[algo].name for algo in algos[0])
    axes.set(xlim=(-0.03, 1.03), xlabel=f"P({first} beats {second})" if len(algos) == 1 else "P")
    return figure
