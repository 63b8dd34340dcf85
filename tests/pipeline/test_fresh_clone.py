"""What a fresh clone has is what git keeps: texts and figures, and no checkpoint."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mujax_pipe.layout import PARAMS, RESULTS, CellFiles
from mujax_pipe.params import load_params

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("grid", ["all", "demo"])
def test_every_cell_is_trained_where_only_its_texts_are(
    new_project: Callable[..., Any], grid: str
) -> None:
    project = new_project()
    ignored = shutil.ignore_patterns("best", "last")
    shutil.copytree(ROOT / RESULTS, project.root / RESULTS, ignore=ignored)
    cells = load_params(ROOT / PARAMS).cells(grid)
    assert all((project.root / CellFiles(cell).evaluation_json).exists() for cell in cells)
    planned = project.run("snakemake", "-n", "--printshellcmds", grid).stdout
    for cell in cells:
        for verb in ("train", "evaluate"):
            assert f"mujax-pipe cell {verb} {cell.algo} {cell.env} {cell.seed} " in planned


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the repository")
def test_published_cells_come_with_a_clone_and_leave_nothing_to_run(
    new_project: Callable[..., Any], tmp_path: Path
) -> None:
    """Through a bare repository, as from a server; checkpoints come from the store inside it."""
    for source, target, more in ((ROOT, "bare.git", ["--bare"]), ("bare.git", "clone", [])):
        command = ["git", "clone", "--quiet", "--no-hardlinks", *more, str(source), target]
        subprocess.run(command, cwd=tmp_path, check=True)
    clone = new_project(tmp_path / "clone")
    clone.run("dvc", "pull")
    printed = clone.run("mujax-pipe", "sync").stdout
    number = len(load_params(ROOT / PARAMS).cells())
    assert f"Snakemake and DVC agree on the {number} cells of 'all'" in printed
    assert "cells of 'demo'" in printed
    assert "Nothing to be done" in clone.run("snakemake", "-n", "all", "demo").stdout
    assert "up to date" in clone.run("dvc", "status").stdout
    # Snakemake knows how they were made: a changed setting runs again what it touches.
    params = clone.root / PARAMS
    text = params.read_text()
    params.write_text(text.replace("num_env_steps: 20000\n", "num_env_steps: 20001\n"))
    planned = clone.run("snakemake", "-n", "--printshellcmds", "all").stdout
    trained = set(re.findall(r"mujax-pipe cell train (\S+ \S+ \d+)", planned))
    cells = load_params(ROOT / PARAMS).cells()
    assert trained == {f"{c.algo} {c.env} {c.seed}" for c in cells if c.env == "cartpole"}
    params.write_text(text)
    assert clone.run("git", "status", "--porcelain").stdout == ""
    size = sum(path.stat().st_size for path in (clone.root / RESULTS / "store").rglob("*"))
    assert size < 30e6
