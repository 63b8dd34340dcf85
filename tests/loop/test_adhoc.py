"""`mujax-pipe train`: what its writers keep of a run that was stopped, is done, or is another."""

from __future__ import annotations

import csv
import signal
from pathlib import Path
from typing import Any

import pytest

from mujax_pipe.config import GMZConfig
from mujax_pipe.errors import StoppedError
from mujax_pipe.run_config import CheckpointingConfig, EvaluationConfig
from mujax_pipe.training import adhoc, writers

CONFIG: dict[str, Any] = {
    "num_learner_steps": 6,
    "batch_size": 4,
    "num_simulations": 2,
    "num_envs": 2,
    "min_replay_size": 30,
    "replay_ratio": 0.5,
}


def train(directory: Path, **changed: Any) -> None:
    config = GMZConfig(**{**CONFIG, **changed}).with_size("XS")
    adhoc.train(
        algo="gmz",
        config=config,
        evaluation=EvaluationConfig(every=2, num_episodes=1),
        env_id="CartPole-v1",
        wrappers=(),
        seed=0,
        checkpointing=CheckpointingConfig(directory=str(directory)),
        writers=["csv", "console"],
    )


def scores(directory: Path) -> list[tuple[int, str]]:
    """Step and value of every evaluation in the log, in the order of its rows."""
    with (directory / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [(int(r["step"]), r["value"]) for r in rows if r["name"] == "evaluator/score"]


def test_a_log_goes_on_with_its_run_and_begins_anew_with_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    train(straight)
    wanted = scores(straight)
    assert [step for step, _ in wanted] == [0, 2, 4, 6]

    def stop(line: str) -> None:
        if line.startswith("step 4"):
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setitem(writers.WRITERS, "console", lambda _: writers.ConsoleWriter(stop))
        with pytest.raises(StoppedError):
            train(stopped)
    assert [step for step, _ in scores(stopped)] == [0, 2, 4]
    train(stopped)
    assert scores(stopped) == wanted
    # Done: the same command finds nothing to do, and keeps the log.
    train(stopped)
    assert scores(stopped) == wanted
    # Another run in the same folder.
    train(stopped, learning_rate=0.01)
    assert [step for step, _ in scores(stopped)] == [0, 2, 4, 6]
    assert scores(stopped) != wanted
