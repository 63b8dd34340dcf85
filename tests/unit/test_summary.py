"""What is printed at the end, against a small git repository."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from mujax_pipe import analysis
from mujax_pipe.analysis import summary
from mujax_pipe.errors import UserError
from mujax_pipe.layout import AnalysisFiles, Cell, CellFiles
from tests.unit.finished_cells import make_params, write_cell

PARAMS = make_params(seeds=[0, 1])
OURS, THEIRS = "x86_64 Ours family 1", "x86_64 Theirs family 2"


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def make(root: Path, *, shift: float = 0.0, machine_class: str = OURS, grid: str = "all") -> None:
    """Finishes all cells: cartpole scores 450 and 500 (+ shift), blackjack -0.2 and 0 (+ shift)."""
    scores = {"cartpole": (450.0, 500.0), "blackjack": (-0.2, 0.0)}
    for cell in PARAMS.cells(grid):
        score = scores[cell.env][cell.seed] + shift
        write_cell(root, cell, returns=[score, score], machine_class=machine_class)
    analysis.aggregate(PARAMS, grid, root)
    analysis.plot(PARAMS, grid, root)


def printed(root: Path, grid: str = "all") -> str:
    stream = io.StringIO()
    summary.print_summary(PARAMS, grid, root, Console(file=stream))
    return stream.getvalue()


@pytest.fixture
def published(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    make(tmp_path)
    git(tmp_path, "add", "results")
    git(tmp_path, "commit", "--quiet", "-m", "results")
    return tmp_path


def test_scores_and_unbroken_paths_are_shown(tmp_path: Path) -> None:
    root = tmp_path / ("long" * 40) / "[bold]"
    make(root)
    lines = printed(root).splitlines()
    assert lines[0].split() == ["Environment", "Algorithm", "Seeds", "Mean", "95", "%", "interval"]
    assert " ".join(lines[1].split()) == "CartPole-v1 Gumbel MuZero 2 475.0 [450.0, 500.0]"
    assert " ".join(lines[2].split()) == "Blackjack-v1 Gumbel MuZero 2 -0.1000 [-0.2000, 0.0000]"
    for path in AnalysisFiles("all", root).figures:
        assert str(path) in lines


def test_identical_files_are_one_line(published: Path) -> None:
    # Two environments x (two seeds x eight files, and one), eleven tables, the metric, and eight
    # figures in three forms and as data.
    assert printed(published).splitlines()[-1] == (
        "results/ is byte for byte what is committed (78 files)."
    )


def test_another_machine_class_compares_scores(published: Path) -> None:
    make(published, shift=1.0, machine_class=THEIRS)
    text = printed(published)
    assert OURS in text
    assert THEIRS in text
    assert "Warning" not in text
    row = next(line for line in reversed(text.splitlines()) if line.startswith("CartPole"))
    assert row.split()[-6:] == ["475.0", "476.0", "1.00", "[450.0,", "500.0]:", "inside"]
    row = next(line for line in reversed(text.splitlines()) if line.startswith("Blackjack"))
    assert row.split()[-6:] == ["-0.1000", "0.9000", "1.00", "[-0.2000,", "0.0000]:", "outside"]


def test_another_machine_class_with_the_same_scores_is_inside(published: Path) -> None:
    make(published, machine_class=THEIRS)
    text = printed(published)
    assert "and do in 4 of 78 files" in text
    assert text.count(": inside") == 2


def test_the_same_machine_class_is_a_warning_that_names_files(published: Path) -> None:
    changed = CellFiles(Cell(algo="gmz", env="blackjack", seed=1), published).evaluation_csv
    changed.write_text(changed.read_text().replace("100,0.0,7", "100,0.0,8"))
    AnalysisFiles("all", published).summary.unlink()
    text = printed(published)
    assert "Warning: 2 of 78 files differ from what is committed" in text
    assert text.splitlines()[-1] == (
        "First: results/cells/gmz/blackjack/seed-1/evaluation.csv, results/summary.json"
    )


def test_many_different_files_are_counted(published: Path) -> None:
    make(published, shift=1.0)
    assert printed(published).splitlines()[-1].endswith(" more")


def test_staged_changes_are_not_published(published: Path) -> None:
    make(published, shift=1.0)
    git(published, "add", "results")
    assert "Warning: " in printed(published)


def test_a_grid_that_was_never_committed_is_one_line(tmp_path: Path) -> None:
    make(tmp_path)
    last = printed(tmp_path).splitlines()[-1]
    assert last == "Not compared with published results: this is no git checkout with a commit."
    git(tmp_path, "init", "--quiet")
    (tmp_path / "other").write_text("")
    git(tmp_path, "add", "other")
    git(tmp_path, "commit", "--quiet", "-m", "other")
    last = printed(tmp_path).splitlines()[-1]
    assert last == "Not compared with published results: git has none of this grid yet."


def test_a_checkout_below_the_top_of_its_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    make(tmp_path / "below")
    git(tmp_path, "add", "below")
    git(tmp_path, "commit", "--quiet", "-m", "results")
    assert "byte for byte" in printed(tmp_path / "below")


def test_without_git_there_is_no_comparison(published: Path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert "no git checkout" in printed(published).splitlines()[-1]


def test_before_aggregation_there_is_nothing_to_show(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="mujax-pipe aggregate"):
        summary.print_summary(PARAMS, "all", tmp_path)
