"""The console, CSV and several writers together; the optional ones have their own tests."""

import csv
import dataclasses
import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest

from mujax_pipe.config import GMZConfig
from mujax_pipe.errors import UserError
from mujax_pipe.training.writers import WRITERS, ConsoleWriter, CSVWriter, Logger, create_writer


class Recorder:
    """Remembers what it is given, and fails at the calls named."""

    def __init__(self, *, fails=()):
        self.calls = []
        self._fails = fails

    def _take(self, name, *arguments):
        self.calls.append((name, *arguments))
        if name in self._fails:
            raise OSError(f"no room\nfor {name}")

    def write(self, step, scalars):
        self._take("write", step, dict(scalars))

    def write_config(self, config):
        self._take("write_config", dict(config))

    def close(self):
        self._take("close")


class ModelRecorder(Recorder):
    def log_model(self, directory, name, metadata):
        self._take("log_model", directory, name, metadata)


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_console_prints_the_chosen_scalars_in_order_with_few_digits():
    lines = []
    writer = ConsoleWriter(lines.append)
    writer.write(12_000, {"learner/loss": 1.234567, "learner/other": 9.0, "evaluator/score": 475.0})
    writer.write(12_001, {"learner/other": 9.0})
    writer.write_config({"a": 1})
    writer.close()
    assert lines == ["step 12,000: evaluator/score 475, learner/loss 1.235"]


def test_console_scalars_can_be_chosen():
    lines = []
    ConsoleWriter(lines.append, ("actor/x", "actor/y")).write(
        3, {"actor/y": np.float32(1e-7), "actor/x": 2.0, "learner/loss": 1.0}
    )
    assert lines == ["step 3: actor/x 2, actor/y 1e-07"]


def test_csv_holds_every_scalar_exactly_and_at_once(tmp_path):
    path = tmp_path / "logs" / "metrics.csv"
    writer = CSVWriter(path)
    writer.write(1, {"learner/loss": 0.1 + 0.2, "actor/a,b": np.float32(0.1)})
    assert rows(path) == [
        ["step", "name", "value"],
        ["1", "learner/loss", "0.30000000000000004"],
        ["1", "actor/a,b", "0.10000000149011612"],
    ]
    writer.write(2, {"learner/late": float("nan")})
    assert rows(path)[3:] == [["2", "learner/late", "nan"]]
    writer.close()


def test_csv_puts_the_config_beside(tmp_path):
    writer = CSVWriter(tmp_path / "metrics.csv")
    config = GMZConfig(batch_size=7, value_layer_sizes=(3, 4))
    writer.write_config({"config": config, "path": Path("a"), "score": np.float64(0.5), "n": None})
    writer.close()
    found = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert (found["path"], found["score"], found["n"]) == ("a", 0.5, None)
    assert found["config"] == {**dataclasses.asdict(config), **lists(config)}


def lists(config):
    """The tuples of a config, as JSON reads them back."""
    found = dataclasses.asdict(config)
    return {name: list(value) for name, value in found.items() if isinstance(value, tuple)}


def test_csv_of_an_earlier_run_is_replaced(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,name,value\n1,learner/old,1.0\n", encoding="utf-8")
    CSVWriter(path).close()
    assert rows(path) == [["step", "name", "value"]]


def test_a_resumed_csv_is_that_of_an_unbroken_run(tmp_path):
    whole, broken = tmp_path / "whole.csv", tmp_path / "broken.csv"
    writer = CSVWriter(whole)
    for step in range(15):
        writer.write(step, {"learner/loss": step / 3, "learner/b": 1.0})
    writer.close()
    # Killed while it wrote the number 12, after a checkpoint at step 2.
    text = whole.read_text(encoding="utf-8")
    broken.write_text(text[: text.index("\n12,") + 2], encoding="utf-8")
    writer = CSVWriter(broken, resume_step=2)
    for step in range(3, 15):
        writer.write(step, {"learner/loss": step / 3, "learner/b": 1.0})
    writer.close()
    assert broken.read_bytes() == whole.read_bytes()


def test_a_csv_may_be_resumed_where_there_is_none(tmp_path):
    CSVWriter(tmp_path / "metrics.csv", resume_step=5).close()
    assert rows(tmp_path / "metrics.csv") == [["step", "name", "value"]]


@pytest.mark.parametrize("name", ["file/metrics.csv", "folder"])
def test_a_csv_that_cannot_be_written_is_the_users_to_mend(tmp_path, name):
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="writer csv cannot write .*: name another folder"):
        CSVWriter(tmp_path / name)


def test_a_logger_hands_on_to_all():
    first, second = Recorder(), ModelRecorder()
    logger = Logger([first, second], pytest.fail)
    logger.write_config({"a": 1})
    logger.write(3, {"learner/loss": 2.0})
    logger.log_model(Path("best"), "name", {"score": 1.0})
    logger.close()
    common = [("write_config", {"a": 1}), ("write", 3, {"learner/loss": 2.0})]
    assert first.calls == [*common, ("close",)]
    model = ("log_model", Path("best"), "name", {"score": 1.0})
    assert second.calls == [*common, model, ("close",)]


@pytest.mark.parametrize("call", ["write", "write_config", "log_model"])
def test_a_writer_that_fails_is_reported_once_and_dropped(call):
    lines, good, bad = [], ModelRecorder(), ModelRecorder(fails=(call, "close"))
    logger = Logger([bad, good], lines.append)
    for _ in range(2):
        logger.write_config({})
        logger.write(1, {})
        logger.log_model(Path(), "name", {})
    logger.close()
    assert lines == [
        "writer ModelRecorder failed and is dropped, the run goes on without it: "
        f"no room for {call}"
    ]
    names = [name for name, *_ in bad.calls]
    assert names.count(call) == 1
    assert names[-2:] == [call, "close"]
    assert [name for name, *_ in good.calls] == ["write_config", "write", "log_model"] * 2 + [
        "close"
    ]


def test_a_failure_at_the_end_is_reported_and_the_others_are_closed():
    lines, good = [], Recorder()
    logger = Logger([Recorder(fails=("close",)), good, Recorder(fails=("close",))], lines.append)
    logger.close()
    assert len(lines) == 2 and all("no room for close" in line for line in lines)
    assert good.calls == [("close",)]


def test_a_stopped_run_is_not_taken_for_a_failure():
    class Stopped(Recorder):
        def write(self, step, scalars):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Logger([Stopped()], pytest.fail).write(1, {})


def test_writers_are_made_by_name_each_once(tmp_path):
    lines = []
    logger = create_writer(
        ["csv", "console", "console"], tmp_path, title="run", print_line=lines.append
    )
    logger.write(1, {"learner/loss": 0.5})
    logger.close()
    assert lines == ["step 1: learner/loss 0.5"]
    assert rows(tmp_path / "metrics.csv")[1:] == [["1", "learner/loss", "0.5"]]


def test_one_name_may_be_a_plain_text(tmp_path):
    create_writer("csv", str(tmp_path), title="run").close()
    assert (tmp_path / "metrics.csv").exists()


def test_an_unknown_writer_is_refused_before_a_file_is_made(tmp_path):
    allowed = "console, csv, tensorboard, dvclive, wandb"
    with pytest.raises(UserError, match=f"writer 'cvs' is unknown: allowed are {allowed}"):
        create_writer(["csv", "cvs"], tmp_path, title="run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["tensorboard", "dvclive", "wandb"])
def test_a_missing_extra_is_one_line_that_names_it(tmp_path, monkeypatch, name):
    first = Recorder()
    monkeypatch.setitem(WRITERS, "console", lambda setup: first)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError) as caught:
        create_writer(["console", name], tmp_path, title="run")
    assert f"writer {name} needs a package" in str(caught.value)
    assert f"pip install 'mujax-pipe[{name}]'" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert first.calls == [("close",)]


def test_a_folder_with_the_name_of_an_extra_is_not_the_extra(tmp_path, monkeypatch):
    (tmp_path / "dvclive").mkdir()
    monkeypatch.delitem(sys.modules, "dvclive", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(UserError, match=r"pip install 'mujax-pipe\[dvclive\]'"):
        create_writer(["dvclive"], tmp_path, title="run")
    sys.modules.pop("dvclive", None)


def test_a_service_that_does_not_answer_is_reported_and_left_out(tmp_path, monkeypatch):
    def refuse(setup):
        raise ConnectionError("no answer")

    lines = []
    monkeypatch.setitem(WRITERS, "wandb", refuse)
    logger = create_writer(["wandb", "csv"], tmp_path, title="run", report=lines.append)
    logger.write(1, {"learner/loss": 0.5})
    logger.close()
    assert lines == ["writer wandb failed and is dropped, the run goes on without it: no answer"]
    assert len(rows(tmp_path / "metrics.csv")) == 2


def test_writers_leave_random_state_alone(tmp_path):
    before = random.getstate(), np.random.get_state()[1].tolist()
    logger = create_writer(["console", "csv"], tmp_path, title="run")
    logger.write(1, {"learner/loss": 0.5})
    logger.close()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
