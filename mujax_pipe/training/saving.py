"""Keeps `latest/` up to date: by the clock, when asked to stop, and at the end.

The clock decides when to save and never what is computed: saving changes nothing in a run.
"""

from __future__ import annotations

import dataclasses
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from mujax_pipe.errors import RunError, StoppedError
from mujax_pipe.training.checkpoint import shaped_like
from mujax_pipe.training.evaluation import Selection
from mujax_pipe.training.latest import load_latest, remove_latest, save_latest
from mujax_pipe.training.schedule import Roles, RunState

# Ctrl-C, a polite kill, and what Slurm can be told to send before a time limit.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class Saver:
    """Saves and restores a run. Inside its `with` block signals stop the run at the next event.

    Args:
      directory: of `latest/`.
      roles: of the run; the environment loops are saved with it.
      state: of the run.
      key: see `latest.run_key`.
      every_sec: seconds between saves; 0 saves only at the end and when stopped.
      resume: go on from what is there.
      report: prints one line.
    """

    def __init__(
        self,
        directory: Path,
        roles: Roles,
        state: RunState,
        *,
        key: str,
        every_sec: float,
        resume: bool,
        report: Callable[[str], None],
    ):
        self._directory = directory
        self._roles = roles
        self._state = state
        self._key = key
        self._every_sec = every_sec
        self._wanted = resume
        self._report = report
        self._saved = time.monotonic()
        self.seconds = 0.0  # spent on writing
        self._signal: int | None = None
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Takes over the signals, where this is the main thread."""
        if threading.current_thread() is threading.main_thread():
            self._handlers = {number: signal.signal(number, self._notice) for number in _SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Gives the signals back."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def resume(self) -> bool:
        """Goes on from `latest/`, if wanted and there; returns whether it did.

        Raises:
          RunError: it is damaged, or an environment cannot be brought back.
        """
        if not self._wanted:
            remove_latest(self._directory)
            return False
        loaded = load_latest(self._directory, self._key, self._report)
        if loaded is None:
            return False
        self._restore(*loaded)
        state = self._state
        self._report(
            f"going on from {self._directory}: step {state.step:,}, env steps {state.env_steps:,}"
        )
        return bool(state.curve)

    def after_event(self) -> None:
        """Saves when it is time.

        Raises:
          StoppedError: a signal came; everything is saved.
        """
        if self._signal is not None:
            self.save()
            raise StoppedError(
                f"stopped at step {self._state.step:,}; the same command goes on from there",
                self._signal,
            )
        if 0 < self._every_sec <= time.monotonic() - self._saved:
            self.save()

    def finish(self) -> None:
        """Saves the end of the run: the same command then finds it done."""
        self.save()

    def save(self) -> None:
        """Writes a generation of `latest/`."""
        started = time.monotonic()
        state = self._state
        arrays = {
            "training": _leaves(state.training),
            "replay": _leaves(state.replay),
            "best": state.best,
            "loops": self._roles.loops.snapshot(),
        }
        selection = dataclasses.asdict(state.selection)
        selection.pop("config")
        rest = {
            "step": state.step,
            "env_steps": state.env_steps,
            "curve": state.curve,
            "selection": selection,
        }
        save_latest(self._directory, self._key, arrays, rest)
        self._saved = time.monotonic()
        self.seconds += self._saved - started

    def _restore(self, arrays: Any, rest: dict[str, Any]) -> None:
        state = self._state
        state.training = _like(arrays["training"], state.training)
        state.replay = _like(arrays["replay"], state.replay)
        state.best = shaped_like(arrays["best"], state.best)
        state.step, state.env_steps = rest["step"], rest["env_steps"]
        state.curve = [(int(a), int(b), float(c)) for a, b, c in rest["curve"]]
        state.selection = Selection(config=state.selection.config, **rest["selection"])
        exact = self._roles.loops.restore(arrays["loops"])
        if not exact:
            actor = self._roles.loops.actor
            actor.update(state.training.average, state.training.step)
            state.replay = self._roles.replay.cut(state.replay, actor.value)
            self._report("the environments cannot be rebuilt: their open episodes are cut here")

    def _notice(self, number: int, frame: FrameType | None) -> None:
        """Remembers a signal; a second one acts as if the run had not been asked."""
        self._signal = number
        self._report(f"{signal.Signals(number).name}: saving at the next step, then stopping")
        for each, handler in self._handlers.items():
            signal.signal(each, handler)


def _leaves(tree: Any) -> dict[str, np.ndarray]:
    """Returns the leaves of any pytree under numbers: Orbax then needs none of its classes."""
    return {str(i): np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(tree))}


def _like(saved: dict[str, np.ndarray], tree: Any) -> Any:
    """Puts saved leaves back into the structure of `tree`.

    Raises:
      RunError: they are of another one, though the key is that of this run.
    """
    leaves, structure = jax.tree.flatten(tree)
    found = [(saved[str(i)].shape, saved[str(i)].dtype) for i in range(len(saved))]
    expected = [(leaf.shape, leaf.dtype) for leaf in leaves]
    if found != expected:
        raise RunError(
            f"latest/ holds arrays of {found} where {expected} are expected: remove it to start "
            "anew"
        )
    return jax.tree.unflatten(structure, [jnp.asarray(saved[str(i)]) for i in range(len(leaves))])
