"""The metric and the tables: the numbers, their form, and the same bytes everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mujax_pipe.analysis import figures, formats, tables
from mujax_pipe.errors import UserError
from mujax_pipe.layout import AnalysisFiles, CellFiles
from mujax_pipe.sections import Reference
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
    read = {path for path in written if {"cells", "environments"} & set(path.parts)}
    assert written - read == {made.summary, *made.tables, *made.data}


def test_summary_json_is_the_metric(made: AnalysisFiles) -> None:
    assert json.loads(made.summary.read_text()) == {
        "cartpole": {"gmz": {"mean": 475.0, "low": 450.0, "high": 500.0, "seeds": 2}},
        # -1/7 and 0: six significant digits.
        "blackjack": {"gmz": {"mean": -0.0714286, "low": -0.142857, "high": 0.0, "seeds": 2}},
    }


def test_final_scores(made: AnalysisFiles) -> None:
    csv = next(path for path in made.tables if path.name == "final_scores.csv")
    assert csv.read_bytes().decode().splitlines() == [
        "env,algo,seeds,mean,low,high,iqm,iqm_low,iqm_high,last,min,max",
        "cartpole,gmz,2,475,450,500,475,450,500,475,450,500",
        "blackjack,gmz,2,-0.0714286,-0.142857,0,-0.0714286,-0.142857,0,-0.0714286,-0.142857,0",
    ]
    lines = csv.with_suffix(".md").read_bytes().decode().splitlines()
    assert lines[0].startswith("| Environment | Algorithm | Seeds | Mean | 95 % interval | IQM |")
    assert lines[1] == "|:--|:--|--:|--:|--:|--:|--:|--:|--:|"
    assert lines[2:4] == [
        "| CartPole-v1 | Gumbel MuZero | 2 | 475.0 | [450.0, 500.0] | 475.0 | 475.0 "
        "| 450.0 | 500.0 |",
        "| Blackjack-v1 | Gumbel MuZero | 2 | -0.0714 | [-0.1429, 0.0000] | -0.0714 | -0.0714 "
        "| -0.1429 | 0.0000 |",
    ]
    assert "percentile bootstrap" in lines[5]
    assert lines[6].startswith("With 2 seeds such an interval held the true mean in 33% to 51% of")
    latex = csv.with_suffix(".tex").read_text().splitlines()
    assert latex[2] == r"\begin{tabular}{llrrrrrrr}"
    cells = ["CartPole-v1", "Gumbel MuZero", "2", "475.0", "[450.0, 500.0]", "475.0", "475.0"]
    assert " & ".join([*cells, "450.0", r"500.0 \\"]) in latex
    assert {r"\toprule", r"\midrule", r"\bottomrule"} <= set(latex)


def test_files_end_in_one_newline_and_hold_no_other_kind(made: AnalysisFiles) -> None:
    for path in (made.summary, *made.tables, *made.data):
        content = path.read_bytes()
        assert content.endswith(b"\n"), path
        assert not content.endswith(b"\n\n"), path
        assert b"\r" not in content, path


def test_seeds_that_an_environment_lacks_are_said(tmp_path: Path, capsys) -> None:
    params = make_params(seeds=[0, 1])
    names = [(cell.env, cell.seed) for cell in params.cells("all")]
    finished(tmp_path, params, {name: [3.0, 5.0] for name in names})
    CellFiles(params.cells("all")[-1], tmp_path).curve.unlink()
    with pytest.raises(UserError, match="1 of 4 cells are left out"):
        tables.aggregate(params, "all", tmp_path)
    assert "gmz has fewer seeds: blackjack has no seed 1." in capsys.readouterr().out


def test_a_broken_cell_is_named_and_the_others_are_written(tmp_path: Path) -> None:
    params = make_params(envs=["cartpole"], seeds=[0, 1, 2])
    finished(tmp_path, params, {("cartpole", seed): [3.0, 5.0 + seed] for seed in range(3)})
    files = CellFiles(params.cells("all")[1], tmp_path)
    text = files.evaluation_csv.read_text()
    made = AnalysisFiles("all", tmp_path)
    for broken in (text[:-3], text.replace("3.0", "nan"), None):
        if broken is None:
            files.evaluation_csv.unlink()
        else:
            files.evaluation_csv.write_text(broken)
        with pytest.raises(UserError, match="1 of 3 cells are left out of tables and figures") as e:
            tables.aggregate(params, "all", tmp_path)
        assert str(files.evaluation_csv) in str(e.value)
        assert "mujax-pipe cell evaluate gmz cartpole 1" in str(e.value)
        assert json.loads(made.summary.read_text())["cartpole"]["gmz"]["seeds"] == 2
        for path in (*made.tables, *made.data):
            assert path.exists()
            path.unlink()


@pytest.mark.parametrize("interval", ["t", "percentile", "bca", "studentised"])
def test_every_kind_of_interval_makes_tables_and_figures(tmp_path: Path, interval: str) -> None:
    """Few seeds have studentised intervals without end, which JSON cannot hold."""
    params = make_params(envs=["cartpole"], seeds=[0, 1, 2], interval=interval)
    finished(tmp_path, params, {("cartpole", seed): [3.0, 5.0 + seed] for seed in range(3)})
    tables.aggregate(params, "all", tmp_path)
    figures.plot(params, "all", tmp_path)
    files = AnalysisFiles("all", tmp_path)
    found = json.loads(files.summary.read_text())["cartpole"]["gmz"]
    assert ("low" in found) == (interval != "studentised")
    legend = files.figure("learning_curves", "svg").read_text()
    shown = {"bca": "BCa", "studentised": "percentile"}.get(interval, interval)
    assert f"<!-- 95 % {shown} interval -->" in legend


def test_a_base_of_its_own_counts_as_0(tmp_path: Path) -> None:
    params = make_params(envs=["cartpole", "blackjack"], seeds=[0])
    params.references["cartpole"] = Reference(
        score=10.0, source="a proof", base=-10.0, base_source="standing still"
    )
    random = {"cartpole": -500.0, "blackjack": 2.0}
    assert tables.anchors(params, random) == {"cartpole": (-10.0, 10.0), "blackjack": (2.0, 10.0)}
    assert tables.thresholds(params, random) == {"cartpole": 0.0, "blackjack": 6.0}


def test_one_seed_is_said_and_not_hidden(tmp_path: Path) -> None:
    params = make_params(envs=["cartpole"], seeds=[0])
    finished(tmp_path, params, {("cartpole", 0): [3.0, 5.0]})
    tables.aggregate(params, "all", tmp_path)
    files = AnalysisFiles("all", tmp_path)
    assert json.loads(files.summary.read_text()) == {"cartpole": {"gmz": {"mean": 4.0, "seeds": 1}}}
    csv = next(path for path in files.tables if path.name == "final_scores.csv")
    assert csv.read_text().splitlines()[1] == "cartpole,gmz,1,4,,,4,,,4,4,4"
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


def test_an_environment_goes_by_its_name() -> None:
    assert formats.title("CartPole-v1") == "CartPole-v1"
    of_a_package = "gymnasium_2048:gymnasium_2048/TwentyFortyEight-v0"
    assert formats.title(of_a_package) == "TwentyFortyEight-v0"


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
