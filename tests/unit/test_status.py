import io
import json
import os

import pytest
from rich.console import Console

from mujax_pipe.layout import Cell, CellFiles
from mujax_pipe.locking import only_one
from mujax_pipe.status import State, look, shown, watch
from tests.unit.finished_cells import make_params, write_cell


@pytest.fixture
def params():
    return make_params(envs=["cartpole"], seeds=range(4))


def finish(root, cell, seconds=None):
    files = write_cell(root, cell, returns=[4.0, 6.0])
    for checkpoint in files.checkpoints:
        checkpoint.mkdir()
    if seconds is not None:
        files.logs.mkdir(parents=True)
        files.machine.write_text(json.dumps({"seconds": seconds}))
    return files


def progress(files, step=25, best=7.5, started=100.0, from_step=0):
    files.logs.mkdir(parents=True, exist_ok=True)
    content = {"step": step, "num_steps": 100, "env_steps": 9, "score": 1.0, "best": best}
    clock = {"started": started, "updated": 130.0, "from_step": from_step}
    files.progress.write_text(json.dumps({**content, **clock}))


def text(found, root, width=250):
    console = Console(file=io.StringIO(), width=width)
    console.print(shown(found, root))
    return console.file.getvalue()


def test_every_state_is_told_from_files(params, tmp_path):
    done, running, stopped, waiting = params.cells("all")
    finish(tmp_path, done, seconds=200.0)
    ours, theirs = CellFiles(running, tmp_path), CellFiles(stopped, tmp_path)
    progress(ours)
    progress(theirs, step=50, best=None)
    theirs.lock.touch()
    with only_one(ours.lock, "x"):
        found = look(params, "all", tmp_path)
        printed = text(found, tmp_path)
    assert [status.state for status in found] == list(State)
    assert (found[0].score, found[0].seconds) == (5.0, 200.0)
    # A quarter took 30 seconds.
    assert (found[1].share, found[1].score, found[1].left) == (0.25, 7.5, 90.0)
    assert found[2].share == 0.5
    assert "gmz/cartpole/seed-1" in printed and "25%" in printed and "1 min 30 s" in printed
    assert f"stopped  gmz/cartpole/seed-2 at 50%: see {theirs.log('train')}" in printed
    # 90 s, half of 200 s, and 200 s.
    assert "1 of 4 cells done; about 6 min 30 s of training left, of one core" in printed


def test_a_trained_cell_waits_for_its_evaluation_and_then_runs_it(params, tmp_path):
    cell = params.cells("all")[0]
    files = finish(tmp_path, cell)
    files.evaluation_json.unlink()
    files.logs.mkdir(parents=True)
    files.lock.touch()
    assert look(params, "all", tmp_path)[0].state is State.WAITING
    with only_one(files.lock, "x"):
        status = look(params, "all", tmp_path)[0]
    assert (status.state, status.job, status.share) == (State.RUNNING, "evaluate", 1.0)


def test_an_evaluation_that_was_started_and_left_nothing_has_stopped(params, tmp_path):
    files = finish(tmp_path, params.cells("all")[0])
    files.logs.mkdir(parents=True)
    log = files.log("evaluate")
    log.touch()
    assert look(params, "all", tmp_path)[0].state is State.DONE
    files.evaluation_json.unlink()
    # A log from before the training is of another evaluation.
    os.utime(log, (0, 0))
    assert look(params, "all", tmp_path)[0].state is State.WAITING
    os.utime(log)
    found = look(params, "all", tmp_path)
    assert found[0].state is State.STOPPED
    assert f"see {log}" in text(found, tmp_path)


def test_a_cell_that_is_trained_again_runs_although_results_are_there(params, tmp_path):
    files = finish(tmp_path, params.cells("all")[0])
    progress(files, step=1)
    with only_one(files.lock, "x"):
        status = look(params, "all", tmp_path)[0]
    assert (status.state, status.job) == (State.RUNNING, "train")


def test_time_left_of_a_resumed_run_goes_by_its_own_steps(params, tmp_path):
    files = CellFiles(params.cells("all")[0], tmp_path)
    for step, first, left in ((25, 15, 225.0), (25, 25, None), (25, None, None)):
        progress(files, step=step, from_step=first)
        with only_one(files.lock, "x"):
            status = look(params, "all", tmp_path)[0]
        assert (status.share, status.left) == (0.25, left)


def test_time_left_is_not_guessed_from_nothing(params, tmp_path):
    printed = text(look(params, "all", tmp_path), tmp_path)
    assert printed.rstrip().endswith("0 of 4 cells done")


def test_many_stopped_cells_are_counted(tmp_path):
    params = make_params(envs=["cartpole"], seeds=range(14))
    for cell in params.cells("all"):
        files = CellFiles(cell, tmp_path)
        files.logs.mkdir(parents=True)
        files.lock.touch()
    printed = text(look(params, "all", tmp_path), tmp_path)
    assert printed.count("stopped  gmz") == 10
    assert "stopped  and 4 more" in printed


def test_a_file_that_is_being_written_is_no_trouble(params, tmp_path):
    files = CellFiles(params.cells("all")[0], tmp_path)
    files.logs.mkdir(parents=True)
    for content in ("", "{", "[]"):
        files.progress.write_text(content)
        assert look(params, "all", tmp_path)[0].share == 0.0


def test_watching_ends_when_all_is_done_and_prints_once_into_a_log(params, tmp_path):
    plain = Console(file=io.StringIO(), width=100)
    watch(params, "all", tmp_path, console=plain)
    assert "0 of 4 cells done" in plain.file.getvalue()
    for cell in params.cells("all"):
        finish(tmp_path, cell)
    screen = Console(file=io.StringIO(), width=100, force_terminal=True)
    watch(params, "all", tmp_path, console=screen)
    assert "4 of 4 cells done" in screen.file.getvalue()


def test_two_hundred_cells_fit_on_a_screen(tmp_path):
    params = make_params(envs=[f"env{i}" for i in range(10)], algos=["gmz", "smz"], seeds=range(10))
    for cell in params.cells("all"):
        finish(tmp_path, Cell(algo=cell.algo, env=cell.env, seed=cell.seed))
    printed = text(look(params, "all", tmp_path), tmp_path)
    assert printed.count("\n") < 30
    assert "200 of 200 cells done" in printed


def test_the_whole_grid_waits_for_the_search_budgets_and_a_part_of_it_does_not(params, tmp_path):
    cell = params.cells("all")[0]
    files = finish(tmp_path, cell)
    files.search_csv.unlink()
    assert look(params, "all", tmp_path)[0].state is State.WAITING
    assert look(params, "demo", tmp_path)[0].state is State.DONE
    files.logs.mkdir(parents=True)
    with only_one(files.search_lock, "x"):
        assert look(params, "all", tmp_path)[0].job == "search"
    files.log("search").touch()
    stopped = look(params, "all", tmp_path)[0]
    assert (stopped.state, stopped.job) == (State.STOPPED, "search")
