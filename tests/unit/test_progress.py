import io
import json
import re
import sys
import time

import numpy as np

from mujax_pipe.training import progress
from mujax_pipe.training.environment_loop import Episode
from mujax_pipe.training.progress import Reporter
from mujax_pipe.training.schedule import Acted, Evaluated, Learned

EVENTS = [
    Acted(env_steps=64, episodes=[Episode(episode_return=7.0, length=7)]),
    Learned(step=40, metrics={"loss": np.float32(2.5), "prior_entropy": 0.25}),
    Evaluated(step=40, env_steps=64, score=123.0, best=True),
]


class Screen(io.StringIO):
    def isatty(self):
        return True


def shown(monkeypatch, stream):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    reporter = Reporter("gmz CartPole-v1 seed 0", 100)
    with reporter.shown():
        for event in EVENTS:
            reporter.take(event)
    return stream.getvalue()


def test_a_log_gets_plain_lines_each_with_its_time(monkeypatch):
    lines = shown(monkeypatch, io.StringIO()).splitlines()
    assert len(lines) == 2
    for line in lines:
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", line)
        assert line.isprintable()
    assert "gmz CartPole-v1 seed 0: 100 learner steps" in lines[0]
    assert "step 40/100, env steps 64, score 123 (best), loss 2.5, prior_entropy 0.25" in lines[1]


def test_a_terminal_gets_a_bar_below_the_lines(monkeypatch):
    text = shown(monkeypatch, Screen())
    assert "\x1b[" in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert re.search(r"━+.* 40/100 +steps", plain)
    assert "score 123 (best)" in plain
    assert not re.search(r"\d{4}-\d\d-\d\d", plain)


def test_how_far_it_is_is_written_for_others(monkeypatch, tmp_path):
    path = tmp_path / "logs" / "progress.json"
    with progress.written_to(path):
        shown(monkeypatch, io.StringIO())
    told = json.loads(path.read_text())
    assert (told["step"], told["num_steps"], told["env_steps"]) == (40, 100, 64)
    assert (told["score"], told["best"]) == (123.0, 123.0)
    assert told["started"] <= told["updated"] <= time.time()
    path.unlink()
    shown(monkeypatch, io.StringIO())
    assert not path.exists()


def test_a_run_that_goes_on_counts_what_was_spent_before(monkeypatch, tmp_path):
    path = tmp_path / "progress.json"
    before = {"step": 30, "best": 200.0, "seconds": 500.0}
    path.write_text(json.dumps(before))
    with progress.written_to(path):
        shown(monkeypatch, io.StringIO())
        assert progress.earlier_seconds() == 500.0
    told = json.loads(path.read_text())
    assert 500.0 <= told["seconds"] <= 500.0 + time.time() - told["started"] + 1
    # The first step of this process, by which others reckon the time left.
    assert (told["step"], told["from_step"]) == (40, 40)
    assert progress.earlier_seconds() == 0.0


def test_a_run_that_begins_anew_counts_nothing_from_before(monkeypatch, tmp_path):
    path = tmp_path / "progress.json"
    path.write_text(json.dumps({"step": 30, "best": 200.0, "seconds": 500.0}))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.written_to(path):
        reporter = Reporter("gmz CartPole-v1 seed 0", 100)
        reporter.take(Evaluated(step=0, env_steps=0, score=9.0, best=False))
        assert progress.earlier_seconds() == 0.0
    told = json.loads(path.read_text())
    assert told["seconds"] < 100.0
    assert (told["best"], told["from_step"]) == (None, 0)


def test_a_progress_file_that_cannot_be_written_stops_nothing(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    with progress.written_to(tmp_path / "file" / "progress.json"):
        assert "score 123" in shown(monkeypatch, io.StringIO())
