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
from mujax_pipe.layout import AnalysisFiles, Cell, CellFiles, EnvironmentFiles

if typing.TYPE_CHECKING:
    from mujax_pipe.params import Params

# Columns and types of every file read here.
CURVE = {"step": "int64", "env_steps": "int64", "score": "float64"}
EPISODES = {"episode": "int64", "seed": "int64", "return": "float64", "length": "int64"}
SEARCH = {
    "simulations": "int64",
    "episodes": "int64",
    "mean": "float64",
    "std": "float64",
    "mean_length": "float64",
}
CHANCE = {"code_perplexity": "float64", "codes_used": "float64", "chance_perplexity": "float64"}
CELL = {"algo": "str", "env": "str", "seed": "int64"}
CURVES = {**CELL, **CURVE}
SEARCHES = {**CELL, **SEARCH}
CHANCES = {**CELL, **CHANCE}
QUANTILES = {**CELL, "quantile": "float64", "return": "float64"}
SCORES = {
    **CELL,
    "episodes": "int64",
    "mean": "float64",
    "std": "float64",
    "min": "float64",
    "max": "float64",
    "last_mean": "float64",
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cells(Results):
    """What all whole cells of a grid hold."""

    quantiles: pd.DataFrame
    """Columns `QUANTILES`: percentiles of the returns of the final episodes."""

    searches: pd.DataFrame
    """Columns `SEARCHES`: one row a cell and search budget; of the whole grid alone."""

    chances: pd.DataFrame
    """Columns `CHANCES`: one row a cell whose model has chance; of the whole grid alone."""

    random: dict[str, float]
    """Environment -> mean return of a random policy."""

    faults: tuple[str, ...]
    """What is wrong with the cells left out, a line each."""


def read_cells(params: Params, grid: str, root: Path = Path()) -> Cells:
    """Reads the finished cells of `grid`; those that are not whole are left out, and named.

    Raises:
      UserError: no cell is whole, or a file of an environment is not; the message names the file
        and the command that makes it.
    """
    parts: dict[str, list[pd.DataFrame]] = {}
    faults: list[str] = []
    for cell in params.cells(grid):
        try:
            read = _read_cell(params, cell, CellFiles(cell, root), search=grid == "all")
        except UserError as error:
            faults.append(str(error))
            continue
        for name, frame in read.items():
            labels = {"algo": cell.algo, "env": cell.env, "seed": cell.seed}
            parts.setdefault(name, []).append(frame.assign(**labels))
    if not parts:
        raise UserError(faults[0])
    kinds = {
        "curves": CURVES,
        "scores": SCORES,
        "quantiles": QUANTILES,
        "searches": SEARCHES,
        "chances": CHANCES,
    }
    frames = {
        name: pd.concat(parts[name], ignore_index=True)[list(columns)]
        if name in parts
        else pd.DataFrame(columns=list(columns))
        for name, columns in kinds.items()
    }
    random = {env: read_random(params, env, root) for env in params.environments_of(grid)}
    return Cells(**frames, random=random, faults=tuple(faults))


def _read_cell(
    params: Params, cell: Cell, files: CellFiles, *, search: bool
) -> dict[str, pd.DataFrame]:
    curve = _read_curve(files)
    train = _read_train(files, params.environments[cell.env].id)
    episodes = read_csv(files.evaluation_csv, EPISODES, made_by=command("evaluate", cell))
    last = read_csv(files.last_csv, EPISODES, made_by=command("evaluate", cell))
    scores = {
        **_evaluated(files, episodes),
        "last_mean": float(last["return"].mean()),
        **train,
    }
    share = np.linspace(0, 1, 101)
    found = {
        "curves": curve,
        "scores": pd.DataFrame([scores]),
        "quantiles": pd.DataFrame(
            {"quantile": share, "return": np.quantile(episodes["return"].to_numpy(), share)}
        ),
    }
    if search:
        made_by = command("search", cell)
        found["searches"] = read_csv(files.search_csv, SEARCH, made_by=made_by)
        if chance := read_json(files.search_json, made_by=made_by):
            row = {k: _number(files.search_json, chance, k, float, made_by) for k in CHANCE}
            found["chances"] = pd.DataFrame([row])
    return found


def read_random(params: Params, env: str, root: Path = Path()) -> float:
    """Returns the mean return of a random policy; raises `UserError` where it is not measured."""
    path = EnvironmentFiles(env, root).random
    made_by = f"mujax-pipe random {env}"
    values = read_json(path, made_by=made_by)
    if values.get("environment") != params.environments[env].id:
        raise _bad(path, f"environment is {values.get('environment')!r}", made_by)
    mean: float = _number(path, values, "mean", float, made_by)
    return mean


def read_tables(grid: str, root: Path = Path()) -> Results:
    """Reads back the tidy tables of `grid`; raises `UserError` where one is missing or wrong."""
    files = AnalysisFiles(grid, root)
    made_by = "mujax-pipe aggregate" + ("" if grid == "all" else f" --grid {grid}")
    return Results(
        curves=read_csv(files.curves, CURVES, made_by=made_by),
        scores=read_csv(files.scores, SCORES, made_by=made_by),
    )


def read_data(path: Path, grid: str) -> pd.DataFrame:
    """Reads what a figure draws, as `aggregate` wrote it; empty fields are NaN."""
    made_by = "mujax-pipe aggregate" + ("" if grid == "all" else f" --grid {grid}")
    try:
        return pd.read_csv(io.BytesIO(read_bytes(path, made_by=made_by)))
    except ValueError as error:
        raise _bad(path, f"it cannot be read ({str(error).splitlines()[0]})", made_by) from None


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
    """Returns the command that makes a cell's files; `verb` is train, evaluate or search."""
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


def _evaluated(files: CellFiles, episodes: pd.DataFrame) -> dict[str, Any]:
    """Returns the statistics of the episodes, having compared them with evaluation.json."""
    made_by = command("evaluate", files.cell)
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
