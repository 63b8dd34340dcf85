"""The two jobs of a cell: train it, and evaluate its best checkpoint."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from mujax_pipe.layout import Cell, CellFiles
from mujax_pipe.params import Params
from mujax_pipe.run_config import CheckpointingConfig
from mujax_pipe.training.envs import environment_factory
from mujax_pipe.training.evaluation import Evaluator, Played
from mujax_pipe.training.experiment import ExperimentConfig, run_experiment
from mujax_pipe.training.files import require_writable, write_csv, write_json
from mujax_pipe.training.inference import load_policy
from mujax_pipe.training.keys import Episodes
from mujax_pipe.training.latest import remove_latest
from mujax_pipe.training.machine import machine_record


def train_cell(params: Params, cell: Cell, root: Path = Path()) -> None:
    """Trains a cell: writes its `best/`, `curve.csv` and `train.json`, and a log `machine.json`."""
    files = CellFiles(cell, root)
    environment = params.environments[cell.env]
    factory = environment_factory(environment.id, environment.wrappers)
    factory(0).close()  # A wrong id or space is said before anything is written.
    require_writable(files.latest)
    result = run_experiment(
        ExperimentConfig(
            config=params.config(cell),
            environment_factory=factory,
            seed=cell.seed,
            evaluation=params.evaluation_config(cell),
            checkpointing=CheckpointingConfig(directory=str(files.directory)),
            latest=files.latest,
            title=cell.name,
            environment={"id": environment.id, "wrappers": list(environment.wrappers)},
        )
    )
    write_json(files.machine, machine_record(result))
    remove_latest(files.latest)


def evaluate_cell(params: Params, cell: Cell, root: Path = Path()) -> None:
    """Plays the best checkpoint on the final seeds; writes `evaluation.csv`, `evaluation.json`."""
    files = CellFiles(cell, root)
    require_writable(files.directory)
    policy = load_policy(files.best)
    environment = params.environments[cell.env]
    evaluator = Evaluator(
        policy.algorithm,
        environment_factory(environment.id, environment.wrappers),
        Episodes.FINAL,
        params.evaluation[cell.env].episodes,
    )
    started = time.monotonic()
    played = evaluator.play(policy.params, np.int32(policy.metadata["step"]))
    evaluator.close()
    rows = zip(
        range(len(played.seed)),
        played.seed.tolist(),
        played.episode_return.tolist(),
        played.length.tolist(),
        strict=True,
    )
    write_csv(files.evaluation_csv, ("episode", "seed", "return", "length"), rows)
    write_json(files.evaluation_json, _summary(played, policy.metadata["step"]))
    print(
        f"{cell.name}: mean return {played.episode_return.mean():.4g} over {len(played.seed):,} "
        f"episodes in {time.monotonic() - started:.1f} s"
    )


def _summary(played: Played, step: int) -> dict[str, object]:
    """The content of `evaluation.json`."""
    returns = played.episode_return
    return {
        "episodes": len(returns),
        "mean": float(np.mean(returns)),
        "std": float(np.std(returns, ddof=1)) if len(returns) > 1 else 0.0,
        "min": float(np.min(returns)),
        "max": float(np.max(returns)),
        "mean_length": float(np.mean(played.length)),
        "checkpoint_step": step,
    }
