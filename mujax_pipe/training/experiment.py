"""One run from settings to a finished folder: the public entry of training."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import jax

from mujax_pipe import runtime
from mujax_pipe.agents import algorithm_for, algorithm_name
from mujax_pipe.agents.muzero import Algorithm
from mujax_pipe.config import MuZeroConfig
from mujax_pipe.errors import UserError
from mujax_pipe.layout import RunFiles
from mujax_pipe.run_config import CheckpointingConfig, EvaluationConfig
from mujax_pipe.training import schedule
from mujax_pipe.training.actor import Actor
from mujax_pipe.training.checkpoint import save_best
from mujax_pipe.training.envs import EnvironmentBatch, EnvironmentFactory
from mujax_pipe.training.evaluation import Evaluator
from mujax_pipe.training.files import write_csv, write_json
from mujax_pipe.training.keys import Episodes, episode_seed
from mujax_pipe.training.learner import Learner
from mujax_pipe.training.progress import Reporter
from mujax_pipe.training.replay import Replay


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """Everything a run needs.

    Attributes:
      config: the algorithm and its settings.
      environment_factory: called with a number, makes one environment to act in.
      eval_environment_factory: makes one environment to be scored in; the same one if None.
      max_num_learner_steps: when to stop; `config.num_learner_steps` if None.
      seed: of the run.
      evaluation: when and how the policy is scored.
      checkpointing: where `best/` goes.
      title: names the run in its output.
      environment: what `train.json` and the checkpoint say of the environment (id, wrappers).
      extra: goes into the checkpoint's metadata.
    """

    config: MuZeroConfig
    environment_factory: EnvironmentFactory
    eval_environment_factory: EnvironmentFactory | None = None
    max_num_learner_steps: int | None = None
    seed: int = 0
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpointing: CheckpointingConfig = CheckpointingConfig()
    title: str = "training"
    environment: dict[str, Any] = dataclasses.field(default_factory=dict)
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a run came to.

    Attributes:
      curve: (learner step, environment steps, score) of each evaluation.
      best_step: learner step of the best checkpoint.
      best_score: its score.
      seconds: from the call to the end.
      seconds_to_first_step: from the call to the end of the first learner steps.
    """

    curve: list[tuple[int, int, float]]
    best_step: int
    best_score: float
    seconds: float
    seconds_to_first_step: float


def run_experiment(experiment: ExperimentConfig) -> RunResult:
    """Trains, and writes `best/`, `curve.csv` and `train.json` to the checkpoint directory.

    Raises:
      UserError: spaces or a replay that do not fit, a folder that cannot be written.
      RunError: something was not finite.
    """
    runtime.prepare(runtime.threads() or 1)
    started = time.monotonic()
    files = RunFiles(Path(experiment.checkpointing.directory))
    require_writable(files.directory)
    config = experiment.config
    num_steps = experiment.max_num_learner_steps or config.num_learner_steps
    with contextlib.ExitStack() as stack:
        algorithm, roles = _make_roles(experiment, stack)
        reporter = Reporter(experiment.title, num_steps)
        reporter.line(f"replay holds at most {roles.replay.num_bytes / 1e6:,.1f} MB")
        state = schedule.start(roles, experiment.evaluation)
        curve: list[tuple[int, int, float]] = []
        first_step = 0.0
        stack.enter_context(reporter.shown())
        for event in schedule.run(roles, state, config, experiment.evaluation, num_steps):
            reporter.take(event)
            if isinstance(event, schedule.Learned) and not first_step:
                first_step = time.monotonic() - started
            if isinstance(event, schedule.Evaluated):
                curve.append((event.step, event.env_steps, event.score))
                if event.best:
                    save_best(
                        files.best, state.training.params, _metadata(experiment, algorithm, state)
                    )
    write_csv(files.curve, ("step", "env_steps", "score"), curve)
    write_json(files.train, _summary(experiment, algorithm, state))
    return RunResult(
        curve=curve,
        best_step=state.selection.best_step,
        best_score=float(state.selection.best_score or 0.0),
        seconds=time.monotonic() - started,
        seconds_to_first_step=first_step,
    )


def require_writable(directory: Path) -> None:
    """Raises `UserError` unless files can be made in `directory`, which is made if need be.

    Leaves behind nothing that was not there, should it fail.
    """
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        for path in missing:
            with contextlib.suppress(OSError):
                os.rmdir(path)
        raise UserError(
            f"folder {directory} cannot be written ({error.strerror}): name another one"
        ) from None


def _make_roles(
    experiment: ExperimentConfig, stack: contextlib.ExitStack
) -> tuple[Algorithm, schedule.Roles]:
    config, seed = experiment.config, experiment.seed
    environments = EnvironmentBatch(
        experiment.environment_factory,
        config.num_envs,
        lambda index, episode: episode_seed(Episodes.TRAINING, seed, index, episode),
    )
    stack.callback(environments.close)
    algorithm = algorithm_for(config, environments.spec)
    evaluator = Evaluator(
        algorithm,
        experiment.eval_environment_factory or experiment.environment_factory,
        Episodes.SELECTION,
        experiment.evaluation.num_episodes,
        experiment.evaluation.score_metric,
    )
    stack.callback(evaluator.close)
    replay = Replay(config, environments.spec)
    roles = schedule.Roles(
        actor=Actor(algorithm, environments, seed),
        learner=Learner(algorithm, replay, seed),
        replay=replay,
        evaluator=evaluator,
    )
    return algorithm, roles


def _metadata(
    experiment: ExperimentConfig, algorithm: Algorithm, state: schedule.RunState
) -> dict[str, Any]:
    """What `best/` says of itself."""
    return {
        "algorithm": algorithm_name(experiment.config),
        "config": dataclasses.asdict(experiment.config),
        "environment": experiment.environment,
        "environment_spec": algorithm.spec._asdict(),
        "seed": experiment.seed,
        "step": state.step,
        "env_steps": state.env_steps,
        "score": state.selection.best_score,
        "extra": experiment.extra,
    }


def _summary(
    experiment: ExperimentConfig, algorithm: Algorithm, state: schedule.RunState
) -> dict[str, Any]:
    """The content of `train.json`."""
    selection = state.selection
    return {
        "algorithm": algorithm_name(experiment.config),
        "environment": experiment.environment.get("id", ""),
        "wrappers": experiment.environment.get("wrappers", []),
        "seed": experiment.seed,
        "num_learner_steps": state.step,
        "num_env_steps": state.env_steps,
        "num_parameters": sum(x.size for x in jax.tree.leaves(state.training.params)),
        "best": {
            "step": selection.best_step,
            "env_steps": selection.best_env_steps,
            "score": selection.best_score,
        },
        "machine_class": runtime.machine_class(),
        "evaluation": dataclasses.asdict(experiment.evaluation),
        "config": dataclasses.asdict(experiment.config),
    }
