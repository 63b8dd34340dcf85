"""The two jobs of a cell: train it, and evaluate its checkpoints."""

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
    """Trains a cell: writes `CellFiles.trained`, and the log `machine.json`."""
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
    """Plays the best and the last checkpoint on the final seeds; writes `CellFiles.evaluated`."""
    files = CellFiles(cell, root)
    require_writable(files.directory)
    best, last = load_policy(files.best), load_policy(files.last)
    environment = params.environments[cell.env]
    evaluator = Evaluator(
        best.algorithm,
        environment_factory(environment.id, environment.wrappers),
        Episodes.FINAL,
        params.evaluation[cell.env].episodes,
    )
    started = time.monotonic()
    played = evaluator.play(best.params, np.int32(best.metadata["step"]))
    _write(files.evaluation_csv, files.evaluation_json, played, best.metadata["step"])
    # They may be one and the same.
    if last.metadata["step"] != best.metadata["step"]:
        played_last = evaluator.play(last.params, np.int32(last.metadata["step"]))
    else:
        played_last = played
    _write(files.last_csv, files.last_json, played_last, last.metadata["step"])
    evaluator.close()
    print(
        f"{cell.name}: mean return {played.episode_return.mean():.4g} over {len(played.seed):,} "
        f"episodes; {played_last.episode_return.mean():.4g} at the end of training; "
        f"{time.monotonic() - started:.1f} s"
    )


def _write(table: Path, summary: Path, played: Played, step: int) -> None:
    rows = zip(
        range(len(played.seed)),
        played.seed.tolist(),
        played.episode_return.tolist(),
        played.length.tolist(),
        strict=True,
    )
    write_csv(table, ("episode", "seed", "return", "length"), rows)
    write_json(summary, _summary(played, step))


def _summary(played: Played, step: int) -> dict[str, object]:
    """The content of `evaluation.json` and `evaluation_last.json`."""
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
