"""Small text files, written whole or not at all, the same bytes for the same content."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mujax_pipe.errors import UserError


def require_writable(directory: Path) -> None:
    """Raises `UserError` unless `directory` can be written, or made where its parent is.

    Makes nothing, so that a run that is refused leaves nothing behind.
    """
    try:
        nearest = next(path for path in (directory, *directory.parents) if path.exists())
        longest = os.pathconf(nearest, "PC_NAME_MAX")
        if any(len(os.fsencode(part)) > longest for part in directory.parts):
            raise OSError(errno.ENAMETOOLONG, f"a name has more than {longest} bytes")
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise UserError(
            f"folder {directory} cannot be written ({error.strerror}): name another one"
        ) from None


def write_text(path: Path, text: str) -> None:
    """Writes a file beside its final name and renames it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8", newline="\n")
    os.replace(partial, path)


def write_json(path: Path, value: Any) -> None:
    """Writes indented JSON; floats as the shortest text that reads back the same."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Writes a table with a header line; floats as the shortest text that reads back the same."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, buffer.getvalue())
