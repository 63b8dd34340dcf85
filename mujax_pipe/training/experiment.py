"""One run from settings to a finished folder: the public entry of training."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from mujax_pipe import compilation_cache, runtime
from mujax_pipe.agents import algorithm_for, algorithm_name
from mujax_pipe.agents.muzero import Algorithm
from mujax_pipe.agents.types import EnvironmentSpec
from mujax_pipe.config import MuZeroConfig
from mujax_pipe.fingerprint import source_digest
from mujax_pipe.layout import RunFiles
from mujax_pipe.run_config import CheckpointingConfig, EvaluationConfig
from mujax_pipe.training import schedule
from mujax_pipe.training.checkpoint import save_best
from mujax_pipe.training.devices import compute_class
from mujax_pipe.training.environment_loop import EnvironmentLoops
from mujax_pipe.training.envs import EnvironmentFactory
from mujax_pipe.training.evaluation import Evaluator
from mujax_pipe.training.files import require_writable, write_csv, write_json
from mujax_pipe.training.inference import load_policy
from mujax_pipe.training.keys import Episodes, episode_seed
from mujax_pipe.training.latest import run_key
from mujax_pipe.training.learner import Learner
from mujax_pipe.training.logs import RunLog
from mujax_pipe.training.observers import EnvLoopObserver
from mujax_pipe.training.progress import Reporter
from mujax_pipe.training.replay import Replay
from mujax_pipe.training.saving import Saver
from mujax_pipe.training.vector_envs import Batch, make_batch
from mujax_pipe.training.writers import Writer


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """Everything a run needs.

    Attributes:
      config: the algorithm and its settings.
      environment_factory: called with a number, makes what is acted in: one environment, called
        once for each of `config.num_envs`, or a vector environment, which brings its own number.
      eval_environment_factory: makes what is scored in; the same if None.
      max_num_learner_steps: when to stop; `config.num_learner_steps` if None.
      seed: of the run.
      evaluation: when and how the policy is scored.
      checkpointing: where `best/` and `latest/` go.
      init_checkpoint: a run, or its `best/`, whose parameters to start from.
      writers: where scalars go, besides the lines on the console.
      observers: what is measured while acting.
      log_every: learner steps between writes of scalars.
      title: names the run in its output.
      environment: what `train.json` and the checkpoint say of the environment (id, wrappers).
      latest: folder of `latest/`, if not in the checkpoint directory.
      extra: goes into the checkpoint's metadata.
    """

    config: MuZeroConfig
    environment_factory: EnvironmentFactory
    eval_environment_factory: EnvironmentFactory | None = None
    max_num_learner_steps: int | None = None
    seed: int = 0
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpointing: CheckpointingConfig = CheckpointingConfig()
    init_checkpoint: str | Path | None = None
    writers: Sequence[Writer] = ()
    observers: Sequence[EnvLoopObserver] = ()
    log_every: int = 100
    title: str = "training"
    environment: dict[str, Any] = dataclasses.field(default_factory=dict)
    latest: Path | None = None
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def num_steps(self) -> int:
        """Learner steps in all."""
        return self.max_num_learner_steps or self.config.num_learner_steps

    @property
    def files(self) -> RunFiles:
        """Where results go."""
        return RunFiles(Path(self.checkpointing.directory))


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a run came to.

    Attributes:
      curve: (learner step, environment steps, score) of each evaluation.
      best_step: learner step of the best checkpoint.
      best_score: its score.
      seconds: from the call to the end.
      seconds_to_first_step: from the call to the end of the first learner steps.
      seconds_saving: of these, writing `latest/`.
      exact_resume: whether a stopped run would have come to the same.
    """

    curve: list[tuple[int, int, float]]
    best_step: int
    best_score: float
    seconds: float
    seconds_to_first_step: float
    seconds_saving: float
    exact_resume: bool


def run_experiment(experiment: ExperimentConfig) -> RunResult:
    """Trains; writes `best/`, `last/`, `curve.csv` and `train.json` to the checkpoint directory.

    Raises:
      UserError: spaces or a replay that do not fit, a folder that cannot be written, a checkpoint
        of another network.
      RunError: something was not finite, or `latest/` is damaged.
      StoppedError: a signal asked to stop; `latest/` holds all that is needed to go on.
    """
    runtime.prepare(runtime.threads() or 1)
    started = time.monotonic()
    require_writable(experiment.files.directory)
    with contextlib.ExitStack() as stack:
        batches = make_batches(experiment, stack)
        num_envs = sum(len(batch) for batch in batches)
        # A vector environment says how many there are.
        config = dataclasses.replace(experiment.config, num_envs=num_envs)
        experiment = dataclasses.replace(experiment, config=config)
        algorithm = algorithm_for(config, batches[0].spec)
        roles = make_roles(experiment, algorithm, batches, stack)
        reporter = Reporter(experiment.title, experiment.num_steps)
        if runtime.threads() is None:
            reporter.line(
                "warning: JAX had started before this run could settle its threads, so another "
                "machine may get other bits: call mujax_pipe.runtime.prepare() first"
            )
        reporter.line(f"replay holds at most {roles.replay.num_bytes / 1e6:,.1f} MB")
        state = schedule.start(roles, experiment.evaluation, _initial_params(experiment, algorithm))
        key = run_key(_identity(experiment, algorithm.spec), source_digest())
        saver = stack.enter_context(_make_saver(experiment, roles, state, key, reporter.line))
        if saver.resume():
            _write_best(experiment, algorithm, state)
        log = RunLog(experiment.writers, experiment.observers, experiment.log_every, reporter.line)
        stack.callback(log.close)
        log.config(describe(experiment))
        first_step = 0.0
        stack.enter_context(reporter.shown())
        for event in schedule.run(roles, state, config, experiment.num_steps):
            reporter.take(event)
            log.take(event)
            if isinstance(event, schedule.Learned) and not first_step:
                first_step = time.monotonic() - started
                # A grid's next cell need not wait for the end of this one.
                compilation_cache.publish()
            if isinstance(event, schedule.Evaluated) and event.best:
                _write_best(experiment, algorithm, state)
                if experiment.checkpointing.upload_to_wandb:
                    log.upload(experiment.files.best, experiment.title, _scored(event))
            saver.after_event()
        exact_resume = all(batch.exact_resume for batch in batches)
        _finish(experiment, algorithm, state, exact_resume)
        saver.finish()
    return RunResult(
        curve=state.curve,
        best_step=state.selection.best_step,
        best_score=float(state.selection.best_score or 0.0),
        seconds=time.monotonic() - started,
        seconds_to_first_step=first_step,
        seconds_saving=saver.seconds,
        exact_resume=exact_resume,
    )


def _scored(event: schedule.Evaluated) -> dict[str, Any]:
    return {"step": event.step, "env_steps": event.env_steps, "score": event.score}


def _make_saver(
    experiment: ExperimentConfig,
    roles: schedule.Roles,
    state: schedule.RunState,
    key: str,
    report: Callable[[str], None],
) -> Saver:
    checkpointing = experiment.checkpointing
    return Saver(
        experiment.latest or experiment.files.latest,
        roles,
        state,
        key=key,
        every_sec=checkpointing.every_sec,
        resume=checkpointing.resume,
        report=report,
    )


def describe(experiment: ExperimentConfig) -> dict[str, Any]:
    """Returns what a run is made of, as JSON values."""
    return {
        "algorithm": algorithm_name(experiment.config),
        "environment": experiment.environment.get("id", ""),
        "wrappers": experiment.environment.get("wrappers", []),
        "seed": experiment.seed,
        "max_num_learner_steps": experiment.num_steps,
        "init_checkpoint": str(experiment.init_checkpoint or ""),
        "evaluation": dataclasses.asdict(experiment.evaluation),
        "config": dataclasses.asdict(experiment.config),
    }


def _identity(experiment: ExperimentConfig, spec: EnvironmentSpec) -> dict[str, Any]:
    """What must be the same for a run to go on from `latest/`, as JSON values."""
    factory = experiment.environment_factory
    return {
        **describe(experiment),
        # An environment of the user's has no other name.
        "factory": getattr(factory, "__qualname__", type(factory).__qualname__),
        "environment_spec": spec._asdict(),
        "machine_class": compute_class(experiment.config),
        "xla_threads": runtime.threads(),
    }


def make_batches(experiment: ExperimentConfig, stack: contextlib.ExitStack) -> list[Batch]:
    """One batch of environments an actor; together they are numbered through."""
    config, seed = experiment.config, experiment.seed
    share = config.num_envs // config.num_actors
    batches: list[Batch] = []
    for _ in range(config.num_actors):
        # A vector environment brings its own number.
        first = sum(len(batch) for batch in batches)

        def seed_of(index: int, episode: int, first: int = first) -> int:
            return episode_seed(Episodes.TRAINING, seed, first + index, episode)

        def factory(index: int, first: int = first) -> Any:
            return experiment.environment_factory(first + index)

        batches.append(make_batch(factory, share, seed_of))
        stack.callback(batches[-1].close)
    return batches


def make_roles(
    experiment: ExperimentConfig,
    algorithm: Algorithm,
    batches: Sequence[Batch],
    stack: contextlib.ExitStack,
) -> schedule.Roles:
    """Makes the loops, replay, learner and evaluator of a run; `stack` closes them."""
    evaluator = Evaluator(
        algorithm,
        experiment.eval_environment_factory or experiment.environment_factory,
        Episodes.SELECTION,
        experiment.evaluation.num_episodes,
        experiment.evaluation.score_metric,
    )
    stack.callback(evaluator.close)
    loops = EnvironmentLoops(algorithm, batches, experiment.seed, experiment.observers)
    stack.callback(loops.close)
    replay = Replay(experiment.config, algorithm.spec)
    learner = Learner(algorithm, replay, experiment.seed)
    return schedule.Roles(loops=loops, learner=learner, replay=replay, evaluator=evaluator)


def _initial_params(experiment: ExperimentConfig, algorithm: Algorithm) -> Any:
    """The parameters of `init_checkpoint`, or None.

    Raises:
      UserError: they are another network's.
    """
    if experiment.init_checkpoint is None:
        return None
    like = jax.eval_shape(lambda: algorithm.init(jax.random.key(0)))
    return load_policy(experiment.init_checkpoint, like=like).params


def _write_best(
    experiment: ExperimentConfig, algorithm: Algorithm, state: schedule.RunState
) -> None:
    selection = state.selection
    scored = (selection.best_step, selection.best_env_steps, selection.best_score)
    save_best(experiment.files.best, state.best, _metadata(experiment, algorithm, *scored))


def _metadata(
    experiment: ExperimentConfig,
    algorithm: Algorithm,
    step: int,
    env_steps: int,
    score: float | None,
) -> dict[str, Any]:
    return {
        "algorithm": algorithm_name(experiment.config),
        "config": dataclasses.asdict(experiment.config),
        "environment": experiment.environment,
        "environment_spec": algorithm.spec._asdict(),
        "seed": experiment.seed,
        "step": step,
        "env_steps": env_steps,
        "score": score,
        "extra": experiment.extra,
    }


def _finish(
    experiment: ExperimentConfig,
    algorithm: Algorithm,
    state: schedule.RunState,
    exact_resume: bool,
) -> None:
    """Writes `best/`, `last/`, `curve.csv` and, as the last file, `train.json`.

    The best checkpoint again, for whatever happened to the folder since it was the best.
    """
    _write_best(experiment, algorithm, state)
    end = _metadata(experiment, algorithm, *state.curve[-1])
    save_best(experiment.files.last, state.training.average, end)
    selection = state.selection
    write_csv(experiment.files.curve, ("step", "env_steps", "score"), state.curve)
    summary = {
        **describe(experiment),
        "num_learner_steps": state.step,
        "num_env_steps": state.env_steps,
        "num_parameters": sum(x.size for x in jax.tree.leaves(state.training.params)),
        "best": {
            "step": selection.best_step,
            "env_steps": selection.best_env_steps,
            "score": selection.best_score,
        },
        "exact_resume": exact_resume,
        "machine_class": compute_class(experiment.config),
        "xla_threads": runtime.threads(),
    }
    write_json(experiment.files.train, summary)
