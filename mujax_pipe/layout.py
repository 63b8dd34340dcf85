"""Where every file of a cell, of the analysis and of a log lies. No JAX, no effects.

A cell is one (algorithm, environment, seed). What both engines track lies under `results/`; what a
clock, a host or a crash can touch lies under `logs/`, which nothing tracks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

PARAMS = Path("params.yaml")
FINGERPRINT = Path("fingerprint.json")
CONSTRAINTS = Path("constraints.txt")
STAGES = Path("dvc.yaml")
RESULTS = Path("results")
CELLS = RESULTS / "cells"
LOGS = Path("logs")
CHECKPOINTS = Path("checkpoints")

MAX_SEED = 2**31 - 1

ANALYSIS_SOURCE = Path("mujax_pipe/analysis")

FIGURE_FORMATS = ("pdf", "svg", "png")
FIGURES = ("learning_curves", "final_scores")
TABLES = ("final_scores",)
TABLE_FORMATS = ("csv", "md")


@dataclasses.dataclass(frozen=True, kw_only=True, order=True)
class Cell:
    """One entry of the grid."""

    algo: str
    env: str
    seed: int

    @property
    def name(self) -> str:
        """Path-like name, such as `gmz/cartpole/seed-0`."""
        return f"{self.algo}/{self.env}/seed-{self.seed}"


@dataclasses.dataclass(frozen=True)
class RunFiles:
    """What a training run leaves in its folder, inside or outside a grid."""

    directory: Path

    @property
    def best(self) -> Path:
        """Orbax checkpoint with the best score, and its metadata."""
        return self.directory / "best"

    @property
    def latest(self) -> Path:
        """Everything an unfinished run needs to go on."""
        return self.directory / "latest"

    @property
    def curve(self) -> Path:
        """One row an evaluation: learner step, environment steps, score."""
        return self.directory / "curve.csv"

    @property
    def train(self) -> Path:
        """What was trained, and where its best score was reached."""
        return self.directory / "train.json"


@dataclasses.dataclass(frozen=True)
class CellFiles:
    """Every file of one cell, below `root` (the folder of params.yaml)."""

    cell: Cell
    root: Path = Path()

    @property
    def directory(self) -> Path:
        return self.root / CELLS / self.cell.name

    @property
    def run(self) -> RunFiles:
        return RunFiles(self.directory)

    @property
    def best(self) -> Path:
        return self.run.best

    @property
    def curve(self) -> Path:
        return self.run.curve

    @property
    def train(self) -> Path:
        return self.run.train

    @property
    def evaluation_csv(self) -> Path:
        """One row an episode of the final evaluation."""
        return self.directory / "evaluation.csv"

    @property
    def evaluation_json(self) -> Path:
        """Summary of the final evaluation."""
        return self.directory / "evaluation.json"

    @property
    def trained(self) -> tuple[Path, ...]:
        """What training makes."""
        return (self.best, self.curve, self.train)

    @property
    def evaluated(self) -> tuple[Path, ...]:
        """What the final evaluation makes."""
        return (self.evaluation_csv, self.evaluation_json)

    @property
    def analysed(self) -> tuple[Path, ...]:
        """What the analysis reads."""
        return (self.curve, self.train, self.evaluation_csv, self.evaluation_json)

    @property
    def logs(self) -> Path:
        return self.root / LOGS / "cells" / self.cell.name

    def log(self, verb: str) -> Path:
        """What the job `verb` prints: never tracked."""
        return self.logs / f"{verb}.log"

    def usage(self, verb: str) -> Path:
        """Seconds and memory of the job `verb`, as Snakemake measures them: never tracked."""
        return self.logs / f"{verb}.usage.tsv"

    @property
    def latest(self) -> Path:
        """Everything an unfinished cell needs to go on: no engine may delete it."""
        return self.logs / "latest"

    @property
    def progress(self) -> Path:
        """How far an unfinished training is: never tracked."""
        return self.logs / "progress.json"

    @property
    def lock(self) -> Path:
        """Held by the process that trains or evaluates the cell: never tracked."""
        return self.logs / "lock"

    @property
    def machine(self) -> Path:
        """Seconds, memory and machine of the training: never tracked."""
        return self.logs / "machine.json"


@dataclasses.dataclass(frozen=True)
class AnalysisFiles:
    """Every file made from the finished cells of one grid: `all`, or a part such as `demo`."""

    grid: str = "all"
    root: Path = Path()

    @property
    def directory(self) -> Path:
        base = self.root / RESULTS
        return base if self.grid == "all" else base / self.grid

    @property
    def summary(self) -> Path:
        return self.directory / "summary.json"

    @property
    def curves(self) -> Path:
        """Tidy learning curves of all cells: what the figure draws."""
        return self.directory / "tables" / "curves.csv"

    @property
    def scores(self) -> Path:
        """One row a cell: its final score."""
        return self.directory / "tables" / "scores.csv"

    @property
    def tables(self) -> tuple[Path, ...]:
        """Every file that aggregation writes beside the summary."""
        made = tuple(
            self.directory / "tables" / f"{name}.{suffix}"
            for name in TABLES
            for suffix in TABLE_FORMATS
        )
        return (self.curves, self.scores, *made)

    @property
    def figures(self) -> tuple[Path, ...]:
        """Every figure file."""
        return tuple(self.figure(name, suffix) for name in FIGURES for suffix in FIGURE_FORMATS)

    def figure(self, name: str, suffix: str) -> Path:
        return self.directory / "figures" / f"{name}.{suffix}"

    def log(self, verb: str) -> Path:
        """What the job `verb` prints: never tracked."""
        return self.root / LOGS / self.grid / f"{verb}.log"


def outputs(cells: Iterable[Cell], grid: str, root: Path = Path()) -> list[Path]:
    """Returns everything that a finished grid of these cells consists of."""
    made = AnalysisFiles(grid, root)
    files = [CellFiles(cell, root) for cell in cells]
    return [
        *(path for cell in files for path in (*cell.trained, *cell.evaluated)),
        *(made.summary, *made.tables, *made.figures),
    ]
