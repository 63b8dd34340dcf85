"""How long each piece of a set-up takes, in the schedule and by itself."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mujax_pipe.agents.muzero import Algorithm
from mujax_pipe.agents.returns import make_targets
from mujax_pipe.config import MuZeroConfig
from mujax_pipe.training import evaluation, schedule
from mujax_pipe.training.devices import acting_device, placed
from mujax_pipe.training.experiment import ExperimentConfig
from mujax_pipe.training.keys import Episodes, episode_seed
from mujax_pipe.training.reanalyze import reanalyze
from mujax_pipe.training.replay import empty_transition
from mujax_pipe.training.vector_envs import make_batch

NEVER = 2**31 - 1
_FEWEST = 3  # measurements behind a mean


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ran:
    """What came of running the schedule; means, in seconds, compiling left out."""

    env_step: float
    learner_step: float
    compile_acting: float
    compile_learning: float
    learner_steps_per_second: float
    env_steps_per_second: float
    longest_episode: int  # 0: none was over


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scored:
    """What evaluation takes; a vector step is one step of all episodes that run side by side."""

    compile: float
    vector_step: float
    side_by_side: int
    limit: int | None


def run_schedule(
    roles: schedule.Roles, state: schedule.RunState, config: MuZeroConfig, seconds: float
) -> Ran:
    """Runs the schedule without evaluation, which could take for ever with an untrained policy."""
    state.step = 1  # At 0 it would be scored, whatever `every` says.
    # To wait for a large replay to fill would measure nothing new.
    eager = dataclasses.replace(config, min_replay_size=1)
    acted, learned, marks, longest = [], [], [], 0
    before, step, env_steps = time.perf_counter(), state.step, state.env_steps
    for event in schedule.run(roles, state, eager, NEVER):
        jax.block_until_ready((state.training, state.replay))
        now = time.perf_counter()
        if isinstance(event, schedule.Acted):
            acted.append((now - before, state.env_steps - env_steps))
            longest = max([longest, *(episode.length for episode in event.episodes)])
        elif isinstance(event, schedule.Learned):
            learned.append((now - before, state.step - step))
            marks.append((now, state.step, state.env_steps))
            if len(learned) > _FEWEST and now - marks[0][0] > seconds:
                break
        before, step, env_steps = now, state.step, state.env_steps
    env_step, learner_step = (_steady_mean(times) for times in (acted, learned))
    wall, steps, transitions = (
        last - first for first, last in zip(marks[0], marks[-1], strict=True)
    )
    return Ran(
        env_step=env_step,
        learner_step=learner_step,
        compile_acting=max(acted[0][0] - env_step * acted[0][1], 0.0),
        compile_learning=max(learned[0][0] - learner_step * learned[0][1], 0.0),
        learner_steps_per_second=steps / wall,
        env_steps_per_second=transitions / wall,
        longest_episode=longest,
    )


def _steady_mean(times: list[tuple[float, int]]) -> float:
    """Returns seconds a step, of (seconds, steps).

    The first call compiles, and so does the one in which an episode is first truncated: the slowest
    of the others is left out.
    """
    steady = sorted(times[1:], key=lambda time: time[0] / time[1])[:-1]
    return sum(seconds for seconds, _ in steady) / sum(steps for _, steps in steady)


def measure_alone(
    algorithm: Algorithm, roles: schedule.Roles, state: schedule.RunState, seconds: float
) -> dict[str, float]:
    """Returns the seconds of each compiled piece by itself, steady state."""
    config, spec, key = algorithm.config, algorithm.spec, jax.random.key(0)
    params, step = state.training.average, np.asarray(state.training.step)
    acting = placed(params, acting_device(config.actor_device))

    def learn(training, windows):  # type: ignore[no-untyped-def]
        targets = make_targets(windows, jnp.ones_like(windows.value), config)
        return jax.grad(algorithm.loss, has_aux=True)(training.params, targets)

    search = jax.jit(
        lambda params, observation, invalid: algorithm.search(
            params, key, observation, invalid, step, explore=True
        )
    )
    sample = jax.jit(roles.replay.sample)
    refresh = jax.jit(lambda params, windows: reanalyze(algorithm, params, key, windows, step))
    learn = jax.jit(learn)
    windows = sample(state.replay, key)
    acted = state.replay.experience
    share = config.num_envs // config.num_actors
    roots = [np.asarray(x[:share, 0]) for x in (acted.observation, acted.invalid_actions)]
    shape = (config.num_envs, config.chunk_steps)
    chunk = jax.tree.map(lambda x: np.broadcast_to(x, (*shape, *x.shape)), empty_transition(spec))

    def add() -> Any:
        state.replay = roles.replay.add(state.replay, chunk)
        return state.replay

    fresh = round(config.reanalyze_ratio * config.batch_size) > 0
    alone = {
        "search": lambda: search(acting, *roots),
        "sample": lambda: sample(state.replay, key),
        "gradient": lambda: learn(state.training, windows),
        **({"reanalyze": lambda: refresh(params, windows)} if fresh else {}),
        "add": add,  # Last: it fills replay with nothing.
    }
    return {
        "reanalyze": 0.0,
        **{name: _first_and_mean(call, seconds)[1] for name, call in alone.items()},
    }


def environment_seconds(experiment: ExperimentConfig, seconds: float) -> float:
    """Returns what one step of all environments of an actor takes, with random legal actions."""
    config = experiment.config
    environments = make_batch(
        experiment.environment_factory,
        config.num_envs // config.num_actors,
        lambda index, episode: episode_seed(Episodes.TRAINING, experiment.seed, index, episode),
    )
    rng = np.random.default_rng(0)
    _, invalid = environments.reset()
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while len(taken) < 100 or time.perf_counter() < end:
        # Of legal actions the one with the largest random number.
        action = np.where(invalid, -1.0, rng.random(invalid.shape)).argmax(axis=1)
        started = time.perf_counter()
        invalid = environments.step(action).invalid_actions
        taken.append(time.perf_counter() - started)
    environments.close()
    return float(np.mean(taken))


def evaluation_seconds(
    experiment: ExperimentConfig, algorithm: Algorithm, state: schedule.RunState, seconds: float
) -> Scored:
    """Measures some steps of an evaluation: with an untrained policy a whole one might not end."""
    environments = make_batch(
        experiment.eval_environment_factory or experiment.environment_factory,
        min(experiment.evaluation.num_episodes, evaluation.SIDE_BY_SIDE),
        lambda index, episode: episode_seed(Episodes.SELECTION, index, episode),
    )
    key, step = jax.random.key(0), np.asarray(state.training.step)
    params = placed(state.training.average, acting_device(algorithm.config.actor_device))
    search = jax.jit(
        lambda params, observation, invalid: (
            algorithm.search(params, key, observation, invalid, step, explore=False).action
        )
    )
    observation, invalid = environments.reset()

    def one_step() -> None:
        nonlocal observation, invalid
        action = np.asarray(search(params, observation, invalid))
        answer = environments.step(action)
        observation, invalid = answer.observation, answer.invalid_actions

    compiling, vector_step = _first_and_mean(one_step, seconds)
    environments.close()
    return Scored(
        compile=compiling,
        vector_step=vector_step,
        side_by_side=len(environments),
        limit=_limit(experiment),
    )


def _limit(experiment: ExperimentConfig) -> int | None:
    """Returns after how many steps an evaluation episode is cut, None if never."""
    env = (experiment.eval_environment_factory or experiment.environment_factory)(0)
    limit = env.spec.max_episode_steps if env.spec is not None else None
    env.close()
    return limit


def _first_and_mean(call: Callable[[], Any], seconds: float) -> tuple[float, float]:
    """Returns (seconds that the first call takes more, mean seconds of the others)."""
    taken: list[float] = []
    end = float("inf")
    while len(taken) <= _FEWEST or time.perf_counter() < end:
        started = time.perf_counter()
        jax.block_until_ready(call())
        taken.append(time.perf_counter() - started)
        if len(taken) == 1:
            end = time.perf_counter() + seconds
    typical = float(np.mean(taken[1:]))
    return max(taken[0] - typical, 0.0), typical
