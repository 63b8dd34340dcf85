"""One process at a time for a cell: a lock that its owner's death releases."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mujax_pipe.errors import UserError


@contextlib.contextmanager
def only_one(path: Path, what: str) -> Iterator[None]:
    """Holds the lock file `path` while the block runs.

    The kernel holds the lock for the open file, so that a killed process leaves none behind.

    Args:
      path: of the lock file, which stays; its content says whose it was.
      what: names what is locked.

    Raises:
      UserError: another process has it; says which, where and since when.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        if not _take(file):
            raise UserError(
                f"{what} is in the hands of {_owner(path)}: wait for it, or stop it first"
            )
        file.truncate(0)
        json.dump({"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}, file)
        file.flush()
        yield


def _take(file: Any) -> bool:
    """Locks an open file; tries for a second, for `holder` has it for a moment when it looks."""
    for _ in range(20):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.05)
    return False


def holder(path: Path) -> dict[str, Any] | None:
    """Returns who holds a lock file (`pid`, `host`, `since`), or None if nobody does."""
    try:
        with path.open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _content(path)
    except FileNotFoundError:
        pass
    return None


def _owner(path: Path) -> str:
    owner = _content(path)
    if not owner:
        return "another process"
    since = datetime.datetime.fromtimestamp(owner["since"]).strftime("%Y-%m-%d %H:%M:%S")
    return f"process {owner['pid']} on {owner['host']}, since {since}"


def _content(path: Path) -> dict[str, Any]:
    """Returns what a lock file says; nothing while its owner is about to write it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return content if {"pid", "host", "since"} <= content.keys() else {}
    except (OSError, ValueError, AttributeError):
        return {}
