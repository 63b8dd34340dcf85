"""Trains published cells again, from nothing and elsewhere, and compares every tracked byte."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from mujax_pipe import fingerprint, runtime
from mujax_pipe.errors import RunError, UserError, quoted
from mujax_pipe.layout import CONSTRAINTS, FINGERPRINT, PARAMS, Cell, CellFiles
from mujax_pipe.params import Params
from mujax_pipe.record import require_settings
from mujax_pipe.training.differences import files_below, first_difference

_LOCK = Path("dvc.lock")
_SAME, _DIFFERS = "same   ", "differs"


def verify(
    params: Params,
    cells: Sequence[Cell],
    root: Path = Path(),
    *,
    tolerance: float | None = None,
    say: Callable[[str], None] = print,
) -> bool:
    """Trains and evaluates cells again and says, a line a file, whether they are the published.

    Args:
      params: of the project.
      cells: which; each must be finished.
      root: the project's folder; nothing in it is changed.
      tolerance: compare mean returns instead of bytes; largest difference, as a share of the
        published one, beyond two standard errors.
      say: prints a line.

    Returns:
      Whether all is the same. What differs is kept, and named.

    Raises:
      UserError: a cell is not finished, its results are of other settings, the fingerprint is
        stale, or other versions are installed than are pinned.
      RunError: a training failed.
    """
    fingerprint.check(root)
    lock = _recorded(root)
    for cell in cells:
        _require_published(params, cell, root)
    same = True
    for cell in cells:
        folder = Path(tempfile.mkdtemp(prefix="mujax-pipe-verify-"))
        keep = False
        try:
            started = time.monotonic()
            say(f"{cell.name}: training it again in {folder}")
            _train(cell, root, folder)
            keep = True  # Whatever happens to the comparison, the training was long.
            alike = (
                _compare_bytes(cell, root, folder, lock, say)
                if tolerance is None
                else _compare_scores(cell, root, folder, tolerance, say)
            )
            what = "bytes" if tolerance is None else "scores only, not bytes"
            verdict = "is as" if alike else "differs from"
            seconds = time.monotonic() - started
            say(f"{cell.name}: {verdict} published; compared {what}; {seconds:.0f} s")
            keep = not alike
            if keep:
                say(f"{cell.name}: what was made now is kept in {folder}")
                _explain(cell, root, folder, say)
        finally:
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)
        same = same and not keep
    return same


def chosen(
    params: Params, names: Sequence[str], *, cheapest: bool = False, root: Path = Path()
) -> list[Cell]:
    """Returns the cells of the grid with these names, or all finished ones.

    Args:
      params: of the project.
      names: such as `gmz/cartpole/seed-0`; a path to the cell's folder does too.
      cheapest: of these only the one with the fewest searches and updates, the first of several.
      root: the project's folder.

    Raises:
      UserError: a name that the grid does not have, or no cell is finished.
    """
    grid = {cell.name: cell for cell in params.cells("all")}
    prefix = CellFiles(next(iter(grid.values()))).directory.parents[2].as_posix() + "/"
    wanted = [name.rstrip("/").removeprefix(prefix) for name in names]
    for name in wanted:
        if name not in grid:
            raise UserError(
                f"cell {name!r} is not in the grid: allowed are names such as "
                f"{next(iter(grid))!r}, with {quoted(params.grid.algo)}; "
                f"{quoted(params.grid.env)}; seeds {quoted(params.grid.seed)}"
            )
    cells = [grid[name] for name in wanted or grid]
    if not wanted:
        cells = [cell for cell in cells if CellFiles(cell, root).train.exists()]
    if not cells:
        raise UserError("no cell is finished: `snakemake --cores all` trains the grid")
    return [min(cells, key=lambda cell: _work(params, cell))] if cheapest else cells


def dvc_digest(path: Path) -> str:
    """Returns the digest that dvc.lock holds of a file, or of a folder by the digests within."""
    if path.is_file():
        return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    entries = [{"md5": dvc_digest(path / name), "relpath": name} for name in files_below(path)]
    text = json.dumps(entries, sort_keys=True)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() + ".dir"


def _work(params: Params, cell: Cell) -> float:
    config = params.config(cell)
    searched = config.batch_size * config.reanalyze_ratio * config.num_simulations
    return config.num_learner_steps * (config.batch_size + searched)


def _recorded(root: Path) -> dict[str, str]:
    """Returns path -> digest of every output in dvc.lock; empty without the file."""
    path = root / _LOCK
    if not path.exists():
        return {}
    stages = (yaml.safe_load(path.read_text(encoding="utf-8")).get("stages") or {}).values()
    return {out["path"]: out["md5"] for stage in stages for out in stage.get("outs", ())}


def _require_published(params: Params, cell: Cell, root: Path) -> None:
    files = CellFiles(cell, root)
    for path in files.analysed:
        if not path.exists():
            raise UserError(
                f"{path} is missing: only a finished cell can be verified; train it first, or name "
                "another"
            )
    require_settings(params, cell, files)


def _searched(cell: Cell, root: Path) -> bool:
    """Whether the published cell has its sweep over search budgets: the whole grid's have."""
    return all(path.exists() for path in CellFiles(cell, root).searched)


def _train(cell: Cell, root: Path, folder: Path) -> None:
    """Runs the jobs of a cell in processes of their own, as the engines do, in an empty folder."""
    for name in (PARAMS, FINGERPRINT, CONSTRAINTS):
        if (root / name).exists():
            shutil.copy(root / name, folder / name)
    source = str(Path(runtime.__file__).parents[1])
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    # Compiled programs of another time could hide that this machine compiles others.
    environment = {**os.environ, "PYTHONPATH": path, "JAX_ENABLE_COMPILATION_CACHE": "false"}
    arguments = [cell.algo, cell.env, str(cell.seed)]
    verbs = ("train", "evaluate", "search") if _searched(cell, root) else ("train", "evaluate")
    for verb in verbs:
        command = [sys.executable, "-m", "mujax_pipe", "cell", verb, *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, check=False)
        if done.returncode != 0:
            raise RunError(f"{cell.name}: `cell {verb}` ended with {done.returncode}, see above")


def _compare_bytes(
    cell: Cell, root: Path, folder: Path, lock: dict[str, str], say: Callable[[str], None]
) -> bool:
    files, made = CellFiles(cell, root), CellFiles(cell, folder)
    same = True
    pairs = [(files.trained, made.trained), (files.evaluated, made.evaluated)]
    if _searched(cell, root):
        pairs.append((files.searched, made.searched))
    for published, again in (
        (a, b) for ours, theirs in pairs for a, b in zip(ours, theirs, strict=True)
    ):
        name = again.relative_to(folder).as_posix()
        recorded = lock.get(name)
        where = first_difference(published, again) if published.exists() else None
        if where is None and recorded is not None and dvc_digest(again) != recorded:
            where = (
                f"the published file is not what {_LOCK} records"
                if published.exists()
                else f"its digest is not that in {_LOCK}; `dvc pull` brings the published one"
            )
        if where is None and not published.exists() and recorded is None:
            where = f"it is neither in results/ nor in {_LOCK}"
        against = [] if not published.exists() else ["results/"]
        against += [] if recorded is None else [str(_LOCK)]
        if published == files.train and _differ_in_class_alone(published, again, recorded):
            say(f"{_SAME} {name}, but {where} ({' and '.join(against)})")
        elif where is None:
            say(f"{_SAME} {name} ({' and '.join(against)})")
        else:
            say(f"{_DIFFERS} {name}: {where}")
            same = False
    return same


def _differ_in_class_alone(published: Path, again: Path, recorded: str | None) -> bool:
    """Whether two runs were the same on machines of two classes: a class only says what may be."""
    if not published.exists() or recorded not in (None, dvc_digest(published)):
        return False
    old, new = (json.loads(path.read_text(encoding="utf-8")) for path in (published, again))
    classes = (old.pop("machine_class", None), new.pop("machine_class", None))
    return classes[0] != classes[1] and old == new


def _compare_scores(
    cell: Cell, root: Path, folder: Path, tolerance: float, say: Callable[[str], None]
) -> bool:
    """Compares mean returns: within the tolerance and two standard errors of their difference."""
    published, again = (
        json.loads(CellFiles(cell, where).evaluation_json.read_text(encoding="utf-8"))
        for where in (root, folder)
    )
    variance = sum(found["std"] ** 2 / found["episodes"] for found in (published, again))
    allowed = tolerance * abs(published["mean"]) + 2.0 * math.sqrt(variance)
    near = abs(again["mean"] - published["mean"]) <= allowed
    say(
        f"{_SAME if near else _DIFFERS} {cell.name}: mean return {again['mean']:.6g} here, "
        f"{published['mean']:.6g} published; allowed are {allowed:.3g} apart ({tolerance:.0%} and "
        "two standard errors)"
    )
    return near


def _explain(cell: Cell, root: Path, folder: Path, say: Callable[[str], None]) -> None:
    """Says so when the published cell is of another kind of machine."""
    there, here = (
        json.loads(CellFiles(cell, where).train.read_text(encoding="utf-8")).get("machine_class")
        for where in (root, folder)
    )
    if there != here:
        say(
            f"{cell.name}: it was published from a machine of class {there!r}, this is {here!r}; "
            "bytes may differ between classes, --tolerance 0.1 compares scores"
        )
