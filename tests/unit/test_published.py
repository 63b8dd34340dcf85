"""What is published is what the stored episodes say, computed a second time by other means."""

from __future__ import annotations

import csv
import json
import math
import statistics
from pathlib import Path

import pytest
import scipy.stats

from mujax_pipe.analysis import page, results
from mujax_pipe.analysis.formats import display
from mujax_pipe.layout import COST, PAGE, AnalysisFiles, Cell, CellFiles
from mujax_pipe.params import GRIDS, Params, load_params

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def params() -> Params:
    return load_params(ROOT / "params.yaml")


def returns_of(path: Path) -> list[float]:
    with path.open(encoding="utf-8", newline="") as file:
        return [float(row["return"]) for row in csv.DictReader(file)]


def test_scores_are_the_means_of_the_stored_episodes(params: Params) -> None:
    with AnalysisFiles(root=ROOT).scores.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["algo"], row["env"], int(row["seed"])) for row in rows} == {
        (cell.algo, cell.env, cell.seed) for cell in params.cells()
    }
    for row in rows:
        files = CellFiles(Cell(algo=row["algo"], env=row["env"], seed=int(row["seed"])), ROOT)
        returns = returns_of(files.evaluation_csv)
        assert len(returns) == int(row["episodes"]) == params.evaluation[row["env"]].episodes
        assert float(row["mean"]) == pytest.approx(statistics.fmean(returns), rel=1e-5)
        last = statistics.fmean(returns_of(files.last_csv))
        assert float(row["last_mean"]) == pytest.approx(last, rel=1e-5)


def test_the_table_is_that_of_the_stored_episodes(params: Params) -> None:
    """Student's t, the interval of params.yaml, from a textbook's formula."""
    assert params.analysis.interval == "t"
    summary = json.loads(AnalysisFiles(root=ROOT).summary.read_text(encoding="utf-8"))
    for env in params.environments_of():
        for algo in params.grid.algo:
            means = [
                statistics.fmean(returns_of(CellFiles(cell, ROOT).evaluation_csv))
                for cell in params.cells()
                if (cell.algo, cell.env) == (algo, env)
            ]
            mean, number = statistics.fmean(means), len(means)
            quantile = scipy.stats.t.ppf((1 + params.analysis.confidence) / 2, number - 1)
            half = float(quantile) * statistics.stdev(means) / math.sqrt(number)
            found = summary[env][algo]
            assert found["seeds"] == number
            assert found["mean"] == pytest.approx(mean, rel=1e-5)
            assert found["low"] == pytest.approx(mean - half, rel=1e-4, abs=1e-5)
            assert found["high"] == pytest.approx(mean + half, rel=1e-4, abs=1e-5)


def test_the_page_is_what_the_tables_make(params: Params) -> None:
    """But for the commit, which a shallow checkout does not know."""
    cost = results.read_csv(ROOT / COST, page.COLUMNS, made_by="mujax-pipe page")
    published = (ROOT / PAGE).read_text(encoding="utf-8")
    made = page.page(params, cost, ROOT)
    assert [line.split(", which came with commit")[0] for line in made.splitlines()] == [
        line.split(", which came with commit")[0] for line in published.splitlines()
    ]


@pytest.mark.parametrize("grid", GRIDS)
def test_the_readme_shows_what_is_published(grid: str) -> None:
    """Each of its tables has the first columns of one that is made, and no other row."""
    made = next(path for path in AnalysisFiles(grid, ROOT).tables if path.name == "final_scores.md")
    lines = [line for line in made.read_text("utf-8").splitlines() if line.startswith("| ")]
    header, *wanted = (line.split(" | ")[:5] for line in lines)
    tables = (ROOT / "README.md").read_text("utf-8").split(" | ".join(header) + " |\n")[1:]
    shown = [
        [line.removesuffix(" |").split(" | ") for line in table.split("\n\n")[0].splitlines()[1:]]
        for table in tables
    ]
    assert len(shown) == len(GRIDS)
    assert wanted in shown


def test_the_suite_says_which_goals_are_met(params: Params) -> None:
    """Its table shows mean and lowest of the published scores, in bold where the goal is met."""
    made = next(path for path in AnalysisFiles(root=ROOT).tables if path.name == "final_scores.csv")
    with made.open(encoding="utf-8", newline="") as file:
        scores = {(row["env"], row["algo"]): row for row in csv.DictReader(file)}
    _, _, table = (ROOT / "docs/suite.md").read_text("utf-8").partition("| environment |")
    lines = table.split("\n\n")[0].splitlines()
    rows = [
        [cell.strip() for cell in line.strip("| ").split(" | ")]
        for line in lines[2:]
        if line.startswith("| ")
    ]
    assert [row[0] for row in rows] == list(params.environments_of())
    for env, goal, _, *shown in rows:
        for algo, cell in zip(("gmz", "smz"), shown, strict=True):
            row = scores[env, algo]
            mean, lowest = float(row["mean"]), float(row["min"])
            text = f"{display(mean)} ({display(lowest)})"
            aim = goal.split()[0]
            met = aim[-1].isdigit() and float(aim) <= (lowest if "every seed" in goal else mean)
            assert cell == (f"**{text}**" if met else text)
