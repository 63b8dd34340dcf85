"""Tiny environments whose answers are known, and a run in one that keeps what was measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from mujax_pipe.config import SMZConfig
from mujax_pipe.run_config import CheckpointingConfig, EvaluationConfig
from mujax_pipe.training.experiment import ExperimentConfig, run_experiment
from tests.fakes import tiny_config


def tiny_smz_config(**settings: Any) -> SMZConfig:
    """`tiny_config` for Stochastic MuZero, with four codes."""
    tiny, known = dataclasses.asdict(tiny_config()), SMZConfig.__dataclass_fields__
    shared = {name: value for name, value in tiny.items() if name in known}
    layers = {name: (8,) for name in known if name.endswith("layer_sizes")}
    return SMZConfig(**{**shared, **layers, "num_codes": 4, **settings})


class OneHot(gym.Env):
    """An environment of `num_states` numbered states, observed one-hot."""

    def __init__(self, num_states: int, num_actions: int):
        self.observation_space = gym.spaces.Box(0.0, 1.0, (num_states,), np.float32)
        self.action_space = gym.spaces.Discrete(num_actions)
        self.state = 0

    def observe(self) -> np.ndarray:
        return np.eye(self.observation_space.shape[0], dtype=np.float32)[self.state]


class Wheel(OneHot):
    """Each step leads to one of `num_outcomes` states, all equally likely whatever the action.

    State i pays i on arrival. After 20 steps the episode is cut.
    """

    def __init__(self, num_outcomes: int):
        super().__init__(num_outcomes, 2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.state, self._time = 0, 0
        return self.observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.state = int(self.np_random.integers(self.observation_space.shape[0]))
        self._time += 1
        return self.observe(), float(self.state), False, self._time == 20, {}


class Cards(OneHot):
    """Stop at once (0), or draw a card (1), look at it, and keep it (0) or hand it back (1).

    Cards of 0, 1 and 2 points are equally likely. Stopping pays 0.9, handing back 0.75. Who keeps
    every card gets 1.0 on average, who hands every one back 0.75, and who looks first
    (0.75 + 1 + 2) / 3 = 1.25.
    """

    STOP, BACK = 0.9, 0.75
    CARDS = np.array([0.0, 1.0, 2.0])
    OPTIMUM = 1.25

    def __init__(self) -> None:
        super().__init__(1 + len(self.CARDS), 2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.state = 0
        return self.observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        if self.state == 0 and action == 1:
            self.state = 1 + int(self.np_random.integers(len(self.CARDS)))
            return self.observe(), 0.0, False, False, {}
        gains = (self.STOP,) if self.state == 0 else (self.CARDS[self.state - 1], self.BACK)
        return self.observe(), float(gains[action]), True, False, {}


class Recorder:
    """A writer that keeps the learner's scalars."""

    def __init__(self) -> None:
        self.learner: list[dict[str, float]] = []

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        head = "learner/"
        mine = {name.removeprefix(head): x for name, x in scalars.items() if name.startswith(head)}
        if mine:
            self.learner.append(mine)

    def write_config(self, config: Mapping[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


def train(
    directory: str,
    config: SMZConfig,
    make: Callable[[], gym.Env],
    *,
    seed: int = 0,
    num_episodes: int = 1,
) -> tuple[list[dict[str, float]], float]:
    """Trains; returns the learner's metrics along the run and the score at its end."""
    recorder = Recorder()
    result = run_experiment(
        ExperimentConfig(
            config=config,
            environment_factory=lambda index: make(),
            seed=seed,
            evaluation=EvaluationConfig(every=config.num_learner_steps, num_episodes=num_episodes),
            checkpointing=CheckpointingConfig(directory=directory),
            writers=[recorder],
            log_every=50,
        )
    )
    return recorder.learner, result.curve[-1][-1]
