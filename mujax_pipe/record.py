"""Records a finished grid in DVC, as if `dvc repro` had run it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from mujax_pipe import fingerprint, layout
from mujax_pipe.dvc_stages import targets
from mujax_pipe.errors import UserError
from mujax_pipe.layout import Cell, CellFiles
from mujax_pipe.params import Params


def record(params: Params, grid: str, root: Path = Path()) -> None:
    """Writes exactly the stages of a grid to dvc.lock, and their checkpoints to DVC's cache.

    Apart from the settings of each cell it believes what lies on disk: run it right after the
    engine that made it.

    Raises:
      UserError: an output is missing, a cell was trained with other settings than params.yaml has,
        fingerprint.json is stale, or DVC refuses.
    """
    wanted = layout.outputs(params.cells(grid), grid, root)
    missing = [path for path in wanted if not path.exists()]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise UserError(
            f"{missing[0]}{more} is missing, so nothing was recorded: finish the grid first with "
            f"`snakemake --cores all {grid}`"
        )
    fingerprint.check(root)
    for cell in params.cells(grid):
        require_settings(params, cell, CellFiles(cell, root))
    command = [sys.executable, "-m", "dvc", "commit", "--quiet", "--force", "--no-relink"]
    done = subprocess.run(
        [*command, *targets(params, grid)], cwd=root, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise UserError(f"dvc commit failed: {reason[0] if reason else 'it gave no reason'}")


def require_settings(params: Params, cell: Cell, files: CellFiles) -> None:
    """Checks that a cell was trained and evaluated as params.yaml asks for now.

    Args:
      params: of the project.
      cell: which.
      files: of the cell.

    Raises:
      UserError: names the first setting that differs.
    """
    environment = params.environments[cell.env]
    trained = {
        "environment": environment.id,
        "wrappers": environment.wrappers,
        "seed": cell.seed,
        "evaluation": dataclasses.asdict(params.evaluation_config(cell)),
        "config": dataclasses.asdict(params.config(cell)),
        "xla_threads": params.run.threads,
    }
    evaluated = {"episodes": params.evaluation[cell.env].episodes}
    for path, wanted in ((files.train, trained), (files.evaluation_json, evaluated)):
        found = _settings_in(path, tuple(wanted))
        for name, value in _flat(json.loads(json.dumps(wanted))).items():
            if found.get(name) != value:
                raise UserError(
                    f"{path}: {name} is {found.get(name)}, but {params.source} asks for {value}, "
                    "so it is out of date: run the engine again first"
                )


def _settings_in(path: Path, names: tuple[str, ...]) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return _flat({name: content[name] for name in names})
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path} is no record of a finished job: run the cell again") from None


def _flat(tree: dict[str, Any]) -> dict[str, Any]:
    """Returns the innermost keys of nested settings with their values; no two have one name."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat |= _flat(value) if isinstance(value, dict) else {name: value}
    return flat
