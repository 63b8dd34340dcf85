"""Generations of `latest/`: a crash loses nothing, and damage is never taken for nothing."""

import json
import shutil

import numpy as np
import pytest

from mujax_pipe.errors import RunError
from mujax_pipe.training import latest as latest_module
from mujax_pipe.training.latest import load_latest, remove_latest, run_key, save_latest


def save(directory, step, key="a"):
    arrays = {"best": {"w": np.full(3, step, np.float32)}, "count": np.int64(2**40 + step)}
    save_latest(directory, key, arrays, {"step": step, "curve": [[0, 8, 0.1]]})


def load(directory, key="a"):
    """Returns the step found, or None, and what was reported."""
    reports = []
    loaded = load_latest(directory, key, reports.append)
    if loaded is None:
        return None, reports
    arrays, state = loaded
    assert arrays["count"] == 2**40 + state["step"]
    np.testing.assert_array_equal(arrays["best"]["w"], np.full(3, state["step"], np.float32))
    assert state == {"step": state["step"], "curve": [[0, 8, 0.1]]}
    return state["step"], reports


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder of two generations, made once; tests damage copies of it."""
    directory = tmp_path_factory.mktemp("saved") / "latest"
    for step in (1, 2, 3):
        save(directory, step)
    return directory


@pytest.fixture
def directory(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "latest")


def test_the_newest_comes_back(directory):
    assert load(directory) == (3, [])


def test_two_generations_are_kept(directory):
    assert names(directory) == ["1", "2"]
    save(directory, 4)
    assert names(directory) == ["2", "3"]
    assert load(directory) == (4, [])


def test_generations_are_in_the_order_of_numbers_and_not_of_text(directory):
    (directory / "1").rename(directory / "9")
    (directory / "2").rename(directory / "10")
    assert load(directory) == (3, [])
    save(directory, 4)
    assert names(directory) == ["10", "11"]


def test_nothing_there_is_a_start_from_nothing(tmp_path):
    assert load(tmp_path / "latest") == (None, [])


# Damage.


def truncate(generation):
    path = max(generation.rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else 0)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def lose(generation):
    (generation / "state.json").unlink()


def lose_an_array(generation):
    next(path for path in generation.rglob("*") if path.is_file() and path.name == "0").unlink()


def flip(generation):
    path = generation / "state.json"
    content = bytearray(path.read_bytes())
    content[content.index(b"3") if b"3" in content else content.index(b"2")] ^= 1
    path.write_bytes(bytes(content))


def add(generation):
    (generation / "arrays" / "more").write_text("x")


def lose_digests(generation):
    (generation / "digests.json").unlink()


def empty_digests(generation):
    (generation / "digests.json").write_bytes(b"")


def no_digests_at_all(generation):
    (generation / "digests.json").write_text("[]")


def empty(generation):
    shutil.rmtree(generation)
    generation.mkdir()


DAMAGES = [truncate, lose, lose_an_array, flip, add, lose_digests, empty_digests, empty]
DAMAGES.append(no_digests_at_all)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_falls_back_to_the_one_before_and_says_so(directory, damage):
    damage(directory / "2")
    step, (report,) = load(directory)
    assert step == 2
    assert report.startswith(f"{directory / '2'} is damaged (")
    assert report.endswith("): trying the one before")


@pytest.mark.parametrize("damage", [truncate, lose, flip, empty])
def test_two_damaged_ones_are_an_error_that_names_them_and_touches_nothing(directory, damage):
    damage(directory / "1")
    truncate(directory / "2")
    left = sorted(directory.rglob("*"))
    with pytest.raises(RunError) as error:
        load(directory)
    message = str(error.value)
    for words in (str(directory / "1"), str(directory / "2"), f"remove {directory}", "anew"):
        assert words in message
    assert "\n" not in message
    assert sorted(directory.rglob("*")) == left


def test_the_only_one_damaged_is_an_error_too(tmp_path):
    save(tmp_path / "latest", 1)
    truncate(tmp_path / "latest" / "0")
    with pytest.raises(RunError, match="nothing to go on from"):
        load(tmp_path / "latest")


def test_a_good_generation_is_not_given_up_for_a_damaged_one(directory):
    """After a fall-back two good ones must be on disk again with the next save."""
    truncate(directory / "2")
    load(directory)
    save(directory, 4)
    good = [path.name for path in directory.iterdir() if latest_module._fault(path) is None]
    assert len(good) == 2


# What a crash while writing or removing leaves.


def test_a_crash_while_writing_leaves_the_generations_before(directory, monkeypatch):
    def crash(path, value):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(latest_module, "write_json", crash)
        with pytest.raises(KeyboardInterrupt):
            save(directory, 4)
    assert names(directory) == ["1", "2", "3.partial"]
    assert load(directory) == (3, [])
    assert names(directory) == ["1", "2"]
    save(directory, 5)
    assert load(directory) == (5, [])


def test_the_first_save_cut_short_is_a_start_from_nothing(tmp_path):
    (tmp_path / "latest" / "0.partial" / "arrays").mkdir(parents=True)
    assert load(tmp_path / "latest") == (None, [])


def test_what_a_crash_left_is_no_obstacle_to_a_save(directory):
    (directory / "3.partial").mkdir()
    (directory / "3.partial" / "state.json").write_text("{")
    save(directory, 4)
    assert names(directory) == ["2", "3"]
    assert load(directory) == (4, [])


@pytest.mark.parametrize("remove", [remove_latest, lambda directory: load(directory, "b")])
def test_a_removal_cut_short_is_not_taken_for_damage(directory, monkeypatch, remove):
    """A run that is done, or has other settings, is killed while it removes what it left."""

    def crash(path, *args, **kwargs):
        for file in path.rglob("state.json"):
            file.unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(latest_module.shutil, "rmtree", crash)
        with pytest.raises(KeyboardInterrupt):
            remove(directory)
    assert load(directory)[0] in (None, 2, 3)


# Runs with other settings.


def test_another_run_is_not_gone_on_from_and_said(directory):
    step, (report,) = load(directory, key="b")
    assert step is None
    assert report == f"{directory} is of a run with other settings or source: starting anew"
    save(directory, 9, key="b")
    assert load(directory, key="b") == (9, [])


def test_a_damaged_newest_of_another_run_is_passed_over_too(directory):
    truncate(directory / "2")
    step, reports = load(directory, key="b")
    assert step is None
    assert "damaged" in reports[0] and "starting anew" in reports[1]


def test_remove_removes_all_and_minds_no_absence(directory):
    remove_latest(directory)
    remove_latest(directory)
    assert not directory.exists()


def test_the_key_of_a_run_minds_every_part_and_no_order():
    one = run_key({"seed": 1, "config": {"a": 1.5}}, "source")
    assert one == run_key({"config": {"a": 1.5}, "seed": 1}, "source")
    others = [
        run_key({"seed": 2, "config": {"a": 1.5}}, "source"),
        run_key({"seed": 1, "config": {"a": 1.25}}, "source"),
        run_key({"seed": 1, "config": {"a": 1.5}}, "changed"),
    ]
    assert len({one, *others}) == 4


def test_the_same_state_makes_the_same_bytes(directory, tmp_path):
    for step in (1, 2, 3):
        save(tmp_path / "again", step)
    digests = [json.loads((d / "2" / "digests.json").read_text()) for d in
               (directory, tmp_path / "again")]  # fmt: skip
    assert digests[0] == digests[1]
    assert len(digests[0]) > 4
