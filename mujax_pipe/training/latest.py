"""`latest/`: everything a run needs to go on, saved so that a crash at any moment loses nothing.

At most two generations lie in the folder, each written beside its final name and renamed, with a
digest of every file. A newest one that is torn or damaged falls back to the one before.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mujax_pipe.errors import RunError
from mujax_pipe.training.checkpoint import load_tree, save_tree
from mujax_pipe.training.files import write_json

_STATE, _ARRAYS, _DIGESTS = "state.json", "arrays", "digests.json"
_KEPT = 2


def save_latest(directory: Path, key: str, arrays: Any, state: dict[str, Any]) -> None:
    """Writes a new generation and removes all but the newest two.

    Args:
      directory: the `latest/` folder.
      key: names the run: settings, seed and source; only a run of the same key goes on from it.
      arrays: a pytree of arrays: nested dicts.
      state: the rest, as JSON.
    """
    number = max((int(path.name) for path in _generations(directory)), default=-1) + 1
    partial = directory / f"{number}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save_tree(partial / _ARRAYS, arrays)
    write_json(partial / _STATE, {"key": key, **state})
    write_json(partial / _DIGESTS, _digests(partial))
    partial.rename(directory / str(number))
    for old in _generations(directory)[:-_KEPT]:
        shutil.rmtree(old)


def load_latest(
    directory: Path, key: str, report: Callable[[str], None]
) -> tuple[Any, dict[str, Any]] | None:
    """Returns the arrays and state to go on from, or None to start anew.

    A generation of another key is a run with other settings or source: it is passed over, said and
    removed.

    Raises:
      RunError: every generation is damaged: a silent start from nothing would hide a fault.
    """
    for partial in directory.glob("*.partial"):
        shutil.rmtree(partial)
    damaged = []
    for generation in reversed(_generations(directory)):
        fault = _fault(generation)
        if fault is not None:
            damaged.append(f"{generation} ({fault})")
            report(f"{generation} is damaged ({fault}): trying the one before")
            continue
        state = json.loads((generation / _STATE).read_text(encoding="utf-8"))
        if state.pop("key") != key:
            report(f"{directory} is of a run with other settings or source: starting anew")
            remove_latest(directory)
            return None
        for path in _generations(directory):
            # Or the next save would count it among the two to keep.
            if int(path.name) > int(generation.name):
                shutil.rmtree(path)
        return load_tree(generation / _ARRAYS), state
    if damaged:
        raise RunError(
            f"nothing to go on from: {' and '.join(damaged)}; remove {directory} to start anew"
        )
    return None


def remove_latest(directory: Path) -> None:
    """Removes the folder, for a run that is done.

    Under another name, so that a kill meanwhile leaves no generation that looks damaged.
    """
    gone = directory.with_name(f"{directory.name}.removed")
    shutil.rmtree(gone, ignore_errors=True)
    if directory.exists():
        directory.rename(gone)
        shutil.rmtree(gone)


def run_key(*parts: Any) -> str:
    """Returns a digest of what a run is made of: JSON values."""
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _generations(directory: Path) -> list[Path]:
    """Returns the finished generations, oldest first."""
    found = [path for path in directory.glob("*") if path.name.isdecimal()]
    return sorted(found, key=lambda path: int(path.name))


def _digests(generation: Path) -> dict[str, str]:
    return {
        path.relative_to(generation).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(generation.rglob("*"))
        if path.is_file() and path.name != _DIGESTS
    }


def _fault(generation: Path) -> str | None:
    """Says what is wrong with a generation, or None."""
    try:
        expected = json.loads((generation / _DIGESTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        expected = None
    if not isinstance(expected, dict):
        return f"{_DIGESTS} cannot be read"
    found = _digests(generation)
    for name in sorted(set(expected) | set(found)):
        if expected.get(name) != found.get(name):
            return f"{name} differs from its digest" if name in found else f"{name} is missing"
    return None
