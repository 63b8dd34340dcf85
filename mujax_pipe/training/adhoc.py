"""Training outside any grid: `mujax-pipe train`."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Sequence
from pathlib import Path

from mujax_pipe.config import MuZeroConfig
from mujax_pipe.layout import RunFiles
from mujax_pipe.run_config import CheckpointingConfig, EvaluationConfig
from mujax_pipe.training.envs import environment_factory
from mujax_pipe.training.experiment import ExperimentConfig, run_experiment
from mujax_pipe.training.files import write_json
from mujax_pipe.training.machine import machine_record
from mujax_pipe.training.observers import ActionFractionObserver, PolicyEntropyObserver
from mujax_pipe.training.writers import ContinuedWriter, Writer, create_writer


def train(
    *,
    algo: str,
    config: MuZeroConfig,
    evaluation: EvaluationConfig,
    env_id: str,
    wrappers: tuple[str, ...],
    seed: int,
    checkpointing: CheckpointingConfig,
    init_checkpoint: str | None = None,
    writers: Sequence[str] = (),
) -> None:
    """Trains one run into its folder and says where its results lie."""
    factory = environment_factory(env_id, wrappers)
    factory(0).close()  # A wrong id or space is said before anything is written.
    directory = Path(checkpointing.directory)
    title = f"{algo} {env_id} seed {seed}"
    experiment = ExperimentConfig(
        config=config,
        environment_factory=factory,
        seed=seed,
        evaluation=evaluation,
        checkpointing=checkpointing,
        init_checkpoint=init_checkpoint,
        writers=[_writer(writers, checkpointing, title)] if writers else [],
        observers=[ActionFractionObserver(), PolicyEntropyObserver()] if writers else [],
        title=title,
        environment={"id": env_id, "wrappers": list(wrappers)},
    )
    result = run_experiment(experiment)
    write_json(directory / "machine.json", machine_record(result))
    print(
        f"best score {result.best_score:.4g} at step {result.best_step:,}, "
        f"after {result.seconds:.0f} s: {directory}"
    )


def _writer(names: Sequence[str], checkpointing: CheckpointingConfig, title: str) -> Writer:
    """Makes the writer of a run, which may go on from what `latest/` holds."""
    make = functools.partial(create_writer, names, checkpointing.directory, title=title)
    step = _saved_step(Path(checkpointing.directory)) if checkpointing.resume else None
    if step is None:
        return make()
    return ContinuedWriter(lambda resume_step: make(resume_step=resume_step), step)


def _saved_step(directory: Path) -> int | None:
    """Returns the newest learner step in `latest/`, or None."""
    steps = []
    for path in RunFiles(directory).latest.glob("[0-9]*/state.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            steps.append(int(json.loads(path.read_text(encoding="utf-8"))["step"]))
    return max(steps, default=None)
