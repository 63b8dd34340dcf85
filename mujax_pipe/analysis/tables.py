"""Writes the metric, the tables and the data of the figures of a grid."""

from __future__ import annotations

import json
import math
import typing
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from mujax_pipe.analysis import across, results, statistics
from mujax_pipe.analysis.coverage import coverage
from mujax_pipe.analysis.formats import (
    csv,
    display,
    display_interval,
    environment_title,
    latex,
    markdown,
    percent,
    rounded,
    write,
)
from mujax_pipe.analysis.hyperparameters import by_setting, hyperparameters
from mujax_pipe.analysis.intervals import MIN_SEEDS, NAMES
from mujax_pipe.errors import UserError
from mujax_pipe.layout import AnalysisFiles

if typing.TYPE_CHECKING:
    from mujax_pipe.params import Params


def aggregate(params: Params, grid: str, root: Path = Path()) -> None:
    """Reads the cells of `grid` and writes every file of `AnalysisFiles` but the figures.

    Raises:
      UserError: cells are not whole; raised when all is written from the others.
    """
    cells = results.read_cells(params, grid, root)
    files = AnalysisFiles(grid, root)
    scores = statistics.final_scores(cells.scores, params.analysis)
    write(files.summary, summary_json(scores).encode())
    for path, frame in figure_data(params, cells, scores, files).items():
        write(path, csv(frame).encode())
    write(files.curves, csv(cells.curves).encode())
    write(files.scores, csv(cells.scores).encode())
    steps = statistics.steps_to_threshold(cells.curves, thresholds(params, cells.random))
    settings = hyperparameters(params, grid)
    for name, frame, shown, notes in (
        ("final_scores", scores, shown_scores(params, scores), interval_notes(params, scores)),
        ("steps_to_threshold", steps, _shown_steps(params, steps), [_threshold_note(params)]),
        ("hyperparameters", settings, _shown_settings(params, settings), _SOURCES),
    ):
        write(files.table(name, "csv"), csv(frame).encode())
        write(files.table(name, "md"), markdown(shown, notes).encode())
        write(files.table(name, "tex"), latex(shown, notes).encode())
    for line in across.uneven_cells(cells.scores):
        print(line)
    if cells.faults:
        number = f"{len(cells.faults)} of {len(params.cells(grid))} cells"
        raise UserError(f"{number} are left out of tables and figures, first: {cells.faults[0]}")


def figure_data(
    params: Params, cells: results.Cells, scores: pd.DataFrame, files: AnalysisFiles
) -> dict[Path, pd.DataFrame]:
    """Returns what each figure draws, by the file beside it.

    Args:
      params: of the project.
      cells: of the grid.
      scores: `statistics.final_scores` of them.
      files: of the grid.
    """
    settings = params.analysis
    normalised = across.normalised(cells.scores, anchors(params, cells.random))
    data = {
        "learning_curves": statistics.learning_curves(cells.curves, settings),
        "final_scores": scores,
        "score_distribution": cells.quantiles,
        "aggregate_metrics": across.aggregate_metrics(normalised, settings),
        "performance_profiles": across.performance_profiles(normalised, settings),
        "probability_of_improvement": across.probability_of_improvement(normalised, settings),
        "search_budget": statistics.by_budget(cells.searches, settings),
        "chance_codes": cells.chances,
    }
    return {files.figure(name, "csv"): data[name] for name in files.figure_names}


def anchors(params: Params, random: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Returns the scores of each environment that count as 0 and 1.

    Args:
      params: of the project: references, and bases where there are any.
      random: environment -> mean return of a random policy, the base of all others.
    """
    found = {}
    for env, score in random.items():
        reference = params.references[env]
        found[env] = (score if reference.base is None else reference.base, reference.score)
    return found


def thresholds(params: Params, random: Mapping[str, float]) -> dict[str, float]:
    """Returns the score at which each environment counts as learned."""
    share = params.analysis.threshold
    return {env: low + share * (high - low) for env, (low, high) in anchors(params, random).items()}


def summary_json(scores: pd.DataFrame) -> str:
    """Returns the one DVC metric: env -> algo -> mean, low, high, seeds.

    One seed has no `low` and `high`, and of few the studentised ones may be infinite: a metric is a
    number, so they are left out.
    """
    metric: dict[str, dict[str, dict[str, float]]] = {}
    for row in scores.to_dict("records"):
        values = {key: rounded(row[key]) for key in ("mean", "low", "high")}
        values = {key: value for key, value in values.items() if math.isfinite(value)}
        metric.setdefault(row["env"], {})[row["algo"]] = {**values, "seeds": int(row["seeds"])}
    return json.dumps(metric, indent=2, allow_nan=False) + "\n"


def shown_scores(params: Params, scores: pd.DataFrame) -> pd.DataFrame:
    """Returns `statistics.final_scores` as text for a reader."""
    rows = [
        {
            **_names(params, row),
            "Seeds": str(row["seeds"]),
            "Mean": display(row["mean"]),
            f"{percent(params.analysis.confidence)} interval": display_interval(row),
            "IQM": display(row["iqm"]),
            "Last": display(row["last"]),
            "Lowest": display(row["min"]),
            "Highest": display(row["max"]),
        }
        for row in scores.to_dict("records")
    ]
    return pd.DataFrame(rows)


def _shown_steps(params: Params, steps: pd.DataFrame) -> pd.DataFrame:
    rows = [
        {
            **_names(params, row),
            "Score": display(row["threshold"]),
            "Reached": f"{row['reached']} of {row['seeds']}",
            **{
                name.capitalize(): "never" if math.isnan(row[name]) else f"{row[name]:,.0f}"
                for name in ("lowest", "median", "highest")
            },
        }
        for row in steps.to_dict("records")
    ]
    return pd.DataFrame(rows)


def _shown_settings(params: Params, settings: pd.DataFrame) -> pd.DataFrame:
    names = {algo: _algorithm(params, algo) for algo in settings["algo"].unique()}
    titles = {env: environment_title(params, env) for env in settings["env"].unique()}
    return by_setting(settings, names, titles)


def _names(params: Params, row: Mapping[str, typing.Any]) -> dict[str, str]:
    return {
        "Environment": environment_title(params, row["env"]),
        "Algorithm": _algorithm(params, row["algo"]),
    }


def _algorithm(params: Params, algo: str) -> str:
    return str(params.figures.algorithm_names.get(algo, algo))


_SOURCES = [
    "Sources: tuned (set in params.yaml), derived (from other settings), paper (by its letter in "
    "mujax_pipe/config.py), default (of this project)."
]


def _threshold_note(params: Params) -> str:
    return (
        "Environment steps until an evaluation first reached the score, which is "
        f"{percent(params.analysis.threshold)} of the way from the base to the reference; "
        "lowest, median and highest over seeds, of which one that never did counts as infinite."
    )


def interval_notes(params: Params, scores: pd.DataFrame) -> list[str]:
    """Returns what a reader must know of the numbers, one line each."""
    kind = params.analysis.interval
    notes = [
        "A seed's score is its mean return over the final evaluation of its best checkpoint; the "
        f"interval is for the mean over seeds ({NAMES[kind]}). Last: the mean of the "
        "checkpoints at the end of training, on the same episodes."
    ]
    notes += [
        coverage_note(kind, seeds, params.analysis.confidence)
        for seeds in sorted(scores["seeds"].unique())
        if coverage(kind, seeds, params.analysis.confidence)
    ]
    if (scores["seeds"] < MIN_SEEDS).any():
        notes.append("One seed has no interval.")
    return notes


def coverage_note(kind: str, seeds: int, confidence: float) -> str:
    """Says what an interval of this kind over so many seeds is worth."""
    low, high = coverage(kind, seeds, confidence) or (math.nan, math.nan)
    return (
        f"With {seeds} seeds such an interval held the true mean in {low:.0%} to {high:.0%} of "
        "simulated experiments, by the kind of scores (docs/statistics.md)."
    )
