"""What goes wrong around a grid: one line on what it is and the way on, and nothing lost."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mujax_pipe.layout import Cell, CellFiles
from mujax_pipe.locking import only_one
from tests.pipeline.test_engines import PARAMS, shrink, snakemake, tracked

TWO = [Cell(algo="gmz", env="cartpole", seed=seed) for seed in (0, 1)]


@pytest.fixture(scope="module")
def finished(new_project: Callable[[], Any]) -> Any:
    """Two cells, done in both engines."""
    project = shrink(new_project())
    snakemake(project, "all")
    project.run("mujax-pipe", "sync")
    return project


def one_line(done: Any, code: int = 2) -> str:
    """Checks that a command ended with one line, which it returns."""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert (done.returncode, len(lines)) == (code, 1), done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return str(lines[0])


def test_a_failing_cell_leaves_the_others_running_and_is_named_with_its_log(
    new_project: Callable[[], Any],
) -> None:
    project = shrink(new_project())
    # A file where one of the two cells wants its folder.
    blocked = CellFiles(TWO[0], project.root)
    blocked.logs.mkdir(parents=True)
    (blocked.logs / "latest").write_text("in the way")
    done = project.run("snakemake", "--cores", "1", "all", check=False)
    assert done.returncode == 1
    assert not CellFiles(TWO[0], project.root).train.exists()
    assert CellFiles(TWO[1], project.root).evaluation_json.exists()
    end = done.stderr[done.stderr.rindex("environment ") :]
    assert f"stopped  {TWO[0].name} at 0%: see {CellFiles(TWO[0]).log('train')}" in end
    assert "latest" in CellFiles(TWO[0], project.root).log("train").read_text()
    # Without the obstacle the same command would finish the rest alone.
    (blocked.logs / "latest").unlink()
    printed = snakemake(project, "-n", "--printshellcmds", "all")
    assert "cell train gmz cartpole 0" in printed
    assert "cell train gmz cartpole 1" not in printed


def test_the_search_of_a_cell_runs_beside_its_evaluation(finished: Any) -> None:
    """Snakemake starts both at once; only two of a kind are kept apart."""
    files = CellFiles(TWO[0], finished.root)
    before = files.search_csv.read_bytes()
    command = ("mujax-pipe", "cell", "search", "gmz", "cartpole", "0")
    with only_one(files.lock, "an evaluation"):
        finished.run(*command)
    assert files.search_csv.read_bytes() == before
    with only_one(files.search_lock, "a search"):
        line = one_line(finished.run(*command, check=False))
    assert f"the search of {TWO[0].name} is in the hands of process {os.getpid()}" in line


@pytest.mark.parametrize(
    "part",
    [
        "evaluation.csv",
        pytest.param("best", marks=pytest.mark.slow),
        pytest.param("train.json", marks=pytest.mark.slow),
        pytest.param("search.json", marks=pytest.mark.slow),
    ],
)
def test_a_half_deleted_cell_is_made_whole(finished: Any, part: str) -> None:
    """Each engine sees it, sync refuses, and what comes back is the same."""
    before = tracked(finished.root)
    path = CellFiles(TWO[0], finished.root).directory / part
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    line = one_line(finished.run("mujax-pipe", "sync", check=False))
    assert "neither engine is done, so nothing was changed" in line
    assert "snakemake --cores all all" in line
    printed = snakemake(finished, "all")
    verb = {"evaluation.csv": "evaluate", "search.json": "search"}.get(part, "train")
    assert (
        set(re.findall(r"cell (\w+) gmz cartpole 0 ", printed))
        == {
            "train": {"train", "evaluate", "search"},
            "evaluate": {"evaluate"},
            "search": {"search"},
        }[verb]
    )
    assert "gmz cartpole 1" not in printed
    assert tracked(finished.root) == before
    finished.run("mujax-pipe", "sync")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("      - algorithms.${item.algo}\n", "", "params of stage train lacks 'algorithms."),
        ("mujax-pipe cell train", "mujax-pipe cell trian", "cmd of stage train lacks"),
        ("      seed: ${grid.seed}\n", "      seed: [0]\n", "matrix of stage train lacks"),
        ("  plot-demo:\n", "  plot-mine:\n", "stage plot-demo is missing"),
        ("stages:\n", "stages: [\n", "cannot be read as stages"),
    ],
)
def test_a_hand_edited_dvc_yaml_is_named(finished: Any, old: str, new: str, reason: str) -> None:
    path = finished.root / "dvc.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    try:
        line = one_line(finished.run("mujax-pipe", "sync", check=False))
    finally:
        path.write_text(text)
    assert line.startswith("mujax-pipe: dvc.yaml")
    assert reason in line
    assert "git checkout dvc.yaml" in line


def test_a_demo_that_dvc_yaml_does_not_list_is_named(finished: Any) -> None:
    path = finished.root / "params.yaml"
    text = path.read_text()
    path.write_text(text.replace("env: [cartpole], seed: [0]}", "env: [cartpole], seed: [0, 1]}"))
    try:
        line = one_line(finished.run("mujax-pipe", "sync", "--grid", "demo", check=False))
        stages = finished.root / "dvc.yaml"
        before = stages.read_text()
        finished.run("mujax-pipe", "stages", "--write")
        assert "seed-1/curve.csv" in stages.read_text()
    finally:
        path.write_text(text)
        os.utime(path, (0, 0))
    finished.run("mujax-pipe", "stages", "--write")
    assert stages.read_text() == before
    assert "dvc.yaml" in line
    assert "aggregate-demo" in line
    assert "results/cells/gmz/cartpole/seed-1/curve.csv" in line


@pytest.fixture
def small_disk(new_project: Callable[[], Any]) -> Iterator[Any]:
    """A project whose results lie on a disk of their own with room for half a checkpoint."""
    project = shrink(new_project())
    results = project.root / "results"
    results.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(results))
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk, and not in every container")
    yield project
    subprocess.run(["umount", results], check=True)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("size=100k", "No space left on device"),
        pytest.param("ro", "Read-only file system", marks=pytest.mark.slow),
    ],
)
def test_results_that_cannot_be_written_are_named_and_nothing_is_half_there(
    small_disk: Any, options: str, reason: str
) -> None:
    results = small_disk.root / "results"
    train = ("mujax-pipe", "cell", "train", "gmz", "cartpole", "0")

    def remount(options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", results], check=True)

    remount(options)
    done = small_disk.run(*train, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    line = done.stderr.splitlines()[-1]
    assert "results/" in line
    assert reason in line
    assert not CellFiles(TWO[0], small_disk.root).best.exists()
    assert not CellFiles(TWO[0], small_disk.root).train.exists()
    # With room again, the same command does it.
    remount("rw,size=50m")
    small_disk.run(*train)
    assert CellFiles(TWO[0], small_disk.root).train.exists()


def test_the_report_is_one_page_with_figures_and_tables(finished: Any, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    finished.run("snakemake", "--report", str(page), "all")
    text = page.read_text()
    for name in ("learning_curves.png", "final_scores.png", "final_scores.csv", "scores.csv"):
        assert name in text
    assert "one panel an environment" in text
    # Nothing is fetched when it is opened.
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=[\"']https?:", text)


def test_dvc_draws_curves_and_scores_with_titles_and_labels(finished: Any) -> None:
    printed = finished.run("dvc", "plots", "show", "--json").stdout
    for text in ("Learning curves", "Final evaluation", "environment steps", "mean return"):
        assert text in printed
    assert "<DVC_METRIC" not in printed


def test_metrics_and_params_of_two_revisions_are_compared(finished: Any) -> None:
    for command in (
        ("git", "config", "user.email", "test@example.org"),
        ("git", "config", "user.name", "Test"),
        ("git", "add", "."),
        ("git", "commit", "--quiet", "-m", "first"),
    ):
        finished.run(*command)
    assert PARAMS in (finished.root / "params.yaml").read_text()
    path = finished.root / "params.yaml"
    path.write_text(PARAMS.replace("confidence: 0.95", "confidence: 0.9"))
    try:
        printed = finished.run("dvc", "params", "diff").stdout
        shown = finished.run("dvc", "metrics", "diff", "--all").stdout
    finally:
        path.write_text(PARAMS)
        os.utime(path, (0, 0))
    assert re.search(r"analysis.confidence +0.95 +0.9", printed)
    assert re.search(r"summary.json +cartpole.gmz.\w+", shown)
