"""From finished cells to tables, figures and one metric; knows no JAX.

Data flows one way: cells -> `aggregate` (tables, summary.json) -> `plot` (figures, from the tables
alone) -> `print_summary`. Importing this package is quick: pandas, scipy and seaborn are loaded by
the functions that need them.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from pathlib import Path

if typing.TYPE_CHECKING:
    from mujax_pipe.params import Params

__all__ = ["aggregate", "compare", "cost", "plot", "print_summary", "write_page"]


def aggregate(params: Params, grid: str, root: Path = Path()) -> None:
    """Writes `summary.json` and the tables of `grid` from its finished cells.

    Raises:
      UserError: a cell's file is missing or malformed, or a table cannot be written.
    """
    from mujax_pipe.analysis import tables

    tables.aggregate(params, grid, root)


def plot(params: Params, grid: str, root: Path = Path(), names: Sequence[str] = ()) -> None:
    """Draws figures of `grid`, all if none is named, from what `aggregate` wrote.

    Raises:
      UserError: no such figure, a table is missing or malformed, or a file cannot be written.
    """
    from mujax_pipe.analysis import figures

    figures.plot(params, grid, root, names)


def compare(params: Params, first: str, second: str, out: Path, root: Path = Path()) -> None:
    """Prints and draws how the scores of two git revisions or DVC experiments differ.

    Raises:
      UserError: no such version, or it has no scores.
    """
    from mujax_pipe.analysis import comparison

    comparison.compare(params, first, second, out, root)


def write_page(params: Params, root: Path = Path()) -> None:
    """Writes the page of the published grid, `results/README.md`, and `results/cost.csv`.

    Raises:
      UserError: a table is missing, or a cell has no record of its seconds.
    """
    from mujax_pipe.analysis import page

    page.write_page(params, root)


def cost(params: Params, grid: str, root: Path = Path()) -> None:
    """Prints and draws what the cells of `grid` cost: seconds, memory, learning over seconds.

    Raises:
      UserError: a table is missing, or no cell has a record of its seconds.
    """
    from mujax_pipe.analysis import spent

    spent.cost(params, grid, root)


def print_summary(params: Params, grid: str, root: Path = Path()) -> None:
    """Prints the scores and figures of `grid`, and how its files compare with those in git.

    Raises:
      UserError: a table is missing or malformed.
    """
    from mujax_pipe.analysis import summary

    summary.print_summary(params, grid, root)
