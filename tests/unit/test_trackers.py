"""TensorBoard and DVCLive really run, and what they wrote is read back."""

import json
import subprocess
import sys

import numpy as np
import pytest

from mujax_pipe.config import GMZConfig
from mujax_pipe.errors import UserError
from mujax_pipe.training.trackers import DVCLiveWriter, TensorBoardWriter
from mujax_pipe.training.writers import create_writer

CONFIG = {"config": GMZConfig(batch_size=7), "environment": {"id": "CartPole-v1"}}


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """A current directory outside any repository and any DVC pipeline."""
    folder = tmp_path / "outside"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("DVC_ROOT", "DVC_EXP_BASELINE_REV"):
        monkeypatch.delenv(name, raising=False)
    return folder


def accumulated(directory):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(directory)).Reload()


def points(directory, name):
    return [(event.step, event.value) for event in accumulated(directory).Scalars(name)]


def test_tensorboard_reads_scalars_and_config(tmp_path):
    pytest.importorskip("tensorboard")
    writer = TensorBoardWriter(tmp_path)
    writer.write_config(CONFIG)
    writer.write(100, {"learner/loss": 0.5, "actor/episode_return": 20.0})
    writer.write(200, {"learner/loss": 0.25})
    assert points(tmp_path, "learner/loss") == [(100, 0.5), (200, 0.25)]  # before it is closed
    writer.close()
    assert points(tmp_path, "actor/episode_return") == [(100, 20.0)]
    text = accumulated(tmp_path).Tensors("config")[0].tensor_proto.string_val[0].decode()
    assert '"batch_size": 7' in text


def test_tensorboard_of_an_earlier_run_is_replaced_but_nothing_else(tmp_path):
    pytest.importorskip("tensorboard")
    (tmp_path / "note.txt").write_text("mine", encoding="utf-8")
    for step, resume_step in ((1, None), (2, 1), (3, None)):
        writer = TensorBoardWriter(tmp_path, resume_step)
        writer.write(step, {"learner/loss": 0.5})
        writer.close()
    assert points(tmp_path, "learner/loss") == [(3, 0.5)]
    assert (tmp_path / "note.txt").exists()


def test_a_resumed_tensorboard_forgets_what_is_done_again(tmp_path):
    pytest.importorskip("tensorboard")
    writer = TensorBoardWriter(tmp_path)
    for step in range(5):
        writer.write(step, {"learner/loss": float(step)})
    writer.close()
    writer = TensorBoardWriter(tmp_path, resume_step=2)
    writer.write(3, {"learner/loss": 30.0})
    writer.close()
    expected = [(0, 0.0), (1, 1.0), (2, 2.0), (3, 30.0)]
    assert points(tmp_path, "learner/loss") == expected


def tsv(path):
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def test_dvclive_files_hold_scalars_and_config(tmp_path, outside):
    pytest.importorskip("dvclive")
    from ruamel.yaml import YAML

    writer = DVCLiveWriter(tmp_path / "live")
    writer.write_config(CONFIG)
    writer.write(100, {"learner/loss": 0.5, "actor/action_fraction/0": np.float32(0.25)})
    writer.write(200, {"learner/loss": 0.125})
    metrics = json.loads((tmp_path / "live/metrics.json").read_text(encoding="utf-8"))
    writer.close()
    assert metrics == {
        "learner": {"loss": 0.125},
        "actor": {"action_fraction": {"0": 0.25}},
        "step": 200,
    }
    table = tsv(tmp_path / "live/plots/metrics/learner/loss.tsv")
    assert table == [["step", "loss"], ["100", "0.5"], ["200", "0.125"]]
    params = YAML(typ="safe").load(tmp_path / "live/params.yaml")
    assert params["config"]["batch_size"] == 7
    assert params["environment"] == {"id": "CartPole-v1"}
    assert list(outside.iterdir()) == []


def test_a_resumed_dvclive_forgets_what_is_done_again(tmp_path, outside):
    pytest.importorskip("dvclive")
    writer = DVCLiveWriter(tmp_path)
    for step in range(5):
        writer.write(step, {"learner/loss": float(step)})
    writer.close()
    (tmp_path / "metrics.json").write_text('{"lear', encoding="utf-8")  # killed while it wrote
    writer = DVCLiveWriter(tmp_path, resume_step=2)
    writer.write(3, {"learner/loss": 30.0})
    writer.close()
    table = tsv(tmp_path / "plots/metrics/learner/loss.tsv")
    assert table[1:] == [["0", "0.0"], ["1", "1.0"], ["2", "2.0"], ["3", "30.0"]]
    metrics = json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8"))
    assert metrics == {"learner": {"loss": 30.0}, "step": 3}


def git(*arguments):
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    return subprocess.run(
        ["git", *who, *arguments], check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize("inside", ["plain", "experiment"])
def test_dvclive_leaves_git_and_the_pipeline_alone(outside, monkeypatch, inside):
    pytest.importorskip("dvclive")
    git("init", "--quiet")
    subprocess.run([sys.executable, "-m", "dvc", "init", "--quiet"], check=True)
    git("add", ".")
    git("commit", "--quiet", "--message", "start")
    if inside == "experiment":
        monkeypatch.setenv("DVC_ROOT", str(outside))
        monkeypatch.setenv("DVC_EXP_BASELINE_REV", git("rev-parse", "HEAD").strip())
    before = git("for-each-ref")
    writer = DVCLiveWriter(outside / "live")
    writer.write(1, {"learner/loss": 0.5})
    writer.close()
    assert git("status", "--porcelain") == "?? live/\n"
    assert git("for-each-ref") == before
    assert not list(outside.rglob("dvc.yaml")) and not list(outside.rglob("report.*"))


@pytest.mark.parametrize("name", ["tensorboard", "dvclive"])
def test_a_folder_that_cannot_be_made_is_the_users_to_mend(tmp_path, name):
    pytest.importorskip(name)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match=f"writer {name} cannot write .*: name another folder"):
        create_writer([name], tmp_path / "file", title="run")
