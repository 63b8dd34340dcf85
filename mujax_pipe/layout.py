"""Where every file of a cell, of the analysis and of a log lies. No JAX, no effects.

A cell is one (algorithm, environment, seed). What both engines track lies under `results/`; what a
clock, a host or a crash can touch lies under `logs/`, which nothing tracks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

PARAMS = Path("params.yaml")
FINGERPRINT = Path("fingerprint.json")
CONSTRAINTS = Path("constraints.txt")
STAGES = Path("dvc.yaml")
RESULTS = Path("results")
CELLS = RESULTS / "cells"
ENVIRONMENTS = RESULTS / "environments"
# Of the published grid: a page for people, and what a clock measured.
PAGE = RESULTS / "README.md"
COST = RESULTS / "cost.csv"
LOGS = Path("logs")
CHECKPOINTS = Path("checkpoints")

MAX_SEED = 2**31 - 1

ANALYSIS_SOURCE = Path("mujax_pipe/analysis")
# The table of hyperparameters has its defaults, and the papers that they are from.
SETTINGS_SOURCE = Path("mujax_pipe/config.py")
# Sources of jobs that the fingerprint leaves out, for they train and score nothing.
SEARCH_SOURCE = Path("mujax_pipe/training/search_budget.py")
RANDOM_SOURCE = Path("mujax_pipe/training/anchors.py")

FIGURE_FORMATS = ("pdf", "svg", "png")
FIGURES = (
    *("learning_curves", "final_scores", "score_distribution"),
    *("aggregate_metrics", "performance_profiles", "probability_of_improvement"),
)
# Of the whole grid alone: what they show takes minutes a cell.
SEARCH_FIGURES = ("search_budget", "chance_codes")
TABLES = ("final_scores", "steps_to_threshold", "hyperparameters")
TABLE_FORMATS = ("csv", "md", "tex")


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
    def last(self) -> Path:
        """Orbax checkpoint of the end of training, like `best`."""
        return self.directory / "last"

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
    def last(self) -> Path:
        return self.run.last

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
    def search_csv(self) -> Path:
        """One row a search budget: the score that the best checkpoint reaches with it."""
        return self.directory / "search.csv"

    @property
    def search_json(self) -> Path:
        """How many chance outcomes the model tells apart; empty where it has none."""
        return self.directory / "search.json"

    @property
    def searched(self) -> tuple[Path, ...]:
        """What the sweep over search budgets makes."""
        return (self.search_csv, self.search_json)

    @property
    def last_csv(self) -> Path:
        """One row an episode of the final evaluation, but of the last checkpoint."""
        return self.directory / "evaluation_last.csv"

    @property
    def last_json(self) -> Path:
        """Summary of the final evaluation of the last checkpoint."""
        return self.directory / "evaluation_last.json"

    @property
    def checkpoints(self) -> tuple[Path, ...]:
        """What git does not keep."""
        return (self.best, self.last)

    @property
    def trained(self) -> tuple[Path, ...]:
        """What training makes."""
        return (*self.checkpoints, self.curve, self.train)

    @property
    def evaluated(self) -> tuple[Path, ...]:
        """What the final evaluation makes."""
        return (self.evaluation_csv, self.evaluation_json, self.last_csv, self.last_json)

    @property
    def analysed(self) -> tuple[Path, ...]:
        """What the analysis of any grid reads."""
        return (self.curve, self.train, *self.evaluated)

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
    def search_lock(self) -> Path:
        """Held by the sweep over search budgets, which may run beside the evaluation."""
        return self.logs / "search.lock"

    @property
    def machine(self) -> Path:
        """Seconds, memory and machine of the training: never tracked."""
        return self.logs / "machine.json"


@dataclasses.dataclass(frozen=True)
class EnvironmentFiles:
    """What is measured of an environment without learning."""

    env: str
    root: Path = Path()

    @property
    def directory(self) -> Path:
        return self.root / ENVIRONMENTS / self.env

    @property
    def random(self) -> Path:
        """The mean return of a policy that draws among the legal actions."""
        return self.directory / "random.json"

    @property
    def film(self) -> Path:
        """A few seconds of the best cell, for the report: never tracked."""
        return self.root / LOGS / "environments" / self.env / "film.gif"

    def log(self, verb: str) -> Path:
        """What the job `verb` prints: never tracked."""
        return self.film.with_name(f"{verb}.log")


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
        """Every table: the tidy ones that figures draw, and those for a paper."""
        made = tuple(self.table(name, suffix) for name in TABLES for suffix in TABLE_FORMATS)
        return (self.curves, self.scores, *made)

    def table(self, name: str, suffix: str) -> Path:
        return self.directory / "tables" / f"{name}.{suffix}"

    @property
    def figure_names(self) -> tuple[str, ...]:
        """Every figure that is tracked."""
        return FIGURES + (SEARCH_FIGURES if self.grid == "all" else ())

    @property
    def data(self) -> tuple[Path, ...]:
        """What the figures draw, beside them: aggregation makes it."""
        return tuple(self.figure(name, "csv") for name in self.figure_names)

    @property
    def figures(self) -> tuple[Path, ...]:
        """Every figure file."""
        return tuple(
            self.figure(name, suffix) for name in self.figure_names for suffix in FIGURE_FORMATS
        )

    def figure(self, name: str, suffix: str) -> Path:
        return self.directory / "figures" / f"{name}.{suffix}"

    def log(self, verb: str) -> Path:
        """What the job `verb` prints: never tracked."""
        return self.root / LOGS / self.grid / f"{verb}.log"


def analysed(cells: Sequence[Cell], grid: str, root: Path = Path()) -> list[Path]:
    """Returns everything that the analysis of these cells reads."""
    files = [CellFiles(cell, root) for cell in cells]
    return [
        *(path for cell in files for path in cell.analysed),
        *(path for cell in files if grid == "all" for path in cell.searched),
        *(EnvironmentFiles(env, root).random for env in dict.fromkeys(cell.env for cell in cells)),
    ]


def outputs(cells: Sequence[Cell], grid: str, root: Path = Path()) -> list[Path]:
    """Returns everything that a finished grid of these cells consists of."""
    made = AnalysisFiles(grid, root)
    return [
        *(
            path
            for cell in cells
            for path in (CellFiles(cell, root).best, CellFiles(cell, root).last)
        ),
        *analysed(cells, grid, root),
        *(made.summary, *made.tables, *made.data, *made.figures),
    ]
