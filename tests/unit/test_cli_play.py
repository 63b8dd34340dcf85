"""`mujax-pipe play` and `profile`: what they hand over, and one line for every mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mujax_pipe import cli, runtime
from mujax_pipe.config import SMZConfig
from mujax_pipe.run_config import EvaluationConfig
from mujax_pipe.training import play as play_module
from mujax_pipe.training import profile as profile_module


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Runs a command line in this process; returns its exit code, output and errors."""
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


def test_play_hands_over_what_was_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(play_module, "play", lambda run, **options: given.update(options, run=run))
    assert run(capsys, "play", "folder") == (0, "", "")
    defaults = {"env_id": None, "wrappers": None, "num_simulations": None, "record": None}
    assert given == {"run": "folder", "episodes": 3, "seed": 0, **defaults}
    code, _, _ = run(
        capsys,
        *("play", "folder", "--env", "X-v0", "--wrapper", "flatten", "--episodes", "2"),
        *("--seed", "9", "--num-simulations", "4", "--record", "a.gif"),
    )
    assert code == 0
    assert given == {
        "run": "folder",
        "env_id": "X-v0",
        "wrappers": ["flatten"],
        "episodes": 2,
        "seed": 9,
        "num_simulations": 4,
        "record": Path("a.gif"),
    }


def test_profile_takes_the_options_of_train(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    threads: list[int] = []
    monkeypatch.setattr(runtime, "prepare", threads.append)
    monkeypatch.setattr(profile_module, "profile", given.append)
    code, _, _ = run(
        capsys,
        *("profile", "smz", "--env", "FrozenLake-v1", "--wrapper", "flatten", "--seed", "3"),
        *("--num-envs", "4", "--evaluate-every", "50", "--threads", "2"),
    )
    assert code == 0
    assert threads == [2]
    (experiment,) = given
    assert experiment.config == SMZConfig(num_envs=4)
    assert experiment.evaluation == EvaluationConfig(every=50)
    assert experiment.seed == 3
    env = experiment.environment_factory(0)
    assert env.spec.id == "FrozenLake-v1"
    assert env.observation_space.shape == (16,)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("play",), "Missing argument 'RUN'"),
        (("play", "nowhere"), "nowhere holds no checkpoint"),
        (("play", "nowhere", "--episodes", "0"), "--episodes is 0: allowed are"),
        (("play", "nowhere", "--seed", "-1"), "--seed is -1: allowed are"),
        (("play", "nowhere", "--seed", "one"), "'one': allowed is a whole number"),
        (("play", "nowhere", "--num-simulations", "0"), "--num-simulations is 0: allowed are"),
        (("play", "nowhere", "--record", "x.png"), "'x.png': allowed are names in .gif, .mp4"),
        (("profile", "gmz", "--env", "X", "--threads", "0"), "--threads is 0: allowed are"),
        (("profile", "gmz"), "Missing option '--env'"),
        (("profile", "gmz", "--env", "Nothing-v0"), "'Nothing-v0' cannot be made"),
        (("profile", "gmz", "--env", "X", "--batch-size", "0"), "--batch-size is 0"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    part: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert part in err
    assert list(tmp_path.iterdir()) == []
