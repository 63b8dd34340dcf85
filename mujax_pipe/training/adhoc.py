"""Training outside any grid: `mujax-pipe train`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mujax_pipe.config import MuZeroConfig
from mujax_pipe.run_config import CheckpointingConfig, EvaluationConfig
from mujax_pipe.training.envs import environment_factory
from mujax_pipe.training.experiment import ExperimentConfig, run_experiment
from mujax_pipe.training.files import write_json
from mujax_pipe.training.machine import machine_record
from mujax_pipe.training.observers import ActionFractionObserver, PolicyEntropyObserver
from mujax_pipe.training.writers import create_writer


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
        writers=[create_writer(writers, directory, title=title)] if writers else [],
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
