"""What writers share: their folder, their package, config as plain values, what a resume cuts."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mujax_pipe.errors import UserError
from mujax_pipe.training.files import write_text


def make_folder(directory: Path, writer: str) -> Path:
    """Makes a writer's folder and returns it.

    Raises:
      UserError: it cannot be made.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(directory, writer, error) from None
    return directory


def unwritable(path: Path, writer: str, error: OSError) -> UserError:
    """Returns the error for a path that the writer named `writer` cannot use."""
    return UserError(
        f"writer {writer} cannot write {path} ({error.strerror}): name another folder, or leave "
        f"{writer} out"
    )


def import_extra(module: str) -> Any:
    """Imports the package of an optional writer; package and extra have one name.

    Raises:
      UserError: it is not installed, or is broken.
    """
    try:
        found = importlib.import_module(module)
        # W&B and DVCLive leave folders with their own names behind. Such a folder in the current
        # directory imports as an empty namespace package when the real one is missing.
        if found.__file__ is None:
            raise ImportError(f"No module named {module!r}")
    except ImportError as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"writer {module} needs a package that cannot be imported ({reason}): "
            f"pip install 'mujax-pipe[{module}]'"
        ) from None
    return found


def plain(value: Any) -> Any:
    """Returns a config as what JSON and YAML can hold; any other value becomes its text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def cut_after(path: Path, step: int, separator: str = ",") -> None:
    """Keeps a table's header and its whole rows up to `step`, the first column.

    A run that was killed has written past its last checkpoint; the resumed one writes that again.
    """
    with path.open(encoding="utf-8", newline="") as file:
        lines = [line for line in file if line.endswith("\n")]
    kept = [line for line in lines[1:] if _step_of(line, separator) <= step]
    write_text(path, "".join(lines[:1] + kept))


def _step_of(line: str, separator: str) -> float:
    head = line.partition(separator)[0]
    return int(head) if head.isdecimal() else float("inf")
