"""Where the time of exactly this set-up goes, on this machine. Writes nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax

from mujax_pipe import runtime
from mujax_pipe.agents import algorithm_for
from mujax_pipe.agents.muzero import Algorithm
from mujax_pipe.agents.returns import make_targets
from mujax_pipe.config import MuZeroConfig
from mujax_pipe.run_config import EvaluationConfig
from mujax_pipe.training import evaluation, profile_report, schedule
from mujax_pipe.training.experiment import ExperimentConfig, _make_batches, _make_roles
from mujax_pipe.training.keys import Episodes, episode_seed
from mujax_pipe.training.learner import make_optimizer
from mujax_pipe.training.profile_report import Piece, Profile
from mujax_pipe.training.reanalyze import reanalyze
from mujax_pipe.training.replay import empty_transition
from mujax_pipe.training.vector_envs import make_batch

_NEVER = 2**31 - 1
_FEWEST = 3  # measurements behind a mean


def profile(experiment: ExperimentConfig, *, seconds: float = 15.0, show: bool = True) -> Profile:
    """Measures where the time of a run goes, after compiling; nothing is written.

    The schedule really runs for a moment, on a run state of its own. Then each piece runs alone.
    What a learner step takes is shared out among sampling, reanalyze and gradient in proportion to
    what they take alone, for in a run the three are one program.

    Args:
      experiment: the set-up; its checkpoint folder is left alone.
      seconds: to spend on measuring, at least; compiling comes on top.
      show: print the table and the recommendation.

    Raises:
      UserError: spaces or a replay that do not fit.
    """
    runtime.prepare(runtime.threads() or 1)
    with contextlib.ExitStack() as stack:
        started = time.perf_counter()
        batches = _make_batches(experiment, stack)
        config = dataclasses.replace(experiment.config, num_envs=sum(map(len, batches)))
        # Observers may write; a profile does not.
        experiment = dataclasses.replace(experiment, config=config, observers=())
        algorithm = algorithm_for(config, batches[0].spec)
        roles = _make_roles(experiment, algorithm, batches, stack)
        state = schedule.start(roles, EvaluationConfig(every=_NEVER), None)
        jax.block_until_ready((state.training, state.replay))
        start = time.perf_counter() - started
        ran = _run_schedule(roles, state, config, seconds / 2)
        alone = _measure_alone(algorithm, roles, state, seconds / 12)
        alone["environment"] = _environment_seconds(experiment, seconds / 12)
        scored = _evaluation_seconds(experiment, algorithm, state, seconds / 12)
        replay_bytes = roles.replay.num_bytes
    measured = Profile(
        experiment=experiment,
        compile_seconds={
            "start": start,
            "acting": ran.compile_acting,
            "learning": ran.compile_learning,
            "evaluation": scored.compile,
        },
        pieces=_pieces(experiment, ran, alone, scored),
        learner_steps_per_second=ran.learner_steps_per_second,
        env_steps_per_second=ran.env_steps_per_second,
        episode_length=ran.longest_episode,
        episode_limit=scored.limit,
        replay_bytes=replay_bytes,
        peak_memory_mb=runtime.peak_memory_mb(),
    )
    if show:
        profile_report.show(measured)
    return measured


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Ran:
    """What came of running the schedule; means, in seconds, compiling left out."""

    env_step: float
    learner_step: float
    compile_acting: float
    compile_learning: float
    learner_steps_per_second: float
    env_steps_per_second: float
    longest_episode: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Scored:
    """What evaluation takes; a vector step is one step of all episodes that run side by side."""

    compile: float
    vector_step: float
    limit: int | None


def _run_schedule(
    roles: schedule.Roles, state: schedule.RunState, config: MuZeroConfig, seconds: float
) -> _Ran:
    """Runs the schedule without evaluation, which could take for ever with an untrained policy."""
    state.step = 1  # At 0 it would be scored, whatever `every` says.
    # To wait for a large replay to fill would measure nothing new.
    eager = dataclasses.replace(config, min_replay_size=1)
    acted, learned, marks, longest = [], [], [], 0
    before, step, env_steps = time.perf_counter(), state.step, state.env_steps
    for event in schedule.run(roles, state, eager, _NEVER):
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
    env_step, learner_step = (
        sum(taken for taken, _ in times[1:]) / sum(count for _, count in times[1:])
        for times in (acted, learned)
    )
    wall, steps, transitions = (
        last - first for first, last in zip(marks[0], marks[-1], strict=True)
    )
    return _Ran(
        env_step=env_step,
        learner_step=learner_step,
        compile_acting=max(acted[0][0] - env_step * acted[0][1], 0.0),
        compile_learning=max(learned[0][0] - learner_step * learned[0][1], 0.0),
        learner_steps_per_second=steps / wall,
        env_steps_per_second=transitions / wall,
        longest_episode=longest or state.env_steps // config.num_envs,
    )


def _measure_alone(
    algorithm: Algorithm, roles: schedule.Roles, state: schedule.RunState, seconds: float
) -> dict[str, float]:
    """Returns the seconds of each compiled piece by itself, steady state."""
    config, spec, key = algorithm.config, algorithm.spec, jax.random.key(0)
    params, step = state.training.params, state.training.step
    optimizer = make_optimizer(config)

    def learn(training, windows):  # type: ignore[no-untyped-def]
        targets = make_targets(windows, config)
        grads, _ = jax.grad(algorithm.loss, has_aux=True)(training.params, targets)
        updates, _ = optimizer.update(grads, training.opt_state, training.params)
        return optax.apply_updates(training.params, updates)

    search = jax.jit(
        lambda params, *arrays: algorithm.search(params, key, *arrays, step, explore=True)
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
        "search": lambda: search(params, *roots),
        "sample": lambda: sample(state.replay, key),
        "gradient": lambda: learn(state.training, windows),
        **({"reanalyze": lambda: refresh(params, windows)} if fresh else {}),
        "add": add,  # Last: it fills replay with nothing.
    }
    return {
        "reanalyze": 0.0,
        **{name: _first_and_mean(call, seconds)[1] for name, call in alone.items()},
    }


def _environment_seconds(experiment: ExperimentConfig, seconds: float) -> float:
    """Returns what one step of all environments of an actor takes, with random legal actions."""
    config = experiment.config
    environments = make_batch(
        experiment.environment_factory,
        config.num_envs // config.num_actors,
        lambda index, episode: episode_seed(Episodes.TRAINING, experiment.seed, index, episode),
    )
    rng = np.random.default_rng(0)
    _, invalid = environments.reset()
    taken, end = [], time.perf_counter() + seconds
    while len(taken) < 100 or time.perf_counter() < end:
        # Of legal actions the one with the largest random number.
        action = np.where(invalid, -1.0, rng.random(invalid.shape)).argmax(axis=1)
        started = time.perf_counter()
        invalid = environments.step(action).invalid_actions
        taken.append(time.perf_counter() - started)
    environments.close()
    return float(np.mean(taken))


def _evaluation_seconds(
    experiment: ExperimentConfig, algorithm: Algorithm, state: schedule.RunState, seconds: float
) -> _Scored:
    """Measures some steps of an evaluation: with an untrained policy a whole one might not end."""
    environments = make_batch(
        experiment.eval_environment_factory or experiment.environment_factory,
        _side_by_side(experiment),
        lambda index, episode: episode_seed(Episodes.SELECTION, index, episode),
    )
    training, key = state.training, jax.random.key(0)
    search = jax.jit(
        lambda params, *arrays: (
            algorithm.search(params, key, *arrays, training.step, explore=False).action
        )
    )
    observation, invalid = environments.reset()

    def one_step() -> None:
        nonlocal observation, invalid
        action = np.asarray(search(training.params, observation, invalid))
        answer = environments.step(action)
        observation, invalid = answer.observation, answer.invalid_actions

    compiling, vector_step = _first_and_mean(one_step, seconds)
    environments.close()
    return _Scored(compile=compiling, vector_step=vector_step, limit=_limit(experiment))


def _side_by_side(experiment: ExperimentConfig) -> int:
    return min(experiment.evaluation.num_episodes, evaluation._WIDTH)


def _limit(experiment: ExperimentConfig) -> int | None:
    """Returns after how many steps an evaluation episode is cut, None if never."""
    env = (experiment.eval_environment_factory or experiment.environment_factory)(0)
    limit = env.spec.max_episode_steps if env.spec is not None else None
    env.close()
    return limit


def _first_and_mean(call: Callable[[], Any], seconds: float) -> tuple[float, float]:
    """Returns (seconds that the first call takes more, mean seconds of the others)."""
    taken, end = [], float("inf")
    while len(taken) <= _FEWEST or time.perf_counter() < end:
        started = time.perf_counter()
        jax.block_until_ready(call())
        taken.append(time.perf_counter() - started)
        if len(taken) == 1:
            end = time.perf_counter() + seconds
    typical = float(np.mean(taken[1:]))
    return max(taken[0] - typical, 0.0), typical


def _pieces(
    experiment: ExperimentConfig, ran: _Ran, alone: dict[str, float], scored: _Scored
) -> tuple[Piece, ...]:
    """Turns what was measured into what one learner step pays for each piece."""
    config, scoring = experiment.config, experiment.evaluation
    env_steps = config.batch_size / config.replay_ratio
    steps = env_steps / config.num_envs
    learning = ("sample", "reanalyze", "gradient")
    in_run = ran.learner_step / sum(alone[name] for name in learning)
    side_by_side = _side_by_side(experiment)
    rounds = -(-scoring.num_episodes // side_by_side)
    episode = scored.vector_step * ran.longest_episode * rounds / scoring.num_episodes
    acting = {
        "search": (alone["search"], steps * config.num_actors),
        "environment": (alone["environment"], steps * config.num_actors),
        "add": (alone["add"], steps / config.chunk_steps),
    }
    # Actors that run side by side take less together than one after the other.
    whole = ran.env_step * env_steps
    parts = sum(seconds * times for seconds, times in acting.values())
    once = {
        **{name: (s * min(whole / parts, 1.0), times) for name, (s, times) in acting.items()},
        **{name: (alone[name] * in_run, 1.0) for name in learning},
        "evaluation": (episode, scoring.num_episodes / scoring.every),
        "overhead": (max(whole - parts, 0.0), 1.0),
    }
    return tuple(
        Piece(name=name, seconds=seconds, times=times) for name, (seconds, times) in once.items()
    )
