"""Where two results first differ, in words: JSON, CSV, checkpoints, and any other file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mujax_pipe.training.checkpoint import load_tree


def first_difference(published: Path, again: Path) -> str | None:
    """Says where two files or folders first differ; None if every byte is the same.

    Args:
      published: what was there.
      again: what was made now.
    """
    if published.is_dir() and again.is_dir():
        return _of_folders(published, again)
    old, new = published.read_bytes(), again.read_bytes()
    if old == new:
        return None
    try:
        if again.suffix == ".json":
            found = _first(_json_leaves(json.loads(old)), _json_leaves(json.loads(new)))
        elif again.suffix == ".csv":
            found = _first(_csv_leaves(old.decode()), _csv_leaves(new.decode()))
        else:
            found = None
    except ValueError:
        found = None
    return found or _of_bytes(old, new)


def files_below(folder: Path) -> list[str]:
    """Returns the files of a folder, sorted; marks that engines leave do not count."""
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".snakemake_timestamp"
    )


def _of_folders(published: Path, again: Path) -> str | None:
    old, new = files_below(published), files_below(again)
    if old != new:
        name = min({*old} ^ {*new})
        return f"{name} is only {'in the published one' if name in old else 'here'}"
    different = [x for x in old if (published / x).read_bytes() != (again / x).read_bytes()]
    if not different:
        return None
    for name in different:
        # Values of parameters say more than bytes of the files that hold them.
        if not name.startswith("params/"):
            return f"{name}: {first_difference(published / name, again / name)}"
    try:
        trees = (load_tree(published / "params"), load_tree(again / "params"))
        where = _first(*(_array_leaves(tree) for tree in trees))
    except Exception:  # Orbax raises many kinds, all meaning a damaged folder.
        where = f"{different[0]}, in a checkpoint that cannot be read"
    more = f", and {len(different) - 1} more of its files differ" if len(different) > 1 else ""
    return f"{where or different[0]}{more}"


def _first(old: Iterator[tuple[str, Any]], new: Iterator[tuple[str, Any]]) -> str | None:
    """Compares (name, value) pairs in order."""
    before, after = dict(old), dict(new)
    for name in {**before, **after}:
        if name not in after or name not in before:
            return f"{name} is only {'in the published one' if name in before else 'here'}"
        if not _same(before[name], after[name]):
            return f"{name} {_value(after[name], before[name])}"
    return None


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, np.ndarray):
        same_kind = (old.shape, old.dtype) == (new.shape, new.dtype)
        return same_kind and old.tobytes() == new.tobytes()
    return bool(old == new)


def _value(new: Any, old: Any) -> str:
    if not isinstance(new, np.ndarray):
        return f"is {new!r} here, {old!r} published"
    if (new.shape, new.dtype) != (old.shape, old.dtype):
        return f"is {new.dtype}{list(new.shape)} here, {old.dtype}{list(old.shape)} published"
    # By bytes, so that -0.0 is not 0.0 and NaN is itself.
    index = tuple(np.argwhere((_bytes(new) != _bytes(old)).any(axis=-1))[0].tolist())
    return f"at {list(index)} is {new[index]} here, {old[index]} published"


def _bytes(array: np.ndarray) -> np.ndarray:
    """Returns the bytes of each number, [..., itemsize]."""
    return np.frombuffer(array.tobytes(), np.uint8).reshape(*array.shape, -1)


def _json_leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _json_leaves(child, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _csv_leaves(text: str) -> Iterator[tuple[str, Any]]:
    for number, row in enumerate(csv.DictReader(io.StringIO(text)), 2):
        for column, value in row.items():
            yield f"line {number}, {column}", value


def _array_leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    for path, leaf in jax.tree.leaves_with_path(tree):
        yield jax.tree_util.keystr(path, simple=True, separator="."), np.asarray(leaf)


def _of_bytes(old: bytes, new: bytes) -> str:
    pairs = enumerate(zip(old, new, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(old), len(new)))
    return f"byte {at} ({len(new)} bytes here, {len(old)} published)"
