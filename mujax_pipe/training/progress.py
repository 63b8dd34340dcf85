"""How a run is going: a bar on a terminal, plain lines with a time elsewhere."""

from __future__ import annotations

import contextvars
import datetime
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mujax_pipe.status import read_object
from mujax_pipe.training.files import write_json
from mujax_pipe.training.schedule import Acted, Evaluated, Event, Learned

# Where the run of this context writes how far it is, for whoever watches it from outside.
_FILE: contextvars.ContextVar[Path | None] = contextvars.ContextVar("progress", default=None)

# What earlier processes spent on it, in seconds.
_EARLIER: contextvars.ContextVar[float] = contextvars.ContextVar("earlier", default=0.0)

# Seconds between two writes of that file.
_PAUSE = 2.0


@contextmanager
def written_to(path: Path) -> Iterator[None]:
    """Makes runs inside the block write how far they are to a small JSON file, now and then.

    It holds `step`, `num_steps`, `env_steps`, `score` and `best` (None before the first
    evaluation); of this process `started` and `updated` (seconds since 1970) and `from_step`, the
    first that it reported; and `seconds`, which it and those before it have spent on the run.
    """
    tokens = _FILE.set(path), _EARLIER.set(0.0)
    try:
        yield
    finally:
        _FILE.reset(tokens[0])
        _EARLIER.reset(tokens[1])


def earlier_seconds() -> float:
    """Returns what earlier processes spent on the run of this context, which went on from them."""
    return _EARLIER.get()


class Reporter:
    """Prints what happens. On a terminal a bar stays below the lines.

    Args:
      title: names the run.
      num_steps: learner steps in all.
    """

    def __init__(self, title: str, num_steps: int):
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._num_steps = num_steps
        self._started = time.monotonic()
        self._recent: deque[float] = deque(maxlen=50)
        self._metrics: dict[str, float] = {}
        # Until an event tells that the run began anew, it goes on from what was told before.
        path = _FILE.get()
        before = read_object(path) if path else {}
        _EARLIER.set(before.get("seconds", 0.0))
        self._told: dict[str, Any] = {
            "step": 0,
            "num_steps": num_steps,
            "env_steps": 0,
            "score": None,
            "best": before.get("best"),
            "from_step": None,
            "started": time.time(),
        }
        self._written = 0.0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=num_steps, note="compiling")
        self.line(f"{title}: {num_steps:,} learner steps")

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Shows the bar while the block runs."""
        with self._bar:
            yield

    def line(self, text: str) -> None:
        """Prints one line; with the time when it goes to a log."""
        if not self._console.is_terminal:
            text = f"{datetime.datetime.now().astimezone():%Y-%m-%d %H:%M:%S} {text}"
        self._console.print(text, markup=False)
        sys.stderr.flush()

    def take(self, event: Event) -> None:
        """Shows one event."""
        if isinstance(event, Acted):
            self._recent.extend(episode.episode_return for episode in event.episodes)
            self._bar.update(self._task, note=f"{event.env_steps:,} env steps{self._acting()}")
        elif isinstance(event, Learned):
            self._metrics = event.metrics
            self._bar.update(self._task, completed=event.step)
        elif isinstance(event, Evaluated):
            self.line(self._evaluation_line(event))
        self._tell(event)

    def _tell(self, event: Event) -> None:
        """Writes the progress file, if there is one and it is time."""
        told = self._told
        if not isinstance(event, Acted) and told["from_step"] is None:
            told["from_step"] = event.step
            if isinstance(event, Evaluated) and event.step == 0:
                # The first event of every new run.
                told["best"] = None
                _EARLIER.set(0.0)
        if isinstance(event, Acted):
            told["env_steps"] = event.env_steps
        elif isinstance(event, Learned):
            told["step"] = event.step
        else:
            told |= {"step": event.step, "env_steps": event.env_steps, "score": event.score}
            told["best"] = event.score if event.best else told["best"]
        path, now = _FILE.get(), time.monotonic()
        if path is not None and (isinstance(event, Evaluated) or now - self._written > _PAUSE):
            self._written = now
            # A full disk is no reason to stop: whatever must be kept will say so itself.
            with suppress(OSError):
                seconds = _EARLIER.get() + now - self._started
                write_json(path, {**told, "seconds": seconds, "updated": time.time()})

    def _acting(self) -> str:
        return f", acting {np.mean(self._recent):.4g}" if self._recent else ""

    def _evaluation_line(self, event: Evaluated) -> str:
        seconds = time.monotonic() - self._started
        parts = [
            f"step {event.step:,}/{self._num_steps:,}",
            f"env steps {event.env_steps:,}",
            f"score {event.score:.4g}{' (best)' if event.best else ''}",
        ]
        if self._metrics:
            parts += [f"{name} {self._metrics[name]:.3g}" for name in ("loss", "prior_entropy")]
        return ", ".join([*parts, f"{seconds:.0f} s"])
