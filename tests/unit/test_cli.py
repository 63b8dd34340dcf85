"""The command line: what it hands over, exit codes, and one line for every mistake."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mujax_pipe import cli
from mujax_pipe.config import CONFIGS, GMZConfig
from mujax_pipe.errors import UserError
from mujax_pipe.run_config import CheckpointingConfig, EvaluationConfig
from mujax_pipe.settings import setting_fields
from mujax_pipe.training import adhoc, cells

ROOT = Path(__file__).parents[2]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Runs a command line in this process; returns its exit code, output and errors."""
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `mujax-pipe train` hands over, instead of training."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(adhoc, "train", lambda **arguments: given.update(arguments))
    return given


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from mujax_pipe.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as e: assert not e.code\n"
        "assert not {'jax', 'pandas', 'dvc', 'matplotlib', 'numpy', 'gymnasium'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("algo", CONFIGS)
def test_every_setting_is_an_option_with_its_help_and_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, algo: str
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("TERMINAL_WIDTH", "400")
    code, out, _ = run(capsys, "train", algo, "--help")
    assert code == 0
    for cls in (CONFIGS[algo], EvaluationConfig):
        for field in setting_fields(cls).values():
            shown = field.default
            shown = ",".join(map(str, shown)) if isinstance(shown, tuple) else shown
            assert f"{field.metadata['help']} [default: {shown}]" in out
            assert field.metadata["panel"] in out


def test_train_without_options_uses_the_defaults(
    capsys: pytest.CaptureFixture[str], trained: dict[str, Any]
) -> None:
    assert run(capsys, "train", "gmz", "--env", "ALE/Pong-v5")[0] == 0
    assert trained == {
        "algo": "gmz",
        "config": GMZConfig(),
        "evaluation": EvaluationConfig(),
        "env_id": "ALE/Pong-v5",
        "wrappers": (),
        "seed": 0,
        "checkpointing": CheckpointingConfig(directory="checkpoints/gmz-ALE-Pong-v5-seed-0"),
        "init_checkpoint": None,
        "writers": (),
    }


def test_train_hands_over_what_was_asked_for(
    capsys: pytest.CaptureFixture[str], trained: dict[str, Any]
) -> None:
    code, _, err = run(
        capsys,
        *("train", "gmz", "--env", "X-v0", "--seed", "3", "--num-steps", "2000", "--size", "XS"),
        *("--value-layer-sizes", "32,16", "--learning-rate", "1e-4", "--evaluate-every", "50"),
        *("--evaluate-episodes", "7", "--score-ema", "0.5", "--wrapper", "a", "--wrapper", "b"),
        *("--after-terminal", "masked", "--directory", "here", "--no-resume", "--wandb"),
        *("--checkpoint-every", "9", "--init-checkpoint", "there", "--writer", "csv"),
    )
    assert (code, err) == (0, "")
    config = trained["config"]
    assert config.num_learner_steps == 2000
    assert config.embedding_dim == GMZConfig().with_size("XS").embedding_dim
    assert config.value_layer_sizes == (32, 16)
    assert config.policy_layer_sizes == GMZConfig().with_size("XS").policy_layer_sizes
    assert (config.learning_rate, config.after_terminal) == (1e-4, "masked")
    assert trained["evaluation"] == EvaluationConfig(every=50, num_episodes=7, ema=0.5)
    assert trained["wrappers"] == ("a", "b")
    assert (trained["seed"], trained["init_checkpoint"]) == (3, "there")
    assert trained["checkpointing"] == CheckpointingConfig(
        directory="here", every_sec=9, resume=False, upload_to_wandb=True
    )
    assert trained["writers"] == ("csv", "wandb")


def test_environment_steps_become_learner_steps(
    capsys: pytest.CaptureFixture[str], trained: dict[str, Any]
) -> None:
    run(capsys, "train", "gmz", "--env", "X", "--num-env-steps", "50000", "--replay-ratio", "4")
    config = trained["config"]
    assert config.num_learner_steps == config.learner_steps_within(50_000) > 0


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ((), "Missing command"),
        (("frobnicate",), "No such command 'frobnicate'"),
        (("train", "gmz"), "Missing option '--env'"),
        (("train", "gmz", "--env", "X", "--seed", "abc"), "'--seed': 'abc': allowed is a whole"),
        (("train", "gmz", "--env", "X", "--seed", "-1"), "--seed is -1: allowed are"),
        (("train", "gmz", "--env", "X", "--batch-size", "0"), "--batch-size is 0: allowed are"),
        (("train", "gmz", "--env", "X", "--batch-size", "x"), "'--batch-size': 'x'"),
        (("train", "gmz", "--env", "X", "--unimix", "2"), "--unimix is 2.0"),
        (("train", "gmz", "--env", "X", "--evaluate-every", "0"), "--evaluate-every is 0"),
        (("train", "gmz", "--env", "X", "--size", "XXL"), "--size is 'XXL'"),
        (("train", "gmz", "--env", "X", "--value-layer-sizes", "3,x"), "'3,x': allowed is a list"),
        (("train", "gmz", "--env", "X", "--after-terminal", "no"), "--after-terminal is 'no'"),
        (("train", "gmz", "--env", "X", "--max-replay-size", "10"), "--max-replay-size is 10"),
        (("train", "gmz", "--env", "X", "--num-env-steps", "5"), "--num-env-steps is 5: the first"),
        (
            ("train", "gmz", "--env", "X", "--num-env-steps", "5", "--num-steps", "5"),
            "--num-steps and --num-env-steps",
        ),
        (("cell", "train", "gmz", "pong", "0"), "env is 'pong': allowed are cartpole, blackjack"),
        (("cell", "evaluate", "xyz", "cartpole", "0"), "algo is 'xyz': allowed are"),
        (("cell", "train", "gmz", "cartpole", "one"), "'one': allowed is a whole number"),
        (("aggregate", "--grid", "some"), "grid is 'some': allowed are all, demo"),
        (("sync", "--grid", "some"), "grid is 'some': allowed are all, demo"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    part: str,
) -> None:
    monkeypatch.chdir(ROOT)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("mujax-pipe: ")
    assert err.count("\n") == 1
    assert part in err


def test_commands_need_a_project_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (("cell", "train", "gmz", "cartpole", "0"), ("aggregate",), ("sync",)):
        code, _, err = run(capsys, *command)
        assert (code, err.count("\n")) == (2, 1)
        assert "params.yaml: no such file" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("raised", "code", "text"),
    [
        (UserError("x is 1:\nallowed is 2"), 2, "mujax-pipe: x is 1: allowed is 2\n"),
        (KeyboardInterrupt(), 130, "mujax-pipe: stopped\n"),
        (
            PermissionError(errno.EACCES, "Permission denied", "/x/y"),
            2,
            "mujax-pipe: /x/y: Permission denied; check the path, its permissions and free space\n",
        ),
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
            2,
            "mujax-pipe: a file in this folder: No space left on device; check the path, "
            "its permissions and free space\n",
        ),
    ],
)
def test_what_ends_a_command_early(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    raised: BaseException,
    code: int,
    text: str,
) -> None:
    def fail(**_: Any) -> None:
        raise raised

    monkeypatch.setattr(adhoc, "train", fail)
    assert run(capsys, "train", "gmz", "--env", "X") == (code, "", text)


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(adhoc, "train", fail)
    with pytest.raises(ValueError, match="a bug"):
        cli.main(["train", "gmz", "--env", "X"])


def test_a_cell_is_trained_only_with_an_up_to_date_fingerprint(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    called: list[str] = []
    monkeypatch.setattr(cells, "train_cell", lambda p, cell, root: called.append(cell.name))
    for name in ("params.yaml", "constraints.txt"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "fingerprint", "--write")[0] == 0
    assert run(capsys, "fingerprint") == (0, "", "")
    assert run(capsys, "cell", "train", "gmz", "cartpole", "5")[0] == 0
    text = Path("fingerprint.json").read_text()
    Path("fingerprint.json").write_text(text.replace("config.py", "confog.py"))
    code, _, err = run(capsys, "cell", "train", "gmz", "cartpole", "6")
    assert code == 2
    assert "fingerprint.json is stale" in err
    assert called == ["gmz/cartpole/seed-5"]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--version")
    assert code == 0
    assert out.startswith("mujax-pipe ")
