"""Draws the figures of a grid from its tables; the same tables give the same bytes.

Every setting that matplotlib would take from the user's files is set here, and the only font is the
one that comes with matplotlib. Figures are made without pyplot, so no display is ever looked for.
"""

from __future__ import annotations

import dataclasses
import io
import math
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator, ScalarFormatter

from mujax_pipe.analysis import results, statistics
from mujax_pipe.analysis.tables import percent, write
from mujax_pipe.layout import FIGURES, AnalysisFiles

if typing.TYPE_CHECKING:
    from mujax_pipe.params import Params

# Widths in inches that fit one and two columns of a paper.
ONE_COLUMN = 3.4
TWO_COLUMNS = 7.0

# Okabe and Ito's palette for colour-blind readers, ordered so that neighbours differ in lightness;
# lines and markers differ as well, for paper without colour.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000")
_LINES = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")

_STYLE: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.4,
    "pdf.fonttype": 42,
    # Identifiers are drawn from it, and else at random.
    "svg.hashsalt": "mujax_pipe",
    "figure.constrained_layout.w_pad": 0.05,
    "figure.constrained_layout.h_pad": 0.05,
}

# What a file says of its maker: nothing that a clock or a version changes.
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"Creator": "mujax_pipe", "Producer": "mujax_pipe", "CreationDate": None},
    "svg": {"Creator": None, "Date": None, "Format": None, "Type": None},
    "png": {"Software": None},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Look:
    """How an algorithm is drawn, in every figure alike."""

    name: str
    colour: str
    line: Any
    marker: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Captions:
    """The words in a figure."""

    looks: dict[str, Look]
    titles: dict[str, str]
    confidence: str


def plot(params: Params, grid: str, root: Path = Path()) -> None:
    """Writes every figure of `grid` in every format of `layout`."""
    tidy = results.read_tables(grid, root)
    files = AnalysisFiles(grid, root)
    captions = Captions(
        looks=looks(params.figures.algorithm_names, tidy.scores["algo"].unique()),
        # `package/Name-v0` is known by its name.
        titles={
            env: params.environments[env].id.rpartition("/")[2]
            for env in tidy.scores["env"].unique()
        },
        confidence=percent(params.analysis.confidence),
    )
    draw: dict[str, Callable[[], Figure]] = {
        "learning_curves": lambda: learning_curves(
            tidy.curves, statistics.learning_curves(tidy.curves, params.analysis), captions
        ),
        "final_scores": lambda: final_scores(
            tidy.scores, statistics.final_scores(tidy.scores, params.analysis), captions
        ),
    }
    for name in FIGURES:
        for suffix, content in rendered(draw[name], params.figures.dpi).items():
            write(files.figure(name, suffix), content)


def looks(names: Mapping[str, str], used: Iterable[str]) -> dict[str, Look]:
    """Returns the look of every named or used algorithm.

    It follows from the place in `names`, so an algorithm looks alike whichever others are drawn.
    """
    algos = [*names, *sorted(set(used) - set(names))]
    return {
        algo: Look(
            name=names.get(algo, algo),
            colour=_COLOURS[place % len(_COLOURS)],
            line=_LINES[place % len(_LINES)],
            marker=_MARKERS[place % len(_MARKERS)],
        )
        for place, algo in enumerate(algos)
    }


def rendered(draw: Callable[[], Figure], dpi: int) -> dict[str, bytes]:
    """Returns a figure as bytes by format, drawn under this module's settings alone."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figure = draw()
        contents = {}
        for suffix, metadata in _METADATA.items():
            buffer = io.BytesIO()
            figure.savefig(buffer, format=suffix, dpi=dpi, metadata=metadata)
            contents[suffix] = buffer.getvalue()
    return contents


def learning_curves(curves: pd.DataFrame, bands: pd.DataFrame, captions: Captions) -> Figure:
    """Score against environment steps, one panel an environment.

    Args:
      curves: columns algo, env, seed, step, env_steps, score: thin lines.
      bands: `statistics.learning_curves` of them: thick line and band.
      captions: looks of the algorithms, titles of the environments.
    """
    figure, panels = _panels(list(curves["env"].unique()), captions, row_height=1.75)
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
            axes.plot(band["env_steps"], band["mean"], color=look.colour, linestyle=look.line)
        axes.set(xlabel="", ylabel="")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 2.5, 5, 10]))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        _score_axis(axes.yaxis, curves[curves["env"] == env]["score"])
    figure.supxlabel("Environment steps", fontsize=8)
    figure.supylabel("Score", fontsize=8)
    _legend(figure, curves, captions)
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
    figure, panels = _panels(envs, captions, row_height=0.62 + 0.3 * len(algos), sharey=True)
    for env, axes in panels:
        for place, algo in enumerate(algos):
            look = captions.looks[algo]
            seeds = scores[(scores["env"] == env) & (scores["algo"] == algo)]["mean"]
            estimate = estimates[(estimates["env"] == env) & (estimates["algo"] == algo)]
            for row in estimate.to_dict("records"):
                axes.hlines(place, row["low"], row["high"], color=look.colour, lw=5, alpha=0.35)
                axes.vlines(row["mean"], place - 0.22, place + 0.22, color=look.colour, lw=1.6)
            # Equal scores would hide one another: spread the dots by seed, in a fixed order.
            spread = [place + 0.3 * _spread(i, len(seeds)) for i in range(len(seeds))]
            axes.scatter(
                seeds, spread, marker=look.marker, s=11, facecolor="white",
                edgecolor=look.colour, linewidth=0.8, zorder=3,
            )  # fmt: skip
        axes.set_ylim(len(algos) - 0.45, -0.55)
        axes.set_yticks(range(len(algos)), [_name_and_seeds(scores, a, captions) for a in algos])
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        _score_axis(axes.xaxis, scores[scores["env"] == env]["mean"], 4 if len(envs) <= 3 else 3)
    several = (estimates["seeds"] >= statistics.MIN_SEEDS).any()
    interval = f" and {captions.confidence} interval" if several else ""
    figure.supxlabel(f"Final score: each seed, mean{interval}", fontsize=8)
    return figure


def _panels(
    envs: Sequence[str], captions: Captions, *, row_height: float, **shared: Any
) -> tuple[Figure, Iterator[tuple[str, Axes]]]:
    """Returns a figure with one titled panel an environment, as wide as one or two columns."""
    columns = len(envs) if len(envs) <= 3 else 2 if len(envs) == 4 else _columns(len(envs))
    rows = math.ceil(len(envs) / columns)
    width = ONE_COLUMN if len(envs) == 1 else TWO_COLUMNS
    figure = Figure(figsize=(width, rows * row_height + 0.55), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **shared).flatten()
    for axes in grid[len(envs) :]:
        axes.remove()
    for env, axes in zip(envs, grid, strict=False):
        axes.set_title(captions.titles[env])
    return figure, zip(envs, grid, strict=False)


def _columns(panels: int) -> int:
    """Three or four columns, whichever leaves fewer places empty; four on a tie."""
    return min((4, 3), key=lambda columns: -panels % columns)


def _score_axis(axis: Any, scores: pd.Series, intervals: int = 4) -> None:
    """Few ticks, thousands as k, no offset; room to both sides where all scores are equal."""
    low, high = scores.min(), scores.max()
    if math.isclose(low, high, rel_tol=1e-6, abs_tol=1e-9):
        pad = max(0.05 * abs(high), 0.05)
        axis.set_view_interval(low - pad, high + pad, ignore=True)
    axis.set_major_locator(MaxNLocator(nbins=intervals, steps=[1, 2, 2.5, 5, 10]))
    if max(abs(low), abs(high)) >= 10_000:
        axis.set_major_formatter(EngFormatter(sep=""))
    else:
        axis.set_major_formatter(ScalarFormatter(useOffset=False))


def _spread(place: int, count: int) -> float:
    return 0.0 if count == 1 else place / (count - 1) * 2 - 1


def _name_and_seeds(frame: pd.DataFrame, algo: str, captions: Captions) -> str:
    """Returns `Gumbel MuZero (10 seeds)` on two lines; a range where environments differ."""
    counts = frame[frame["algo"] == algo].groupby("env")["seed"].nunique()
    low, high = counts.min(), counts.max()
    number = str(low) if low == high else f"{low}-{high}"
    seeds = f"{number} seeds" if high >= statistics.MIN_SEEDS else "1 seed, no interval"
    return f"{captions.looks[algo].name}\n({seeds})"


def _legend(figure: Figure, curves: pd.DataFrame, captions: Captions) -> None:
    handles: list[Any] = []
    for algo in curves["algo"].unique():
        look = captions.looks[algo]
        label = _name_and_seeds(curves, algo, captions).replace("\n", " ")
        handles.append(Line2D([], [], color=look.colour, linestyle=look.line, label=label))
    if curves["seed"].nunique() > 1:
        handles.append(Patch(color="#BBBBBB", linewidth=0, label=f"{captions.confidence} interval"))
        handles.append(Line2D([], [], color="#777777", linewidth=0.5, label="one seed"))
    columns = 2 if figure.get_figwidth() < TWO_COLUMNS else len(handles)
    figure.legend(handles=handles, loc="outside upper center", ncols=columns)
