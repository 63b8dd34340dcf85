"""What a fresh clone has is what git keeps: texts and figures, and no checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mujax_pipe.layout import RESULTS, CellFiles
from mujax_pipe.params import load_params

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("grid", ["all", "demo"])
def test_every_cell_is_trained_where_only_its_texts_are(
    new_project: Callable[[], object], grid: str
) -> None:
    project = new_project()
    ignored = shutil.ignore_patterns("best")
    shutil.copytree(ROOT / RESULTS, project.root / RESULTS, ignore=ignored)
    cells = load_params(ROOT / "params.yaml").cells(grid)
    assert all((project.root / CellFiles(cell).evaluation_json).exists() for cell in cells)
    planned = project.run("snakemake", "-n", "--printshellcmds", grid).stdout
    for cell in cells:
        for verb in ("train", "evaluate"):
            assert f"mujax-pipe cell {verb} {cell.algo} {cell.env} {cell.seed} " in planned
