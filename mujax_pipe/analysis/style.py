"""How every figure looks, and how it becomes a file; the same drawing gives the same bytes.

Every setting that matplotlib would take from the user's files is set here, and the only font is the
one that comes with matplotlib. Figures are made without pyplot, so no display is ever looked for.
"""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator, ScalarFormatter

from mujax_pipe.analysis.intervals import MIN_SEEDS

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
    """The words in a figure.

    Attributes:
      looks: of the algorithms.
      titles: of the environments.
      confidence: such as `95 %`.
      kind: of interval, such as `t`.
    """

    looks: dict[str, Look]
    titles: dict[str, str]
    confidence: str
    kind: str = ""

    @property
    def interval(self) -> str:
        """What a band or bar is."""
        return " ".join(filter(None, (self.confidence, self.kind, "interval")))


def looks(
    names: Mapping[str, str], used: Iterable[str], colours: Mapping[str, str] | None = None
) -> dict[str, Look]:
    """Returns the look of every named or used algorithm.

    Line, marker and, where `colours` gives none, colour follow from the place in `names`, so that
    an algorithm looks alike whichever others are drawn.
    """
    algos = [*names, *sorted(set(used) - set(names))]
    return {
        algo: Look(
            name=names.get(algo, algo),
            colour=(colours or {}).get(algo, _COLOURS[place % len(_COLOURS)]),
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


def panels_for(
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


def note(text: str) -> Figure:
    """Returns a figure that says why there is nothing to draw."""
    figure = Figure(figsize=(ONE_COLUMN, 0.8))
    figure.text(0.5, 0.5, text, ha="center", va="center", fontsize=8)
    return figure


def bars(axes: Axes, rows: pd.DataFrame, value: str, captions: Captions) -> None:
    """Draws, from top to bottom, each row's value with its interval in its algorithm's look."""
    for place, row in enumerate(rows.to_dict("records")):
        look = captions.looks[row["algo"]]
        axes.hlines(place, row["low"], row["high"], color=look.colour, lw=5, alpha=0.35)
        axes.plot(row[value], place, marker=look.marker, color=look.colour, markersize=4)
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")


def band(
    axes: Axes, x: pd.Series, rows: pd.DataFrame, value: str, look: Look, label: str = ""
) -> None:
    """Draws a line over its interval."""
    axes.fill_between(x, rows["low"], rows["high"], color=look.colour, alpha=0.2, linewidth=0)
    axes.plot(x, rows[value], color=look.colour, linestyle=look.line, label=label)


def frame_scores(axes: Axes, scores: pd.Series) -> None:
    """Fits the vertical axis to scores; bands may leave it, as an interval may be very wide."""
    low, high = scores.min(), scores.max()
    pad = 0.06 * (high - low) or max(0.05 * abs(high), 0.05)
    axes.set_ylim(low - pad, high + pad)
    score_axis(axes.yaxis, scores)


def score_axis(axis: Any, scores: pd.Series, intervals: int = 4) -> None:
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


def spread(place: int, count: int) -> float:
    """Returns where in [-1, 1] the mark of one of several equal scores goes."""
    return 0.0 if count == 1 else place / (count - 1) * 2 - 1


def name_and_seeds(frame: pd.DataFrame, algo: str, captions: Captions) -> str:
    """Returns `Gumbel MuZero (10 seeds)` on two lines; a range where environments differ."""
    counts = frame[frame["algo"] == algo].groupby("env")["seed"].nunique()
    low, high = counts.min(), counts.max()
    number = str(low) if low == high else f"{low}-{high}"
    seeds = f"{number} seeds" if high >= MIN_SEEDS else "1 seed, no interval"
    return f"{captions.looks[algo].name}\n({seeds})"


def legend(
    figure: Figure,
    frame: pd.DataFrame,
    captions: Captions,
    *,
    counts: bool = True,
    interval: bool = True,
) -> None:
    """Adds the algorithms of `frame` above the panels.

    Args:
      figure: that is drawn on.
      frame: columns algo, and env and seed where seeds are counted.
      captions: looks of the algorithms.
      counts: tell how many seeds there are.
      interval: tell what bands and thin lines are.
    """
    handles: list[Any] = []
    for algo in frame["algo"].unique():
        look = captions.looks[algo]
        label = name_and_seeds(frame, algo, captions).replace("\n", " ") if counts else look.name
        handles.append(Line2D([], [], color=look.colour, linestyle=look.line, label=label))
    several = not counts or frame["seed"].nunique() > 1
    if interval and several:
        handles.append(Patch(color="#BBBBBB", linewidth=0, label=captions.interval))
    if interval and several and counts:
        handles.append(Line2D([], [], color="#777777", linewidth=0.5, label="one seed"))
    columns = 2 if figure.get_figwidth() < TWO_COLUMNS else len(handles)
    figure.legend(handles=handles, loc="outside upper center", ncols=columns)
