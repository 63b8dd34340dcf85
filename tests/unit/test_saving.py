"""When `latest/` is written, and what a signal does."""

import os
import signal
import threading
import types

import numpy as np
import pytest

from mujax_pipe.agents.types import TrainingState
from mujax_pipe.errors import RunError, StoppedError
from mujax_pipe.run_config import EvaluationConfig
from mujax_pipe.training import saving as saving_module
from mujax_pipe.training.evaluation import Selection
from mujax_pipe.training.saving import Saver
from mujax_pipe.training.schedule import RunState

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class Loops:
    """Holds one number; its own actor."""

    def __init__(self, exact=True):
        self.held = np.int64(0)
        self.actor = self
        self._exact = exact

    def update(self, params, step):
        self.value = lambda observation: observation @ params["w"]

    def snapshot(self):
        return {"held": self.held}

    def restore(self, saved):
        self.held = saved["held"]
        return self._exact


class Cuts:
    """A replay that says what it was asked to cut by."""

    def cut(self, state, value):
        return {"rows": state["rows"] + value(np.array([1.0, 10.0]))}


class Run:
    """A run whose state is easy to tell apart by its step."""

    def __init__(self, directory, *, exact=True, every_sec=0.0, resume=True, key="a"):
        self.roles = types.SimpleNamespace(loops=Loops(exact), replay=Cuts())
        self.state = RunState(
            training=TrainingState(
                params={"w": np.zeros(2, np.float32)},
                average={"w": np.zeros(2, np.float32)},
                opt_state=(),
                step=np.int32(0),
            ),
            replay={"rows": np.zeros(3, np.float32)},
            selection=Selection(config=EvaluationConfig(ema=0.5, patience=3)),
            best={"w": np.zeros(2, np.float32)},
        )
        self.lines = []
        self.saver = Saver(
            directory,
            self.roles,
            self.state,
            key=key,
            every_sec=every_sec,
            resume=resume,
            report=self.lines.append,
        )

    def go_to(self, step):
        state = self.state
        state.training = TrainingState(
            params={"w": np.full(2, 7.0 * step, np.float32)},
            average={"w": np.float32([step, 2 * step])},
            opt_state=(),
            step=np.int32(step),
        )
        state.replay = {"rows": np.full(3, step, np.float32)}
        state.best = {"w": np.full(2, -step, np.float32)}
        state.step, state.env_steps = step, 8 * step
        state.curve.append((step, 8 * step, 0.1 * step))
        state.selection.update(0.1 * step, step, 8 * step)
        self.roles.loops.held = np.int64(100 + step)

    def seen(self):
        """All that must come back."""
        state, selection = self.state, self.state.selection
        return {
            "params": np.asarray(state.training.params["w"]).tolist(),
            "average": np.asarray(state.training.average["w"]).tolist(),
            "training step": int(state.training.step),
            "replay": np.asarray(state.replay["rows"]).tolist(),
            "best": np.asarray(state.best["w"]).tolist(),
            "counts": (state.step, state.env_steps, state.evaluated),
            "curve": state.curve,
            "selection": selection,
            "loops": int(self.roles.loops.held),
        }


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "latest"


def saves(directory):
    """How many generations have been written so far."""
    return max((int(path.name) + 1 for path in directory.glob("*")), default=0)


def test_everything_comes_back(directory):
    run = Run(directory)
    for step in (0, 3, 2):
        run.go_to(step)
    run.saver.save()
    again = Run(directory)
    assert again.saver.resume() is True
    assert again.seen() == run.seen()
    assert again.lines == [f"going on from {directory}: step 2, env steps 16"]


def test_the_state_before_the_first_evaluation_comes_back(directory):
    run = Run(directory)
    run.roles.loops.held = np.int64(7)
    run.saver.save()
    again = Run(directory)
    # There is no best yet that would have to be written.
    assert again.saver.resume() is False
    assert again.seen() == run.seen()


def test_nothing_there_is_a_new_run(directory):
    run = Run(directory)
    assert run.saver.resume() is False
    assert run.lines == []


def test_not_resuming_removes_what_is_there(directory):
    run = Run(directory)
    run.go_to(2)
    run.saver.save()
    again = Run(directory, resume=False)
    assert again.saver.resume() is False
    assert again.state.step == 0
    assert not directory.exists()


def test_another_key_is_another_run(directory):
    run = Run(directory)
    run.go_to(2)
    run.saver.save()
    again = Run(directory, key="b")
    assert again.saver.resume() is False
    assert again.state.step == 0
    assert "starting anew" in again.lines[0]


def test_episodes_that_cannot_go_on_are_cut_by_the_value_of_the_restored_average(directory):
    run = Run(directory)
    run.go_to(2)
    run.saver.save()
    again = Run(directory, exact=False)
    again.saver.resume()
    # The restored rows are 2, and the restored average (2, 4) values (1, 10) at 42.
    assert again.state.replay["rows"].tolist() == [44.0] * 3
    assert "cut" in again.lines[0]


@pytest.mark.parametrize(
    "rows", [{"more": np.zeros(1)}, {"rows": np.zeros(4, np.float32)}, {"rows": np.zeros(3)}]
)
def test_arrays_of_another_number_shape_or_type_are_an_error(directory, rows):
    Run(directory).saver.save()
    again = Run(directory)
    again.state.replay.update(rows)
    with pytest.raises(RunError, match=r"latest/ holds arrays of \[.*\] where .* are expected"):
        again.saver.resume()


# The clock.


@pytest.fixture
def clock(monkeypatch):
    now = types.SimpleNamespace(seconds=1000.0)
    fake = types.SimpleNamespace(monotonic=lambda: now.seconds)
    monkeypatch.setattr(saving_module, "time", fake)
    return now


def written_at(clock, run, directory, times):
    """The times after which a generation was written."""
    found = []
    for seconds in times:
        clock.seconds = 1000.0 + seconds
        before = saves(directory)
        run.saver.after_event()
        if saves(directory) > before:
            found.append(seconds)
    return found


def test_it_is_saved_when_the_seconds_have_passed_since_the_last_save(clock, directory):
    run = Run(directory, every_sec=10.0)
    times = [1, 9, 11, 12, 20, 21.5, 29, 40]
    assert written_at(clock, run, directory, times) == [11, 21.5, 40]


def test_saving_by_hand_counts(clock, directory):
    run = Run(directory, every_sec=10.0)
    clock.seconds = 1008.0
    run.saver.save()
    assert written_at(clock, run, directory, [11, 17, 19]) == [19]


def test_zero_seconds_save_only_at_the_end(clock, directory):
    run = Run(directory, every_sec=0.0)
    assert written_at(clock, run, directory, [0, 1, 1e6]) == []
    run.saver.finish()
    assert saves(directory) == 1


# Signals.


def handlers():
    return [signal.getsignal(number) for number in SIGNALS]


@pytest.fixture
def _own_handlers():
    """Handlers that a test can tell apart, and that a failing test cannot leave behind."""
    before = handlers()
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)
    yield
    for number, handler in zip(SIGNALS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("_own_handlers")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_stops_after_the_event_with_everything_saved(directory, number):
    run, before = Run(directory), handlers()
    with pytest.raises(StoppedError, match="stopped at step 5; the same") as stopped, run.saver:
        run.go_to(4)
        run.saver.after_event()
        assert saves(directory) == 0
        os.kill(os.getpid(), number)
        # Noticed, and nothing happens until the event is over.
        assert saves(directory) == 0
        run.go_to(5)
        run.saver.after_event()
    assert stopped.value.signal == number
    assert run.lines == [f"{signal.Signals(number).name}: saving at the next step, then stopping"]
    assert handlers() == before
    again = Run(directory)
    again.saver.resume()
    assert again.seen() == run.seen()


@pytest.mark.usefixtures("_own_handlers")
def test_a_second_signal_is_not_held_back(directory):
    """Whoever presses Ctrl-C twice wants out now."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt), Run(directory).saver:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("_own_handlers")
def test_handlers_are_given_back_after_an_error(directory):
    before = handlers()
    with pytest.raises(OSError, match="unplugged"), Run(directory).saver:
        assert all(now != then for now, then in zip(handlers(), before, strict=True))
        raise OSError("unplugged")
    assert handlers() == before


@pytest.mark.usefixtures("_own_handlers")
def test_no_signal_is_touched_outside_the_main_thread(directory):
    before, seen = handlers(), []

    def inside():
        with Run(directory, every_sec=1e-9).saver as saver:
            seen.append(handlers())
            saver.after_event()

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [before]
    assert saves(directory) == 1
