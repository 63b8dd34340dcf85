"""Gathers what events and observers say and hands it to writers, by learner step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mujax_pipe.training.observers import EnvLoopObserver
from mujax_pipe.training.schedule import Acted, Evaluated, Event, Learned
from mujax_pipe.training.writers import Logger, Writer


class RunLog:
    """Writes `learner/`, `actor/` and `evaluator/` scalars.

    Args:
      writers: where to; one that fails is reported and dropped.
      observers: what is measured while acting.
      every: learner steps between writes; evaluations are written at once.
      report: prints one line.
    """

    def __init__(
        self,
        writers: Sequence[Writer],
        observers: Sequence[EnvLoopObserver],
        every: int,
        report: Callable[[str], None],
    ):
        self._logger = Logger(writers, report=report)
        self._observers = observers
        self._every = every
        self._next = every
        self._returns: list[float] = []
        self._lengths: list[int] = []
        self._env_steps = 0

    def config(self, config: Mapping[str, Any]) -> None:
        """Writes the settings of the run."""
        self._logger.write_config(config)

    def take(self, event: Event) -> None:
        """Takes in one event."""
        if isinstance(event, Acted):
            self._env_steps = event.env_steps
            self._returns += [episode.episode_return for episode in event.episodes]
            self._lengths += [episode.length for episode in event.episodes]
        elif isinstance(event, Learned) and event.step >= self._next:
            self._next = (event.step // self._every + 1) * self._every
            learner = {f"learner/{name}": value for name, value in event.metrics.items()}
            self._logger.write(event.step, learner | self._acting())
        elif isinstance(event, Evaluated):
            scalars = {"evaluator/score": event.score, "evaluator/env_steps": event.env_steps}
            self._logger.write(event.step, scalars)

    def upload(self, best: Path, name: str, metadata: Mapping[str, Any]) -> None:
        """Hands a new best checkpoint to the writers that keep models."""
        self._logger.log_model(best, name, metadata)

    def close(self) -> None:
        """Closes the writers."""
        self._logger.close()

    def _acting(self) -> dict[str, float]:
        scalars: dict[str, float] = {"env_steps": self._env_steps}
        if self._returns:
            scalars["episode_return"] = float(np.mean(self._returns))
            scalars["episode_length"] = float(np.mean(self._lengths))
        self._returns, self._lengths = [], []
        for observer in self._observers:
            scalars |= observer.metrics()
        return {f"actor/{name}": value for name, value in scalars.items()}
