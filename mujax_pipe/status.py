"""The whole grid at a glance, from files alone: whichever engine runs it, on whichever host."""

from __future__ import annotations

import dataclasses
import enum
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mujax_pipe.layout import Cell, CellFiles
from mujax_pipe.locking import holder
from mujax_pipe.params import Params

_PAUSE = 2.0  # seconds between two looks
_SHOWN = 10  # stopped cells before "and N more"


class State(enum.Enum):
    """What a cell is at."""

    DONE = "done"
    RUNNING = "running"
    STOPPED = "stopped"
    WAITING = "waiting"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CellStatus:
    """One cell, as its files tell.

    Attributes:
      cell: which.
      state: what it is at.
      job: `train`, `evaluate` or `search`, of a cell that runs or has stopped.
      share: of the training that is done, 0 to 1.
      score: final mean return when done, else the best so far; None before the first.
      left: seconds of training left at the speed so far; None when unknown.
      seconds: that its training took, when done and known.
    """

    cell: Cell
    state: State
    job: str = ""
    share: float = 0.0
    score: float | None = None
    left: float | None = None
    seconds: float | None = None


def watch(
    params: Params,
    grid: str,
    root: Path = Path(),
    *,
    once: bool = False,
    console: Console | None = None,
) -> None:
    """Shows the grid as a live table until nothing is left to wait for; `once` prints it."""
    console = console or Console(highlight=False)
    if once or not console.is_terminal:
        console.print(shown(look(params, grid, root), root))
        return
    with Live(console=console, auto_refresh=False) as live:
        while True:
            found = look(params, grid, root)
            live.update(shown(found, root), refresh=True)
            if all(status.state is State.DONE for status in found):
                return
            time.sleep(_PAUSE)


def look(params: Params, grid: str, root: Path = Path()) -> list[CellStatus]:
    """Returns the status of every cell of a grid."""
    verbs = ("train", "evaluate", "search") if grid == "all" else ("train", "evaluate")
    return [_status(cell, CellFiles(cell, root), verbs) for cell in params.cells(grid)]


def _status(cell: Cell, files: CellFiles, verbs: Sequence[str]) -> CellStatus:
    progress = read_object(files.progress)
    made = {"train": files.trained, "evaluate": files.evaluated, "search": files.searched}
    left = [verb for verb in verbs if not all(path.exists() for path in made[verb])]
    job = "train" if progress else next(iter(left), verbs[-1])
    share = progress.get("step", 0) / max(progress.get("num_steps", 1), 1)
    best = progress.get("best")
    if holder(files.lock) is not None or holder(files.search_lock) is not None:
        time_left = _time_left(progress) if job == "train" else None
        return CellStatus(
            cell=cell,
            state=State.RUNNING,
            job=job,
            share=share if job == "train" else 1.0,
            score=best,
            left=time_left,
        )
    if not left:
        return CellStatus(
            cell=cell,
            state=State.DONE,
            share=1.0,
            score=read_object(files.evaluation_json).get("mean"),
            seconds=read_object(files.machine).get("seconds"),
        )
    if _stopped_in(files, job):
        return CellStatus(cell=cell, state=State.STOPPED, job=job, share=share, score=best)
    return CellStatus(cell=cell, state=State.WAITING, share=0.0 if job == "train" else 1.0)


def _time_left(progress: Mapping[str, Any]) -> float | None:
    """Returns seconds left at the speed of the process that is at work; None before its steps."""
    step, first = progress.get("step", 0), progress.get("from_step")
    if first is None or step <= first:
        return None
    took = progress.get("updated", 0.0) - progress.get("started", 0.0)
    return float(took * (progress.get("num_steps", step) - step) / (step - first))


def _stopped_in(files: CellFiles, job: str) -> bool:
    """Whether an unfinished job has begun, as its lock or Snakemake's log since training tell."""
    log = files.log(job)
    if job == "train":
        return files.lock.exists() or (log.exists() and log.stat().st_size > 0)
    return log.exists() and log.stat().st_mtime >= files.train.stat().st_mtime


def shown(found: Sequence[CellStatus], root: Path = Path()) -> RenderableType:
    """Returns what a person sees: a line a group, then who runs, then what has stopped."""
    parts: list[RenderableType] = [_groups(found)]
    if running := [status for status in found if status.state is State.RUNNING]:
        parts += ["", _running(running)]
    if stopped := [status for status in found if status.state is State.STOPPED]:
        parts += ["", *_stopped(stopped, root)]
    parts += ["", _summary(found)]
    return Group(*parts)


def _groups(found: Sequence[CellStatus]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("environment")
    table.add_column("algorithm")
    for state in State:
        table.add_column(state.value, justify="right")
    table.add_column("mean score", justify="right")
    groups = dict.fromkeys((status.cell.env, status.cell.algo) for status in found)
    for env, algo in groups:
        mine = [s for s in found if (s.cell.env, s.cell.algo) == (env, algo)]
        counts = [sum(status.state is state for status in mine) for state in State]
        scores = [s.score for s in mine if s.state is State.DONE and s.score is not None]
        mean = f"{statistics.fmean(scores):.4g}" if scores else ""
        table.add_row(env, algo, *(str(count or "") for count in counts), mean)
    return table


def _running(running: Sequence[CellStatus]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("running", "job", "", "", "best", "time left"):
        right = name in ("best", "time left")
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    for status in running:
        table.add_row(
            status.cell.name,
            status.job,
            ProgressBar(total=1.0, completed=status.share, width=12),
            f"{status.share:.0%}",
            "" if status.score is None else f"{status.score:.4g}",
            "" if status.left is None else _duration(status.left),
        )
    return table


def _stopped(stopped: Sequence[CellStatus], root: Path) -> list[Text]:
    lines = []
    for status in stopped[:_SHOWN]:
        log = CellFiles(status.cell, root).log(status.job)
        where = f"at {status.share:.0%}" if status.job == "train" else f"in {status.job}"
        lines.append(Text(f"stopped  {status.cell.name} {where}: see {log}"))
    if len(stopped) > _SHOWN:
        lines.append(Text(f"stopped  and {len(stopped) - _SHOWN} more"))
    return lines


def _summary(found: Sequence[CellStatus]) -> Text:
    done = sum(status.state is State.DONE for status in found)
    text = f"{done} of {len(found)} cells done"
    work = _seconds_left(found)
    if done < len(found) and work is not None:
        text += f"; about {_duration(work)} of training left, of one core"
    return Text(text)


def _seconds_left(found: Sequence[CellStatus]) -> float | None:
    """Returns seconds of training left, waiting cells reckoned as those done; None if unknown."""
    total = 0.0
    for status in found:
        if status.state is State.DONE:
            continue
        alike = [
            other.seconds
            for other in found
            if other.seconds is not None
            and (other.cell.env, other.cell.algo) == (status.cell.env, status.cell.algo)
        ]
        if status.left is not None:
            total += status.left
        elif status.share == 1.0:
            continue
        elif alike:
            total += statistics.fmean(alike) * (1.0 - status.share)
        else:
            return None
    return total


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"


def read_object(path: Path) -> dict[str, Any]:
    """Returns what a JSON file holds; nothing if it is not there, or just being replaced."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
