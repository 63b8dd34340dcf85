"""What a person sees at the end: the scores, the figures, and how both compare with git."""

from __future__ import annotations

import json
import subprocess
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mujax_pipe.analysis import results, statistics
from mujax_pipe.analysis.formats import display, display_interval, environment_title, percent
from mujax_pipe.analysis.intervals import MIN_SEEDS
from mujax_pipe.errors import quoted
from mujax_pipe.layout import RESULTS, AnalysisFiles, Cell, CellFiles, analysed

if typing.TYPE_CHECKING:
    import pandas as pd

    from mujax_pipe.params import Params

# Names shown before "and N more".
_SHOWN = 5


def print_summary(
    params: Params, grid: str, root: Path = Path(), console: Console | None = None
) -> None:
    """Prints the final scores of `grid`, its figures, and a comparison with the commit of git.

    Raises:
      UserError: a table is missing or malformed.
    """
    console = console or Console(highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = 120  # a pipe has no width of its own
    tidy = results.read_tables(grid, root)
    scores = statistics.final_scores(tidy.scores, params.analysis)
    console.print(_score_table(params, scores))
    if (scores["seeds"] < MIN_SEEDS).any():
        say(console, "One seed has no interval.")
    say(console, "")
    for path in AnalysisFiles(grid, root).figures:
        say(console, str(path))
    say(console, "")
    compare(params, grid, root, scores, console)


def say(console: Console, line: str) -> None:
    """Prints one line as it is: never wrapped, no markup."""
    console.print(line, soft_wrap=True, markup=False)


def compare(params: Params, grid: str, root: Path, scores: pd.DataFrame, console: Console) -> None:
    """Says whether the files of `grid` are those of the last commit and, if not, why not."""
    cells = params.cells(grid)
    files = _files(cells, grid)
    committed = committed_blobs(root)
    if committed is None:
        say(console, "Not compared with published results: this is no git checkout with a commit.")
        return
    if not any(path in committed for path in files):
        say(console, "Not compared with published results: git has none of this grid yet.")
        return
    here = _blobs(root, files)
    different = [path for path in files if here[path] != committed.get(path)]
    if not different:
        say(console, f"{RESULTS}/ is byte for byte what is committed ({len(files)} files).")
        return
    published, present = machine_classes(cells, root, committed)
    if published and published != present:
        say(console, f"This machine is of another class ({quoted(sorted(present))}) than the one")
        say(console, f"behind the committed results ({quoted(sorted(published))}):")
        say(console, f"bytes may differ, and do in {len(different)} of {len(files)} files. Scores:")
        summary = _shown(root, AnalysisFiles(grid).summary)
        console.print(_comparison(params, scores, json.loads(summary or "{}")))
        return
    more = f" and {len(different) - _SHOWN} more" if len(different) > _SHOWN else ""
    say(
        console,
        f"Warning: {len(different)} of {len(files)} files differ from what is committed, on the "
        "same class of machine.",
    )
    say(console, "That is right after a change of parameters or code, and wrong otherwise.")
    say(console, f"First: {quoted(different[:_SHOWN])}{more}")


def machine_classes(
    cells: Sequence[Cell], root: Path, committed: dict[str, str]
) -> tuple[set[str], set[str]]:
    """Returns the machine classes that trained these cells: in the commit, and here.

    Only cells that both have count: a new cell says nothing about the published ones.
    """
    published, present = set(), set()
    for cell in cells:
        path = CellFiles(cell).train
        if path.as_posix() not in committed:
            continue
        then = json.loads(_shown(root, path) or "{}").get("machine_class")
        now = results.read_json(root / path, made_by=results.command("train", cell))
        if then:
            published.add(str(then))
            present.add(str(now.get("machine_class", "unknown")))
    return published, present


def committed_blobs(root: Path) -> dict[str, str] | None:
    """Returns path (relative to `root`) -> blob of all results in HEAD; None without a HEAD."""
    listing = _git(root, "ls-tree", "-r", "-z", "HEAD", "--", RESULTS.as_posix())
    if listing is None:
        return None
    entries = (entry.split("\t", 1) for entry in listing.split("\0") if entry)
    return {path: description.split()[2] for description, path in entries}


def _blobs(root: Path, paths: Sequence[str]) -> dict[str, str | None]:
    """Returns what git would store for each file now; None where there is no file."""
    there = [path for path in paths if (root / path).is_file()]
    # Absolute, for git reads paths from its input as seen from the top of the checkout.
    listing = "".join(f"{(root / path).resolve()}\n" for path in there)
    hashes = _git(root, "hash-object", "--stdin-paths", stdin=listing)
    found = dict(zip(there, (hashes or "").split(), strict=True)) if there else {}
    return {path: found.get(path) for path in paths}


def _files(cells: Sequence[Cell], grid: str) -> list[str]:
    """Every file of the grid that git keeps, relative to `root`: causes before effects."""
    made = AnalysisFiles(grid)
    paths = [*analysed(cells, grid), *made.tables, made.summary, *made.data, *made.figures]
    return [path.as_posix() for path in paths]


def _shown(root: Path, path: Path) -> str | None:
    return _git(root, "show", f"HEAD:./{path.as_posix()}")


def _git(root: Path, *arguments: str, stdin: str | None = None) -> str | None:
    """Returns what git prints; None where there is no git, no checkout or no such thing."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, input=stdin, capture_output=True, text=True,
            encoding="utf-8", check=False,
        )  # fmt: skip
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def _score_table(params: Params, scores: pd.DataFrame) -> Table:
    table = _table("Environment", "Algorithm", right=("Seeds", "Mean"))
    table.add_column(f"{percent(params.analysis.confidence)} interval", no_wrap=True)
    for row in scores.to_dict("records"):
        table.add_row(
            *_names(params, row), str(row["seeds"]), display(row["mean"]), display_interval(row)
        )
    return table


def _comparison(params: Params, scores: pd.DataFrame, published: dict[str, Any]) -> Table:
    """Published mean and mean here, and whether the latter lies in the published interval."""
    table = _table("Environment", "Algorithm", right=("Published", "Here", "Difference"))
    table.add_column("Published interval", no_wrap=True)
    for row in scores.to_dict("records"):
        then = published.get(row["env"], {}).get(row["algo"])
        if then is None:
            table.add_row(*_names(params, row), "-", display(row["mean"]), "-", "not published")
            continue
        verdict = "none: one seed"
        if "low" in then:
            # The published bounds are rounded, so a mean on a bound may lie a rounding beyond it.
            slack = 1e-5 * max(abs(then["low"]), abs(then["high"]))
            inside = then["low"] - slack <= row["mean"] <= then["high"] + slack
            verdict = f"{display_interval(then)}: {'inside' if inside else 'outside'}"
        table.add_row(
            *_names(params, row),
            display(then["mean"]),
            display(row["mean"]),
            display(row["mean"] - then["mean"]),
            verdict,
        )
    return table


def _table(*left: str, right: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _names(params: Params, row: dict[str, Any]) -> tuple[str, str]:
    names = params.figures.algorithm_names
    return environment_title(params, row["env"]), names.get(row["algo"], row["algo"])
