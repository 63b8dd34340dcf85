"""Where the time of exactly this set-up goes, on this machine. Writes nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time

import jax

from mujax_pipe import runtime
from mujax_pipe.agents import algorithm_for
from mujax_pipe.run_config import EvaluationConfig
from mujax_pipe.training import profile_report, schedule
from mujax_pipe.training.experiment import ExperimentConfig, make_batches, make_roles
from mujax_pipe.training.profile_measure import (
    NEVER,
    Ran,
    environment_seconds,
    evaluation_seconds,
    measure_alone,
    run_schedule,
)
from mujax_pipe.training.profile_report import Piece, Profile


def profile(experiment: ExperimentConfig, *, seconds: float = 15.0, show: bool = True) -> Profile:
    """Measures where the time of a run goes, after compiling; nothing is written.

    The schedule really runs for a moment, on a run state of its own. Then each piece runs alone.
    What a learner step takes is shared out among sampling, reanalyze and gradient in proportion to
    what they take alone, for in a run the three are one program. What acting takes beyond its
    pieces is Python, and waiting for a busy machine.

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
        batches = make_batches(experiment, stack)
        config = dataclasses.replace(experiment.config, num_envs=sum(map(len, batches)))
        # Observers may write; a profile does not.
        experiment = dataclasses.replace(experiment, config=config, observers=())
        algorithm = algorithm_for(config, batches[0].spec)
        roles = make_roles(experiment, algorithm, batches, stack)
        state = schedule.start(roles, EvaluationConfig(every=NEVER), None)
        jax.block_until_ready((state.training, state.replay))
        start = time.perf_counter() - started
        ran = run_schedule(roles, state, config, seconds / 2)
        alone = measure_alone(algorithm, roles, state, seconds / 12)
        alone["environment"] = environment_seconds(experiment, seconds / 12)
        scored = evaluation_seconds(experiment, algorithm, state, seconds / 12)
        replay_bytes = roles.replay.num_bytes
    # Where no episode was over, it is as long as it may be.
    length = ran.longest_episode or scored.limit or state.env_steps // config.num_envs
    rounds = math.ceil(experiment.evaluation.num_episodes / scored.side_by_side)
    measured = Profile(
        experiment=experiment,
        compile_seconds={
            "start": start,
            "acting": ran.compile_acting,
            "learning": ran.compile_learning,
            "evaluation": scored.compile,
        },
        pieces=_pieces(experiment, ran, alone, scored.vector_step * length * rounds),
        learner_steps_per_second=ran.learner_steps_per_second,
        env_steps_per_second=ran.env_steps_per_second,
        episode_length=length,
        episode_limit=scored.limit,
        replay_bytes=replay_bytes,
        peak_memory_mb=runtime.peak_memory_mb(),
    )
    if show:
        profile_report.show(measured)
    return measured


def _pieces(
    experiment: ExperimentConfig, ran: Ran, alone: dict[str, float], scoring_seconds: float
) -> tuple[Piece, ...]:
    """Turns what was measured into what one learner step pays for each piece."""
    config, scoring = experiment.config, experiment.evaluation
    env_steps = config.batch_size / config.replay_ratio
    steps = env_steps / config.num_envs
    learning = ("sample", "reanalyze", "gradient")
    in_run = ran.learner_step / sum(alone[name] for name in learning)
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
        "evaluation": (
            scoring_seconds / scoring.num_episodes,
            scoring.num_episodes / scoring.every,
        ),
        "overhead": (max(whole - parts, 0.0), 1.0),
    }
    return tuple(
        Piece(name=name, seconds=seconds, times=times) for name, (seconds, times) in once.items()
    )
