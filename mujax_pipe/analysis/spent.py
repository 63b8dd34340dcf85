"""What the cells cost: seconds and memory, which no engine tracks, for no two runs agree on them.

Read from the `machine.json` that each training leaves in `logs/`, so there are only those of cells
that this machine, or another on a shared disk, has trained.
"""

from __future__ import annotations

import typing
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from mujax_pipe.analysis import results, statistics
from mujax_pipe.analysis.figures import captions_of
from mujax_pipe.analysis.formats import csv, latex, markdown, write
from mujax_pipe.analysis.style import Captions, band, frame_scores, legend, panels_for, rendered
from mujax_pipe.analysis.tables import thresholds
from mujax_pipe.errors import UserError
from mujax_pipe.layout import FIGURE_FORMATS, LOGS, CellFiles

if typing.TYPE_CHECKING:
    from mujax_pipe.params import Params


def cost(params: Params, grid: str, root: Path = Path(), console: Console | None = None) -> None:
    """Prints what the cells of `grid` cost, and writes it with learning curves over seconds.

    They go to `logs/<grid>/cost/`, as tables and figures in every format.

    Raises:
      UserError: a table is missing, or no cell has a record of its seconds.
    """
    console = console or Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 160  # a pipe has no width of its own
    curves = with_seconds(params, grid, results.read_tables(grid, root).curves, root)
    if curves.empty:
        raise UserError(
            f"no cell of {grid!r} has a record of its seconds (logs/cells/*/machine.json): only "
            "cells that were trained in this folder have"
        )
    spent = compute(curves, _levels(params, grid, root))
    captions = captions_of(params, curves, interquartile=True)
    shown = _shown(spent, captions)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in shown:
        table.add_column(
            name, justify="left" if name in shown.columns[:2] else "right", no_wrap=True
        )
    for row in shown.itertuples(index=False):
        table.add_row(*row)
    console.print(table)
    out = root / LOGS / grid / "cost"
    texts = {"csv": csv(spent), "md": markdown(shown), "tex": latex(shown)}
    for suffix, text in texts.items():
        write(out / f"compute.{suffix}", text.encode())
    bands = statistics.over_seconds(curves, params.analysis)
    write(out / "learning_curves_seconds.csv", csv(bands).encode())
    contents = rendered(lambda: learning_curves_seconds(bands, captions), params.figures.dpi)
    for suffix in FIGURE_FORMATS:
        write(out / f"learning_curves_seconds.{suffix}", contents[suffix])
    for path in sorted(out.iterdir()):
        console.print(str(path), markup=False)


def with_seconds(params: Params, grid: str, curves: pd.DataFrame, root: Path) -> pd.DataFrame:
    """Returns the curves of cells with a record, with columns seconds, total and megabytes.

    A training's seconds are spread evenly over its learner steps.
    """
    parts = []
    for cell in params.cells(grid):
        path = CellFiles(cell, root).machine
        if not path.exists():
            continue
        record = results.read_json(path, made_by=results.command("train", cell))
        mine = curves[
            (curves["algo"] == cell.algo)
            & (curves["env"] == cell.env)
            & (curves["seed"] == cell.seed)
        ]
        share = mine["step"] / max(mine["step"].max(), 1)
        seconds = record["seconds"] * record["xla_threads"]
        parts.append(
            mine.assign(
                seconds=share * seconds,
                total=seconds,
                megabytes=record["peak_memory_mb"],
            )
        )
    return pd.concat(parts, ignore_index=True) if parts else curves.head(0)


def compute(curves: pd.DataFrame, levels: dict[str, float]) -> pd.DataFrame:
    """What each environment and algorithm cost, and until a score was reached.

    Args:
      curves: see `with_seconds`.
      levels: environment -> score that counts as learned.

    Returns:
      Columns env, algo, seeds, seconds (mean of a run), total, megabytes (most), reached, and
      seconds_to_level: the median over seeds, of which one that never did counts as infinite; NaN
      stands for that.
    """
    rows = []
    for (env, algo), group in curves.groupby(["env", "algo"], sort=False):
        runs = group.groupby("seed")[["total", "megabytes"]].first()
        good = group[group["score"] >= levels[str(env)]].groupby("seed")["seconds"].min()
        until = np.concatenate([good.to_numpy(), np.full(len(runs) - len(good), np.inf)])
        middle = float(np.median(until))
        rows.append(
            {
                "env": env,
                "algo": algo,
                "seeds": len(runs),
                "seconds": runs["total"].mean(),
                "total": runs["total"].sum(),
                "megabytes": runs["megabytes"].max(),
                "reached": len(good),
                "seconds_to_level": middle if np.isfinite(middle) else np.nan,
            }
        )
    return pd.DataFrame(rows)


def learning_curves_seconds(bands: pd.DataFrame, captions: Captions) -> Figure:
    """Score against seconds of one core, one panel an environment.

    Args:
      bands: columns env, algo, seconds, seeds, iqm, low, high.
      captions: looks of the algorithms, titles of the environments.
    """
    figure, panels = panels_for(list(bands["env"].unique()), captions, row_height=1.75)
    for env, axes in panels:
        mine = bands[bands["env"] == env]
        for algo, rows in mine.groupby("algo", sort=False):
            band(axes, rows["seconds"], rows, "iqm", captions.looks[algo])
        frame_scores(axes, pd.concat([mine["min"], mine["max"]]))
    figure.supxlabel("Seconds of one core", fontsize=8)
    figure.supylabel("Score", fontsize=8)
    legend(figure, bands, captions, counts=False)
    return figure


def _levels(params: Params, grid: str, root: Path) -> dict[str, float]:
    random = {env: results.read_random(params, env, root) for env in params.environments_of(grid)}
    return thresholds(params, random)


def _shown(spent: pd.DataFrame, captions: Captions) -> pd.DataFrame:
    rows = [
        {
            "Environment": captions.titles[row["env"]],
            "Algorithm": captions.looks[row["algo"]].name,
            "Runs": str(row["seeds"]),
            "Core-seconds a run": f"{row['seconds']:,.0f}",
            "In all": f"{row['total']:,.0f}",
            "Memory, MB": f"{row['megabytes']:,.0f}",
            "Learned": f"{row['reached']} of {row['seeds']}",
            "Core-seconds until then": (
                "never" if np.isnan(row["seconds_to_level"]) else f"{row['seconds_to_level']:,.0f}"
            ),
        }
        for row in spent.to_dict("records")
    ]
    return pd.DataFrame(rows)
