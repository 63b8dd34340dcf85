"""The metric and the tables: the numbers, their form, and the same bytes everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mujax_pipe.analysis import tables
from mujax_pipe.errors import UserError
from mujax_pipe.layout import AnalysisFiles
from tests.unit.finished_cells import bytes_below, make_params, run_elsewhere, write_cell


def finished(root: Path, params, returns: dict[tuple[str, int], list[float]]) -> None:
    for cell in params.cells("all"):
        write_cell(root, cell, returns=returns[cell.env, cell.seed])


@pytest.fixture
def made(tmp_path: Path) -> AnalysisFiles:
    params = make_params(seeds=[0, 1])
    returns = {
        ("cartpole", 0): [400.0, 500.0],
        ("cartpole", 1): [500.0, 500.0],
        ("blackjack", 0): [-1.0, 1.0, 0.0, -1.0, 0.0, 0.0, 0.0],
        ("blackjack", 1): [0.0, 0.0],
    }
    finished(tmp_path, params, returns)
    tables.aggregate(params, "all", tmp_path)
    return AnalysisFiles("all", tmp_path)


def test_every_file_of_the_layout_is_written_and_nothing_else(made: AnalysisFiles) -> None:
    written = {path for path in made.directory.rglob("*") if path.is_file()}
    cells = {path for path in written if "cells" in path.parts}
    assert written - cells == {made.summary, *made.tables}


def test_summary_json_is_the_metric(made: AnalysisFiles) -> None:
    assert json.loads(made.summary.read_text()) == {
        "cartpole": {"gmz": {"mean": 475.0, "low": 450.0, "high": 500.0, "seeds": 2}},
        # -1/7 and 0: six significant digits.
        "blackjack": {"gmz": {"mean": -0.0714286, "low": -0.142857, "high": 0.0, "seeds": 2}},
    }


def test_final_scores(made: AnalysisFiles) -> None:
    csv = next(path for path in made.tables if path.name == "final_scores.csv")
    assert csv.read_bytes().decode().splitlines() == [
        "env,algo,seeds,mean,low,high,iqm,iqm_low,iqm_high,min,max",
        "cartpole,gmz,2,475,450,500,475,450,500,450,500",
        "blackjack,gmz,2,-0.0714286,-0.142857,0,-0.0714286,-0.142857,0,-0.142857,0",
    ]
    lines = csv.with_suffix(".md").read_bytes().decode().splitlines()
    assert lines[0].startswith("| Environment | Algorithm | Seeds | Mean | 95 % interval | IQM |")
    assert lines[2:4] == [
        "| CartPole-v1 | Gumbel MuZero | 2 | 475.0 | [450.0, 500.0] | 475.0 | 450.0 | 500.0 |",
        "| Blackjack-v1 | Gumbel MuZero | 2 | -0.0714 | [-0.1429, 0.0000] | -0.0714 | -0.1429 "
        "| 0.0000 |",
    ]
    assert "2000 samples" in lines[5]


def test_files_end_in_one_newline_and_hold_no_other_kind(made: AnalysisFiles) -> None:
    for path in (made.summary, *made.tables):
        content = path.read_bytes()
        assert content.endswith(b"\n"), path
        assert not content.endswith(b"\n\n"), path
        assert b"\r" not in content, path


def test_one_seed_is_said_and_not_hidden(tmp_path: Path) -> None:
    params = make_params(envs=["cartpole"], seeds=[0])
    finished(tmp_path, params, {("cartpole", 0): [3.0, 5.0]})
    tables.aggregate(params, "all", tmp_path)
    files = AnalysisFiles("all", tmp_path)
    assert json.loads(files.summary.read_text()) == {"cartpole": {"gmz": {"mean": 4.0, "seeds": 1}}}
    csv = next(path for path in files.tables if path.name == "final_scores.csv")
    assert csv.read_text().splitlines()[1] == "cartpole,gmz,1,4,,,4,,,4,4"
    markdown = csv.with_suffix(".md").read_text()
    assert "| 1 | 4.00 | - | 4.00 |" in markdown
    assert "One seed has no interval." in markdown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (487.32, "487.3"),
        (-1234.56, "-1234.6"),
        (12.049, "12.05"),
        (-0.05123, "-0.0512"),
        (-0.00001, "0.0000"),
        (0.0, "0.0000"),
        (float("nan"), "-"),
    ],
)
def test_display(value: float, shown: str) -> None:
    assert tables.display(value) == shown


def test_csv_numbers_do_not_depend_on_the_last_bits() -> None:
    noisy = pd.DataFrame({"x": [0.1 + 0.2, np.nextafter(0.3, 1), -0.0], "n": [1, 2, 3]})
    assert tables.csv(noisy) == "x,n\n0.3,1\n0.3,2\n0,3\n"


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "table.csv"
    tables.write(path, b"old\n")

    def full(self: Path, target: Path) -> None:
        assert self.read_bytes() == b"new\n"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(UserError, match=r"table.csv cannot be written: No space left on device"):
        tables.write(path, b"new\n")
    assert bytes_below(tmp_path) == {"table.csv": b"old\n"}


def test_a_file_in_place_of_a_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    with pytest.raises(UserError, match=r"x.csv cannot be written: "):
        tables.write(tmp_path / "results" / "x.csv", b"")


def test_the_same_bytes_in_other_processes(tmp_path: Path) -> None:
    one, two = (run_elsewhere(tmp_path, number, "tables") for number in (0, 1))
    assert {"summary.json", "tables/final_scores.md", "tables/curves.csv"} <= set(one)
    assert one == two
