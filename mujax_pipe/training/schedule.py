"""The training loop: one schedule, a function of step counts alone.

Nothing here looks at a clock. How many learner steps follow a chunk, when the policy is scored and
which parameters act are all decided by counters, so a run is the same on any machine load, and the
same whether or not it was stopped and resumed between two events.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from mujax_pipe.agents.types import Params, TrainingState
from mujax_pipe.config import MuZeroConfig
from mujax_pipe.run_config import EvaluationConfig
from mujax_pipe.training.environment_loop import EnvironmentLoops, Episode
from mujax_pipe.training.evaluation import Evaluator, Selection
from mujax_pipe.training.learner import Learner
from mujax_pipe.training.replay import Replay


@dataclasses.dataclass(frozen=True, kw_only=True)
class Roles:
    """Who does what in a run."""

    loops: EnvironmentLoops
    learner: Learner
    replay: Replay
    evaluator: Evaluator


@dataclasses.dataclass(kw_only=True)
class RunState:
    """What changes while a run goes on, besides what the loops hold."""

    training: TrainingState
    replay: Any
    selection: Selection
    best: Params
    step: int = 0
    env_steps: int = 0
    curve: list[tuple[int, int, float]] = dataclasses.field(default_factory=list)

    @property
    def evaluated(self) -> int:
        """Learner step of the last evaluation, -1 before the first."""
        return self.curve[-1][0] if self.curve else -1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Acted:
    """A chunk was played and added to replay."""

    env_steps: int
    episodes: list[Episode]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learned:
    """Learner steps were taken; metrics are their means."""

    step: int
    metrics: dict[str, float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluated:
    """The policy was scored; `best` says whether these parameters are the best so far."""

    step: int
    env_steps: int
    score: float
    best: bool


Event = Acted | Learned | Evaluated


def start(roles: Roles, evaluation: EvaluationConfig, params: Params | None) -> RunState:
    """Returns the state before the first step, with `params` in place of fresh ones if given."""
    training = roles.learner.init(params)
    return RunState(
        training=training,
        replay=roles.replay.init(),
        selection=Selection(config=evaluation),
        best=jax.tree.map(np.array, training.average),
    )


def run(roles: Roles, state: RunState, config: MuZeroConfig, num_steps: int) -> Iterator[Event]:
    """Acts for a chunk, adds it, takes the learner steps it owes, scores when due.

    What comes next follows from `state`, which is up to date at each event.

    Args:
      roles: who does it.
      state: to begin or to go on from; changed in place.
      config: of the algorithm.
      num_steps: learner steps in all.
    """
    every = state.selection.config.every
    while True:
        owed = min(config.learner_steps_owed(state.env_steps), num_steps)
        if state.evaluated < state.step and (state.step % every == 0 or state.step == num_steps):
            yield _evaluate(roles, state)
        elif state.step == num_steps or (
            state.evaluated == state.step and state.selection.should_stop(state.step)
        ):
            return
        elif state.step < owed:
            next_evaluation = (state.step // every + 1) * every
            yield _learn(roles, state, min(owed, next_evaluation))
        else:
            yield _act(roles, state, config.chunk_steps)


def _act(roles: Roles, state: RunState, num_steps: int) -> Acted:
    training = state.training
    chunk, episodes = roles.loops.act(training.average, training.step, num_steps)
    state.replay = roles.replay.add(state.replay, chunk)
    state.env_steps += chunk.reward.size
    return Acted(env_steps=state.env_steps, episodes=episodes)


def _learn(roles: Roles, state: RunState, until: int) -> Learned:
    state.training, metrics = roles.learner.advance(
        state.training, state.replay, until - state.step
    )
    state.step = until
    return Learned(step=state.step, metrics=metrics)


def _evaluate(roles: Roles, state: RunState) -> Evaluated:
    params = state.training.average
    played = roles.evaluator.play(params, state.training.step)
    score = float(np.mean(played.score))
    best = state.selection.update(score, state.step, state.env_steps)
    if best:
        # A copy: the learner's next step consumes the original.
        state.best = jax.tree.map(np.array, params)
    state.curve.append((state.step, state.env_steps, score))
    return Evaluated(step=state.step, env_steps=state.env_steps, score=score, best=best)
