"""Whether two versions of the results differ by more than their seeds do."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import typing
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.stats
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from mujax_pipe.analysis.figures import captions_of
from mujax_pipe.analysis.formats import display, display_interval, write
from mujax_pipe.analysis.intervals import MIN_SEEDS
from mujax_pipe.analysis.results import CELL
from mujax_pipe.analysis.style import Captions, bars, panels_for, rendered, score_axis
from mujax_pipe.errors import UserError
from mujax_pipe.layout import FIGURE_FORMATS, AnalysisFiles

if typing.TYPE_CHECKING:
    from mujax_pipe.params import Params

HERE = "workspace"
# Of the table of scores: an older revision may have had fewer others.
COLUMNS = {**CELL, "mean": "float64"}
_EXPERIMENTS = "refs/exps"


def compare(
    params: Params,
    first: str,
    second: str,
    out: Path,
    root: Path = Path(),
    console: Console | None = None,
) -> None:
    """Prints how the scores of two versions differ, and draws it into `out`.

    Args:
      params: of the project: names, and the confidence.
      first: a git revision or a DVC experiment, by name; `workspace` is what lies here.
      second: likewise; differences are second minus first.
      out: folder of the figure `comparison` in every format, and its data as CSV.
      root: the project's folder.
      console: to print to.

    Raises:
      UserError: no such version, it has no scores, or the two share no cells.
    """
    console = console or Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 160  # a pipe has no width of its own
    found = differences(scores_of(first, root), scores_of(second, root), params.analysis.confidence)
    if found.empty:
        raise UserError(f"{first} and {second} have no algorithm and environment in common")
    captions = dataclasses.replace(captions_of(params, found), kind="Welch")
    console.print(_table(found, first, second, captions))
    if (found["verdict"] == "unknown").any():
        console.print("Unknown: an interval needs two seeds of each.")
    write(out / "comparison.csv", found.to_csv(index=False).encode())
    title = f"{second} minus {first}"
    contents = rendered(lambda: drawn(found, title, captions), params.figures.dpi)
    for suffix in FIGURE_FORMATS:
        write(out / f"comparison.{suffix}", contents[suffix])
        console.print(str(out / f"comparison.{suffix}"), markup=False)


def scores_of(version: str, root: Path = Path()) -> pd.DataFrame:
    """Returns the scores of every seed of a git revision or DVC experiment, columns `COLUMNS`."""
    path = AnalysisFiles().scores
    if version == HERE:
        text = (root / path).read_text() if (root / path).exists() else None
    else:
        revision = _revision(version, root)
        text = _git(root, "show", f"{revision}:./{path.as_posix()}")
    if text is None:
        raise UserError(f"{version} has no {path}: aggregate and commit it there first")
    try:
        return pd.read_csv(io.StringIO(text), dtype=COLUMNS, usecols=list(COLUMNS))[list(COLUMNS)]
    except (ValueError, KeyError) as error:
        raise UserError(
            f"{path} of {version} cannot be read ({str(error).splitlines()[0]})"
        ) from None


def differences(first: pd.DataFrame, second: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """How the mean over seeds changes, with Welch's t interval, which pairs no seeds.

    Args:
      first: columns algo, env, seed, mean.
      second: likewise.
      confidence: of the intervals.

    Returns:
      Columns env, algo, first, second, difference, low, high, verdict, for what both have: `same`
      scores, `better` or `worse` where the interval is on one side of 0, `within` where it
      holds 0, or `unknown` with a single seed.
    """
    rows = []
    for (env, algo), ours in second.groupby(["env", "algo"], sort=False):
        theirs = first[(first["env"] == env) & (first["algo"] == algo)]
        if theirs.empty:
            continue
        a, b = theirs["mean"].to_numpy(), ours["mean"].to_numpy()
        difference = b.mean() - a.mean()
        low, high = _welch(a, b, confidence)
        if sorted(a) == sorted(b):
            verdict, low, high = "same", np.nan, np.nan
        elif np.isnan(low):
            verdict = "unknown"
        else:
            verdict = "better" if low > 0 else "worse" if high < 0 else "within"
        rows.append((env, algo, a.mean(), b.mean(), difference, low, high, verdict))
    columns = ["env", "algo", "first", "second", "difference", "low", "high", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def drawn(found: pd.DataFrame, title: str, captions: Captions) -> Figure:
    """Draws differences with their intervals, one panel an environment, and a line at 0."""
    algos = list(found["algo"].unique())
    height = 0.62 + 0.3 * len(algos)
    figure, panels = panels_for(list(found["env"].unique()), captions, row_height=height)
    for env, axes in panels:
        mine = found[found["env"] == env]
        axes.axvline(0, color="black", linewidth=0.6)
        bars(axes, mine, "difference", captions)
        axes.set_yticks(range(len(mine)), [captions.looks[algo].name for algo in mine["algo"]])
        seen = pd.concat([mine[k] for k in ("difference", "low", "high")]).dropna()
        score_axis(axes.xaxis, pd.concat([seen, pd.Series([0.0])]), 3)
    figure.supxlabel(f"Final score, {title}, and {captions.interval}", fontsize=8)
    return figure


def _welch(a: np.ndarray, b: np.ndarray, confidence: float) -> tuple[float, float]:
    if min(len(a), len(b)) < MIN_SEEDS:
        return np.nan, np.nan
    if np.ptp(a) == np.ptp(b) == 0:
        return float(b[0] - a[0]), float(b[0] - a[0])
    bounds = scipy.stats.ttest_ind(b, a, equal_var=False).confidence_interval(confidence)
    return float(bounds.low), float(bounds.high)


def _table(found: pd.DataFrame, first: str, second: str, captions: Captions) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("Environment", "Algorithm"):
        table.add_column(name, no_wrap=True)
    for name in (first, second, "Difference"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(f"{captions.confidence} interval", no_wrap=True)
    table.add_column("", no_wrap=True)
    words = {
        "same": "the same scores",
        "better": "better by more than its interval",
        "worse": "worse by more than its interval",
        "within": "no more than seeds differ",
        "unknown": "unknown",
    }
    for row in found.to_dict("records"):
        table.add_row(
            captions.titles[row["env"]],
            captions.looks[row["algo"]].name,
            *(display(row[key]) for key in ("first", "second", "difference")),
            display_interval(row),
            words[row["verdict"]],
        )
    return table


def _revision(version: str, root: Path) -> str:
    """Returns what git calls a revision, or an experiment that DVC keeps under its own refs."""
    listing = _git(root, "for-each-ref", "--format=%(refname)", _EXPERIMENTS) or ""
    named = [ref for ref in listing.split() if ref.rpartition("/")[2] == version]
    if _git(root, "rev-parse", "--verify", "--quiet", f"{version}^{{commit}}") is not None:
        return version
    if named:
        return named[-1]
    names = sorted({ref.rpartition("/")[2] for ref in listing.split()} - {"exec", "EXEC_BASELINE"})
    known = f"; experiments here are {', '.join(names)}" if names else ""
    raise UserError(f"{version!r} is no git revision and no DVC experiment{known}")


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
