"""Draws the figures of a grid from the data beside them; the same data give the same bytes."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from mujax_pipe.analysis import figures_across, figures_search, results
from mujax_pipe.analysis.formats import environment_title, percent, write
from mujax_pipe.analysis.intervals import MIN_SEEDS, SHORT, interquartile_kind
from mujax_pipe.analysis.style import (
    Captions,
    frame_scores,
    legend,
    looks,
    name_and_seeds,
    panels_for,
    rendered,
    score_axis,
    spread,
)
from mujax_pipe.errors import UserError, quoted
from mujax_pipe.layout import AnalysisFiles

if typing.TYPE_CHECKING:
    from mujax_pipe.params import Params


def plot(params: Params, grid: str, root: Path = Path(), names: Sequence[str] = ()) -> None:
    """Writes figures of `grid` in every format of `layout`: those named, or all that are tracked.

    Raises:
      UserError: no figure of that name, or its data is missing or wrong.
    """
    files = AnalysisFiles(grid, root)
    for name in names:
        if name not in files.figure_names:
            raise UserError(f"figure {name!r} is unknown: allowed are {quoted(files.figure_names)}")
    tidy = results.read_tables(grid, root)
    captions = captions_of(params, tidy.scores)
    middle = captions_of(params, tidy.scores, interquartile=True)
    draw: dict[str, Callable[[pd.DataFrame], Figure]] = {
        "learning_curves": lambda data: learning_curves(tidy.curves, data, middle),
        "final_scores": lambda data: final_scores(tidy.scores, data, captions),
        "score_distribution": lambda data: figures_across.score_distribution(data, captions),
        "aggregate_metrics": lambda data: figures_across.aggregate_metrics(data, captions),
        "performance_profiles": lambda data: figures_across.performance_profiles(data, captions),
        "probability_of_improvement": lambda data: figures_across.probability_of_improvement(
            data, captions
        ),
        "search_budget": lambda data: figures_search.search_budget(data, captions),
        "chance_codes": lambda data: figures_search.chance_codes(data, captions),
    }
    for name in names or files.figure_names:
        data = results.read_data(files.figure(name, "csv"), grid)
        contents = rendered(functools.partial(draw[name], data), params.figures.dpi)
        for suffix, content in contents.items():
            write(files.figure(name, suffix), content)


def captions_of(params: Params, scores: pd.DataFrame, *, interquartile: bool = False) -> Captions:
    """Returns the words of the figures of these cells.

    Args:
      params: of the project.
      scores: columns algo and env.
      interquartile: the figure shows interquartile means.
    """
    kind = params.analysis.interval
    return Captions(
        looks=looks(
            params.figures.algorithm_names, scores["algo"].unique(), params.figures.colours
        ),
        titles={env: environment_title(params, env) for env in scores["env"].unique()},
        confidence=percent(params.analysis.confidence),
        kind=SHORT[interquartile_kind(kind) if interquartile else kind],
    )


def learning_curves(curves: pd.DataFrame, bands: pd.DataFrame, captions: Captions) -> Figure:
    """Score against environment steps, one panel an environment.

    Args:
      curves: columns algo, env, seed, step, env_steps, score: thin lines.
      bands: `statistics.learning_curves` of them: thick line and band.
      captions: looks of the algorithms, titles of the environments.
    """
    figure, panels = panels_for(list(curves["env"].unique()), captions, row_height=1.75)
    for env, axes in panels:
        for algo, seeds in curves[curves["env"] == env].groupby("algo", sort=False):
            look = captions.looks[algo]
            sns.lineplot(
                data=seeds, x="env_steps", y="score", units="seed", estimator=None, sort=False,
                legend=False, ax=axes, color=look.colour, linewidth=0.5,
                alpha=min(0.5, 2 / seeds["seed"].nunique()),
            )  # fmt: skip
            band = bands[(bands["env"] == env) & (bands["algo"] == algo)]
            axes.fill_between(
                band["env_steps"], band["low"], band["high"],
                color=look.colour, alpha=0.2, linewidth=0,
            )  # fmt: skip
            axes.plot(band["env_steps"], band["iqm"], color=look.colour, linestyle=look.line)
        axes.set(xlabel="", ylabel="")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 2.5, 5, 10]))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        frame_scores(axes, curves[curves["env"] == env]["score"])
    figure.supxlabel("Environment steps", fontsize=8)
    figure.supylabel("Score", fontsize=8)
    legend(figure, curves, captions)
    return figure


def final_scores(scores: pd.DataFrame, estimates: pd.DataFrame, captions: Captions) -> Figure:
    """Final score of every algorithm: mean, interval and the seeds, one panel an environment.

    Args:
      scores: columns algo, env, seed, mean: dots.
      estimates: `statistics.final_scores` of them: bar and interval.
      captions: looks of the algorithms, titles of the environments.
    """
    algos = list(scores["algo"].unique())
    envs = list(scores["env"].unique())
    figure, panels = panels_for(envs, captions, row_height=0.62 + 0.3 * len(algos), sharey=True)
    for env, axes in panels:
        for place, algo in enumerate(algos):
            look = captions.looks[algo]
            seeds = scores[(scores["env"] == env) & (scores["algo"] == algo)]["mean"]
            estimate = estimates[(estimates["env"] == env) & (estimates["algo"] == algo)]
            for row in estimate.to_dict("records"):
                axes.hlines(place, row["low"], row["high"], color=look.colour, lw=5, alpha=0.35)
                axes.vlines(row["mean"], place - 0.22, place + 0.22, color=look.colour, lw=1.6)
            # Equal scores would hide one another: spread the dots by seed, in a fixed order.
            height = [place + 0.3 * spread(i, len(seeds)) for i in range(len(seeds))]
            axes.scatter(
                seeds, height, marker=look.marker, s=11, facecolor="white",
                edgecolor=look.colour, linewidth=0.8, zorder=3,
            )  # fmt: skip
        axes.set_ylim(len(algos) - 0.45, -0.55)
        axes.set_yticks(range(len(algos)), [name_and_seeds(scores, a, captions) for a in algos])
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        score_axis(axes.xaxis, scores[scores["env"] == env]["mean"], 4 if len(envs) <= 3 else 3)
    several = (estimates["seeds"] >= MIN_SEEDS).any()
    interval = f" and {captions.interval}" if several else ""
    figure.supxlabel(f"Final score: each seed, mean{interval}", fontsize=8)
    return figure
