"""From finished cells to tables, figures and one metric; knows no JAX.

Data flows one way: cells -> `aggregate` (tables, summary.json) -> `plot` (figures, from the tables
alone) -> `print_summary`. Importing this package is quick: pandas, scipy and seaborn are loaded by
the functions that need them.
"""

from __future__ import annotations

import typing
from pathlib import Path

if typing.TYPE_CHECKING:
    from mujax_pipe.params import Params

__all__ = ["aggregate", "plot", "print_summary"]


def aggregate(params: Params, grid: str, root: Path = Path()) -> None:
    """Writes `summary.json` and the tables of `grid` from its finished cells.

    Raises:
      UserError: a cell's file is missing or malformed, or a table cannot be written.
    """
    from mujax_pipe.analysis import tables

    tables.aggregate(params, grid, root)


def plot(params: Params, grid: str, root: Path = Path()) -> None:
    """Draws every figure of `grid` from the tables that `aggregate` wrote.

    Raises:
      UserError: a table is missing or malformed, or a figure cannot be written.
    """
    from mujax_pipe.analysis import figures

    figures.plot(params, grid, root)


def print_summary(params: Params, grid: str, root: Path = Path()) -> None:
    """Prints the scores and figures of `grid`, and how its files compare with those in git.

    Raises:
      UserError: a table is missing or malformed.
    """
    from mujax_pipe.analysis import summary

    summary.print_summary(params, grid, root)
