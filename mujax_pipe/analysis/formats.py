"""How numbers and tables become text; the same numbers give the same bytes."""

from __future__ import annotations

import contextlib
import math
import os
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from mujax_pipe.errors import UserError

if typing.TYPE_CHECKING:
    from mujax_pipe.params import Params

# Digits that survive a different order of summing; more would be noise of the last bit.
_DIGITS = 6


def csv(frame: pd.DataFrame) -> str:
    """Returns a frame as CSV: floats with six significant digits, an empty field for NaN."""
    frame = frame.copy()
    for column in frame.select_dtypes("float64"):
        frame[column] = frame[column] + 0.0  # -0.0 and 0.0 are the same score
    text: str = frame.to_csv(index=False, float_format=f"%.{_DIGITS}g", lineterminator="\n")
    return text


def display(value: float) -> str:
    """Returns a score for the eye: 487.3, 12.05 or -0.0512; a dash for NaN."""
    if math.isnan(value):
        return "-"
    decimals = 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 4
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text


def display_interval(row: dict[str, Any]) -> str:
    """Returns `[low, high]` of a row of final scores, or a dash where there is none."""
    if math.isnan(row["low"]):
        return "-"
    return f"[{display(row['low'])}, {display(row['high'])}]"


def title(environment: str) -> str:
    """Returns the name that an environment goes by: `module:package/Name-v0` is Name-v0."""
    return environment.rpartition("/")[2]


def environment_title(params: Params, env: str) -> str:
    """Returns the name for people of an environment of params.yaml; `env` where it is not there."""
    return title(params.environments[env].id) if env in params.environments else env


def percent(share: float) -> str:
    """Returns 0.95 as `95 %`."""
    return f"{100 * share:g} %"


def write(path: Path, content: bytes) -> None:
    """Writes a file beside its name and renames it, so that a crash leaves no half of it.

    Raises:
      UserError: the folder or file cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)
        beside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise UserError(f"{path} cannot be written: {error.strerror}") from None


def rounded(value: float) -> float:
    """Returns a number with six significant digits."""
    return float(f"{value:.{_DIGITS}g}") + 0.0


def markdown(frame: pd.DataFrame, notes: Sequence[str] = ()) -> str:
    """Returns a table of text as Markdown: texts to the left, numbers to the right, then notes."""
    marks = [":--" if _is_text(frame[name]) else "--:" for name in frame]
    rows = [list(map(str, frame.columns)), marks, *frame.astype(str).to_numpy().tolist()]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines[1] = f"|{'|'.join(marks)}|"
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"


def latex(frame: pd.DataFrame, notes: Sequence[str] = ()) -> str:
    """Returns a table of text as LaTeX for the package booktabs, and the notes as comments."""
    columns = "".join("l" if _is_text(frame[name]) else "r" for name in frame)
    text = frame.to_latex(index=False, escape=True, column_format=columns)
    return "".join(f"% {note}\n" for note in notes) + str(text)


def _is_text(column: pd.Series) -> bool:
    """Whether a column holds words, as opposed to numbers, intervals and dashes."""
    return any(character.isalpha() for value in column.astype(str) for character in value)
