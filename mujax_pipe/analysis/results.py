"""Reads finished cells, and the tables made from them, into tidy and checked pandas frames.

A score of a seed is the mean return of its final evaluation, always recomputed from the episodes.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import typing
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mujax_pipe.errors import UserError
from mujax_pipe.layout import AnalysisFiles, Cell, CellFiles

if typing.TYPE_CHECKING:
    from mujax_pipe.params import Params

# Columns and types of every file read here.
CURVE = {"step": "int64", "env_steps": "int64", "score": "float64"}
EPISODES = {"episode": "int64", "seed": "int64", "return": "float64", "length": "int64"}
CELL = {"algo": "str", "env": "str", "seed": "int64"}
CURVES = {**CELL, **CURVE}
SCORES = {
    **CELL,
    "episodes": "int64",
    "mean": "float64",
    "std": "float64",
    "min": "float64",
    "max": "float64",
    "best_step": "int64",
    "best_env_steps": "int64",
    "best_score": "float64",
    "learner_steps": "int64",
    "env_steps": "int64",
    "parameters": "int64",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Results:
    """All cells of a grid, in the grid's order."""

    curves: pd.DataFrame
    """Columns `CURVES`: one row an evaluation during training."""

    scores: pd.DataFrame
    """Columns `SCORES`: one row a cell, its final evaluation and where its best checkpoint lies."""


def read_cells(params: Params, grid: str, root: Path = Path()) -> Results:
    """Reads the finished cells of `grid`.

    Raises:
      UserError: a file is missing, malformed or at odds with another; the message names the file
        and the command that makes it.
    """
    curves, scores = [], []
    for cell in params.cells(grid):
        files = CellFiles(cell, root)
        labels = {"algo": cell.algo, "env": cell.env, "seed": cell.seed}
        curves.append(_read_curve(files).assign(**labels))
        environment = params.environments[cell.env].id
        scores.append({**labels, **_read_evaluation(files), **_read_train(files, environment)})
    return Results(
        curves=pd.concat(curves, ignore_index=True)[list(CURVES)],
        scores=pd.DataFrame(scores)[list(SCORES)],
    )


def read_tables(grid: str, root: Path = Path()) -> Results:
    """Reads back the tidy tables of `grid`; raises `UserError` where one is missing or wrong."""
    files = AnalysisFiles(grid, root)
    made_by = "mujax-pipe aggregate" + ("" if grid == "all" else f" --grid {grid}")
    return Results(
        curves=read_csv(files.curves, CURVES, made_by=made_by),
        scores=read_csv(files.scores, SCORES, made_by=made_by),
    )


def read_csv(path: Path, columns: dict[str, str], *, made_by: str) -> pd.DataFrame:
    """Reads a CSV file of exactly these columns and types, with at least one row, all finite.

    Raises:
      UserError: anything else; `made_by` is the command that the message offers.
    """
    content = read_bytes(path, made_by=made_by)
    header = content.split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    if header != ",".join(columns):
        found = header if len(header) <= 80 else f"{header[:80]}..."
        raise _bad(path, f"its columns are {found!r}, not {','.join(columns)!r}", made_by)
    if not content.endswith(b"\n"):
        # The last number may have lost digits and would still read as a number.
        raise _bad(path, "it is cut off: no newline at its end", made_by)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            frame = pd.read_csv(
                io.BytesIO(content),
                dtype=columns,
                index_col=False,
                keep_default_na=False,
                na_values={name: ["", "nan"] for name in columns if columns[name] == "float64"},
                float_precision="round_trip",
            )
    except (ValueError, pd.errors.ParserWarning) as error:
        raise _bad(path, f"it cannot be read ({str(error).splitlines()[0]})", made_by) from None
    if frame.empty:
        raise _bad(path, "it has no rows", made_by)
    for name in (name for name, kind in columns.items() if kind == "float64"):
        wrong = ~np.isfinite(frame[name].to_numpy())
        if wrong.any():
            row = int(wrong.argmax()) + 2
            raise _bad(path, f"line {row} has no finite number in column {name!r}", made_by)
    return frame


def read_json(path: Path, *, made_by: str) -> dict[str, Any]:
    """Reads a JSON object; raises `UserError` where there is none."""
    try:
        value = json.loads(read_bytes(path, made_by=made_by))
    except ValueError as error:
        raise _bad(path, f"it is not JSON ({error})", made_by) from None
    if not isinstance(value, dict):
        raise _bad(path, "it holds no JSON object", made_by)
    return value


def read_bytes(path: Path, *, made_by: str) -> bytes:
    """Returns a file's bytes; raises `UserError` naming the command that makes it."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path} is missing; make it with: {made_by}") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None


def command(verb: str, cell: Cell) -> str:
    """Returns the command that makes a cell's files; `verb` is train or evaluate."""
    return f"mujax-pipe cell {verb} {cell.algo} {cell.env} {cell.seed}"


def _read_curve(files: CellFiles) -> pd.DataFrame:
    made_by = command("train", files.cell)
    curve = read_csv(files.curve, CURVE, made_by=made_by)
    # Two evaluations may fall after the same environment step, never after the same learner step.
    if not (curve["step"].is_monotonic_increasing and curve["step"].is_unique):
        raise _bad(files.curve, "column 'step' does not increase from row to row", made_by)
    if not curve["env_steps"].is_monotonic_increasing:
        raise _bad(files.curve, "column 'env_steps' decreases", made_by)
    return curve


def _read_train(files: CellFiles, environment: str) -> dict[str, Any]:
    made_by = command("train", files.cell)
    values = read_json(files.train, made_by=made_by)
    expected = {"algorithm": files.cell.algo, "environment": environment, "seed": files.cell.seed}
    for key, wanted in expected.items():
        if values.get(key) != wanted:
            raise _bad(files.train, f"{key} is {values.get(key)!r}, not {wanted!r}", made_by)
    best = values.get("best")
    if not isinstance(best, dict):
        raise _bad(files.train, "it has no 'best'", made_by)
    row: dict[str, Any] = {}
    for column, holder, key, kind in (
        ("best_step", best, "step", int),
        ("best_env_steps", best, "env_steps", int),
        ("best_score", best, "score", float),
        ("learner_steps", values, "num_learner_steps", int),
        ("env_steps", values, "num_env_steps", int),
        ("parameters", values, "num_parameters", int),
    ):
        row[column] = _number(files.train, holder, key, kind, made_by)
    return row


def _read_evaluation(files: CellFiles) -> dict[str, Any]:
    """Returns the statistics of the episodes, having compared them with evaluation.json."""
    made_by = command("evaluate", files.cell)
    episodes = read_csv(files.evaluation_csv, EPISODES, made_by=made_by)
    if not episodes["episode"].is_unique:
        raise _bad(files.evaluation_csv, "an episode stands there twice", made_by)
    returns = episodes["return"].to_numpy()
    row: dict[str, Any] = {
        "episodes": len(returns),
        "mean": float(returns.mean()),
        "std": float(returns.std(ddof=1)) if len(returns) > 1 else 0.0,
        "min": float(returns.min()),
        "max": float(returns.max()),
    }
    told = read_json(files.evaluation_json, made_by=made_by)
    for key, value in row.items():
        found = _number(files.evaluation_json, told, key, type(value), made_by)
        # Loose enough for a rounded file, and for either way of summing many returns.
        if not math.isclose(found, value, rel_tol=1e-5, abs_tol=1e-6):
            raise _bad(
                files.evaluation_json,
                f"{key} is {found:.10g}, but the episodes of {files.evaluation_csv.name} give "
                f"{value:.10g}",
                made_by,
            )
    return row


def _number(path: Path, holder: dict[str, Any], key: str, kind: type, made_by: str) -> Any:
    value = holder.get(key)
    allowed = (int,) if kind is int else (int, float)
    if type(value) not in allowed or not math.isfinite(value):  # type: ignore[arg-type]
        names = {int: "a whole number", float: "a finite number"}
        raise _bad(path, f"{key} is {value!r}, not {names[kind]}", made_by)
    return kind(value)


def _bad(path: Path, what: str, made_by: str) -> UserError:
    return UserError(f"{path}: {what}; make it again with: {made_by}")
