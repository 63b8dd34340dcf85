"""The best checkpoint: parameters by Orbax and a metadata file, the same bytes for the same run."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mujax_pipe.agents.types import Params
from mujax_pipe.errors import UserError
from mujax_pipe.training.files import write_json

_PARAMS = "params"
_METADATA = "metadata.json"
# What an array takes beyond its content: its folder, its description, the rest of its last block.
_FILES_AN_ARRAY, _BLOCK = 3, 4096


def save_best(directory: Path, params: Params, metadata: dict[str, Any]) -> None:
    """Writes parameters and metadata to `directory`, replacing what was there.

    `directory/params` is an Orbax PyTree checkpoint. Written beside its final name and renamed, so
    that a crash leaves the old or the new one.
    """
    partial = directory.with_name(f"{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        save_tree(partial / _PARAMS, params)
        write_json(partial / _METADATA, metadata)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    old = directory.with_name(f"{directory.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if directory.exists():
        os.rename(directory, old)
    os.rename(partial, directory)
    shutil.rmtree(old, ignore_errors=True)


def save_tree(directory: Path, tree: Any) -> None:
    """Writes nested dicts of arrays as an Orbax PyTree checkpoint that names no device.

    Raises:
      OSError: there is no room, or a file cannot be written.
    """
    tree = _with_text_keys(jax.tree.map(np.asarray, tree))
    _require_room(directory, tree)
    try:
        _checkpointer().save(directory.absolute(), tree)
    except ValueError as error:
        # What the file system said reaches us inside a text.
        if (code := re.search(r"os_error_code='(\d+)'", str(error))) is None:
            raise
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(directory)) from None
    _forget_when_and_where(directory)


def _require_room(directory: Path, tree: Any) -> None:
    """Raises `OSError` if the disk has no room: Orbax would say so with pages of tracebacks."""
    leaves = jax.tree.leaves(tree)
    needed = sum(leaf.nbytes for leaf in leaves) + _FILES_AN_ARRAY * _BLOCK * len(leaves)
    if shutil.disk_usage(directory.parent).free < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory))


def load_tree(directory: Path) -> Any:
    """Returns the nested dicts of arrays of `save_tree`, with text keys."""
    return _checkpointer().restore(directory.absolute())


def load_metadata(directory: Path) -> dict[str, Any]:
    """Returns the metadata of a best checkpoint.

    Raises:
      UserError: there is none, or it cannot be read.
    """
    path = directory / _METADATA
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(
            f"{directory} holds no checkpoint ({_METADATA} is missing): train first, or name the "
            "best/ folder of a finished run"
        ) from None
    except ValueError as error:
        raise UserError(f"{path} cannot be read ({error}): train again") from None


def load_params(directory: Path, like: Params) -> Params:
    """Returns the parameters of a best checkpoint.

    Args:
      directory: the `best/` folder.
      like: parameters, or their shapes, that the result must match.

    Raises:
      UserError: no checkpoint, a damaged one, or one of another network.
    """
    path = directory / _PARAMS
    if not path.is_dir():
        raise UserError(f"{directory} holds no checkpoint ({_PARAMS}/ is missing): train first")
    try:
        tree = load_tree(path)
    except Exception as error:  # Orbax raises many kinds, all meaning a damaged folder.
        raise UserError(f"{path} cannot be restored: {str(error).splitlines()[0]}") from error
    try:
        return shaped_like(tree, like)
    except ValueError as error:
        raise UserError(f"{path} is of another network: {error}; train again") from None


def shaped_like(tree: Any, like: Any) -> Any:
    """Returns nested dicts with text keys under the keys of `like`, whose shapes they must have.

    Raises:
      ValueError: names the first key or shape that differs.
    """
    found = {jax.tree_util.keystr(key): leaf for key, leaf in jax.tree.leaves_with_path(tree)}
    paths = jax.tree.leaves_with_path(_with_text_keys(like))
    expected = {jax.tree_util.keystr(key): leaf.shape for key, leaf in paths}
    for name in sorted(set(found) | set(expected)):
        if name not in found or name not in expected or found[name].shape != expected[name]:
            shape = found[name].shape if name in found else "nothing"
            raise ValueError(f"it holds {shape} for {name} where {expected.get(name)} is expected")
    return _rekeyed(tree, like)


def _rekeyed(tree: Any, like: Any) -> Any:
    """Puts back keys that are no text; a sort by text would put layer 10 before layer 2."""
    if not isinstance(like, dict):
        return tree
    return {key: _rekeyed(tree[str(key)], value) for key, value in like.items()}


def _checkpointer() -> Any:
    # Imported here: it takes a second that nothing but a checkpoint needs.
    import orbax.checkpoint as ocp

    logging.getLogger("absl").setLevel(logging.ERROR)
    # One file an array; the default container draws random file names.
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False, use_zarr3=False))


def _forget_when_and_where(directory: Path) -> None:
    """Removes the clock and the path that Orbax records, which restoring does not need."""
    (directory / "commit_success.txt").unlink(missing_ok=True)
    path = directory / "_CHECKPOINT_METADATA"
    metadata = json.loads(path.read_text(encoding="utf-8"))
    for name in ("init_timestamp_nsecs", "commit_timestamp_nsecs"):
        metadata[name] = 0
    path.write_text(json.dumps(metadata), encoding="utf-8")


def _with_text_keys(tree: Any) -> Any:
    """Nested dicts with string keys: Orbax files have names."""
    if not isinstance(tree, dict):
        return tree
    return {str(key): _with_text_keys(value) for key, value in tree.items()}
