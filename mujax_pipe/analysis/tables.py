"""Writes the metric and the tables of a grid; the same numbers give the same bytes."""

from __future__ import annotations

import contextlib
import json
import math
import os
import typing
from pathlib import Path
from typing import Any

import pandas as pd

from mujax_pipe.analysis import results, statistics
from mujax_pipe.errors import UserError
from mujax_pipe.layout import AnalysisFiles

if typing.TYPE_CHECKING:
    from mujax_pipe.params import Params

# Digits that survive a different order of summing; more would be noise of the last bit.
_DIGITS = 6


def aggregate(params: Params, grid: str, root: Path = Path()) -> None:
    """Reads the cells of `grid` and writes every file of `AnalysisFiles` but the figures."""
    cells = results.read_cells(params, grid, root)
    scores = statistics.final_scores(cells.scores, params.analysis)
    files = AnalysisFiles(grid, root)
    texts = {
        "curves.csv": csv(cells.curves),
        "scores.csv": csv(cells.scores),
        "final_scores.csv": csv(scores),
        "final_scores.md": markdown(params, scores),
    }
    for path in files.tables:
        write(path, texts[path.name].encode())
    write(files.summary, summary_json(scores).encode())


def summary_json(scores: pd.DataFrame) -> str:
    """Returns the one DVC metric: env -> algo -> mean, low, high, seeds.

    One seed has no `low` and `high`: a metric is a number, so they are left out, and `seeds` says
    why.
    """
    metric: dict[str, dict[str, dict[str, float]]] = {}
    for row in scores.to_dict("records"):
        values = {key: _rounded(row[key]) for key in ("mean", "low", "high")}
        values = {key: value for key, value in values.items() if not math.isnan(value)}
        metric.setdefault(row["env"], {})[row["algo"]] = {**values, "seeds": int(row["seeds"])}
    return json.dumps(metric, indent=2, allow_nan=False) + "\n"


def csv(frame: pd.DataFrame) -> str:
    """Returns a frame as CSV: floats with six significant digits, an empty field for NaN."""
    frame = frame.copy()
    for column in frame.select_dtypes("float64"):
        frame[column] = frame[column] + 0.0  # -0.0 and 0.0 are the same score
    text: str = frame.to_csv(index=False, float_format=f"%.{_DIGITS}g", lineterminator="\n")
    return text


def markdown(params: Params, scores: pd.DataFrame) -> str:
    """Returns the final scores as a Markdown table, with a line on how the interval was made."""
    confidence = percent(params.analysis.confidence)
    lines = [
        f"| Environment | Algorithm | Seeds | Mean | {confidence} interval "
        "| IQM | Lowest | Highest |",
        "|:--|:--|--:|--:|:-:|--:|--:|--:|",
    ]
    for row in scores.to_dict("records"):
        values = (
            params.environments[row["env"]].id,
            params.figures.algorithm_names.get(row["algo"], row["algo"]),
            str(row["seeds"]),
            display(row["mean"]),
            display_interval(row),
            *(display(row[key]) for key in ("iqm", "min", "max")),
        )
        lines.append(f"| {' | '.join(values)} |")
    lines += ["", *interval_notes(params, scores)]
    return "\n".join(lines) + "\n"


def interval_notes(params: Params, scores: pd.DataFrame) -> list[str]:
    """Returns what a reader must know of the numbers, one line each."""
    notes = [
        "A seed's score is its mean return over the final evaluation of its best checkpoint; the "
        "interval is a percentile bootstrap over seeds "
        f"({params.analysis.bootstrap_samples} samples)."
    ]
    if (scores["seeds"] < statistics.MIN_SEEDS).any():
        notes.append("One seed has no interval.")
    return notes


def display(value: float) -> str:
    """Returns a score for the eye: 487.3, 12.05 or -0.0512; a dash for NaN."""
    if math.isnan(value):
        return "-"
    decimals = 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 4
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text


def display_interval(row: dict[str, Any]) -> str:
    """Returns `[low, high]` of a row of final scores, or a dash where there is none."""
    if math.isnan(row["low"]):
        return "-"
    return f"[{display(row['low'])}, {display(row['high'])}]"


def percent(share: float) -> str:
    """Returns 0.95 as `95 %`."""
    return f"{100 * share:g} %"


def write(path: Path, content: bytes) -> None:
    """Writes a file beside its name and renames it, so that a crash leaves no half of it.

    Raises:
      UserError: the folder or file cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)
        beside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise UserError(f"{path} cannot be written: {error.strerror}") from None


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}") + 0.0
