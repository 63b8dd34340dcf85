"""The page of the published grid."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mujax_pipe import analysis
from mujax_pipe.errors import UserError
from mujax_pipe.layout import COST, PAGE, CellFiles
from mujax_pipe.sections import Reference
from tests.unit.finished_cells import make_params, write_cell

PARAMS = make_params(algos=["gmz", "smz"], envs=["cartpole"], seeds=[0, 1])


@pytest.fixture(scope="module")
def aggregated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("finished")
    for cell in PARAMS.cells("all"):
        files = write_cell(root, cell, returns=(1.0, 3.0 + 2 * cell.seed))
        files.logs.mkdir(parents=True)
        record = {"seconds": 100.0 + 50 * cell.seed, "peak_memory_mb": 900.0, "cpu": "A, B"}
        files.machine.write_text(json.dumps(record))
    analysis.aggregate(PARAMS, "all", root)
    return root


@pytest.fixture
def finished(aggregated: Path, tmp_path: Path) -> Path:
    shutil.copytree(aggregated, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_scores_stand_beside_references_and_cost(finished: Path) -> None:
    analysis.write_page(PARAMS, finished)
    text = (finished / PAGE).read_text()
    row = next(line for line in text.splitlines() if line.startswith("| CartPole-v1 | Gumbel"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2:5] == ["1,000", "2", "2.50"]
    assert cells[6:] == ["2.50", "2.50", "2.00", "3.00", "0.0000", "10.00", "125"]
    assert "- CartPole-v1: 10.00 (a proof)" in text
    assert "mujax-pipe verify smz/cartpole/seed-0 smz/cartpole/seed-1" in text
    assert "The 4 cells took 0.1 core-hours to train (A  B)" in text
    assert "![learning curves](figures/learning_curves.png)" in text


def test_cost_is_kept_where_nothing_was_trained(finished: Path) -> None:
    analysis.write_page(PARAMS, finished)
    before = {path: (finished / path).read_bytes() for path in (PAGE, COST)}
    cells = [CellFiles(cell, finished) for cell in PARAMS.cells("all")]
    for files in cells[1:]:
        files.machine.unlink()
    analysis.write_page(PARAMS, finished)
    assert {path: (finished / path).read_bytes() for path in (PAGE, COST)} == before
    record = {"seconds": 500.0, "peak_memory_mb": 1.0, "cpu": "C"}
    cells[0].machine.write_text(json.dumps(record))
    analysis.write_page(PARAMS, finished)
    assert (finished / COST).read_text().splitlines()[1] == "gmz,cartpole,0,500,1,C"


def test_a_base_and_the_threads_of_a_run_are_told(finished: Path) -> None:
    params = make_params(algos=["gmz", "smz"], envs=["cartpole"], seeds=[0, 1])
    params.run.threads = 2
    params.references["cartpole"] = Reference(
        score=10.0, source="a proof", base=-1.0, base_source="standing still"
    )
    analysis.write_page(params, finished)
    text = (finished / PAGE).read_text()
    assert "- CartPole-v1: 10.00 (a proof); base: -1.00 (standing still)" in text
    assert "took 0.3 core-hours to train (A  B), 2 XLA threads each" in text
    assert "| 10.00 | 250 |" in text


def test_tables_of_another_grid_are_refused(finished: Path) -> None:
    larger = make_params(algos=["gmz", "smz"], envs=["cartpole"], seeds=[0, 1, 2])
    for cell in larger.cells("all"):
        machine = CellFiles(cell, finished).machine
        machine.parent.mkdir(parents=True, exist_ok=True)
        machine.write_text(json.dumps({"seconds": 1.0, "peak_memory_mb": 1.0, "cpu": "A"}))
    with pytest.raises(UserError, match=r"scores.csv lacks gmz/cartpole/seed-2.*aggregate"):
        analysis.write_page(larger, finished)
    smaller = make_params(algos=["gmz"], envs=["cartpole"], seeds=[0, 1])
    with pytest.raises(UserError, match=r"scores.csv has smz/cartpole/seed-0.*aggregate"):
        analysis.write_page(smaller, finished)


def test_a_cell_without_a_record_is_named(finished: Path) -> None:
    CellFiles(PARAMS.cells("all")[1], finished).machine.unlink()
    with pytest.raises(UserError, match=r"gmz/cartpole/seed-1 has a record of its seconds neither"):
        analysis.write_page(PARAMS, finished)
    assert not (finished / PAGE).exists()
