"""The training loop: one schedule, a function of step counts alone.

Nothing here looks at a clock. How many learner steps follow a chunk, when the policy is scored and
which parameters act are all decided by counters, so a run is the same on any machine load.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from mujax_pipe.agents.types import TrainingState
from mujax_pipe.config import MuZeroConfig
from mujax_pipe.run_config import EvaluationConfig
from mujax_pipe.training.actor import Actor, Episode
from mujax_pipe.training.evaluation import Evaluator, Selection
from mujax_pipe.training.learner import Learner
from mujax_pipe.training.replay import Replay


@dataclasses.dataclass(frozen=True, kw_only=True)
class Roles:
    """Who does what in a run."""

    actor: Actor
    learner: Learner
    replay: Replay
    evaluator: Evaluator


@dataclasses.dataclass(kw_only=True)
class RunState:
    """What changes while a run goes on."""

    training: TrainingState
    replay: Any
    selection: Selection
    step: int = 0
    env_steps: int = 0


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


def start(roles: Roles, evaluation: EvaluationConfig) -> RunState:
    """Returns the state before the first step."""
    return RunState(
        training=roles.learner.init(),
        replay=roles.replay.init(),
        selection=Selection(config=evaluation),
    )


def run(
    roles: Roles,
    state: RunState,
    config: MuZeroConfig,
    evaluation: EvaluationConfig,
    num_steps: int,
) -> Iterator[Event]:
    """Acts for a chunk, adds it, takes the learner steps it owes, scores when due.

    `state` is up to date at each event.
    """
    if state.step == 0:
        yield _evaluate(roles, state)
    while state.step < num_steps:
        yield _act(roles, state, config)
        goal = min(config.learner_steps_owed(state.env_steps), num_steps)
        while state.step < goal:
            due = _next_evaluation(state.step, evaluation.every, num_steps)
            yield _learn(roles, state, min(goal, due))
            if state.step == due:
                yield _evaluate(roles, state)
                if state.selection.should_stop(state.step):
                    return


def _next_evaluation(step: int, every: int, num_steps: int) -> int:
    return min((step // every + 1) * every, num_steps)


def _act(roles: Roles, state: RunState, config: MuZeroConfig) -> Acted:
    chunk, episodes = roles.actor.act(
        state.training.params, state.training.step, config.chunk_steps
    )
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
    played = roles.evaluator.play(state.training.params, state.training.step)
    score = float(np.mean(played.score))
    best = state.selection.update(score, state.step, state.env_steps)
    return Evaluated(step=state.step, env_steps=state.env_steps, score=score, best=best)
