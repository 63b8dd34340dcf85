"""Killed with SIGKILL and taken up again: the bytes of a straight run."""

import random
import signal
import time

import pytest

from tests.loop.processes import CARTPOLE, bytes_of, finish, train


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """The folder of a run that nobody killed."""
    directory = tmp_path_factory.mktemp("straight") / "run"
    finish(train(directory))
    return directory


# A straight run that saves every event writes generations 0 to 30.
LAST = 27


def kill_when(process, latest, generation):
    """Kills a process while, or right after, it writes a generation of `latest/`, if it gets there.

    Returns whether it was killed.
    """
    names = (f"{generation}.partial", str(generation), str(generation + 1))
    while process.poll() is None:
        if any((latest / name).exists() for name in names):
            process.kill()
            break
        time.sleep(0.001)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def kill_and_resume(directory, run, generations, **settings):
    """Kills a run at each of these generations, then lets it finish; returns what it printed."""
    for generation in generations:
        process = train(directory, run, every_sec=1e-9, **settings)
        assert kill_when(process, directory / "latest", generation)
    return finish(train(directory, run, every_sec=1e-9, **settings))


def test_killed_while_saving_and_taken_up_again_makes_the_same_bytes(straight, tmp_path):
    """At a generation that no clock chooses: a kill lands in the middle of a write, or next to it.

    Every event is saved, the straight runs were saved only at their end.
    """
    printed = kill_and_resume(tmp_path / "run", CARTPOLE, [random.randint(8, LAST)])
    assert "going on from" in printed
    assert bytes_of(tmp_path / "run") == bytes_of(straight)


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    [
        CARTPOLE,
        {"algo": "smz", "env": "CartPole-v1", "wrappers": []},
        {"algo": "gmz", "env": "FrozenLake-v1", "wrappers": ["flatten"]},
        {"algo": "smz", "env": "FrozenLake-v1", "wrappers": ["flatten"]},
        {"algo": "gmz", "env": "LunarLander-v3", "wrappers": []},
        {"algo": "smz", "env": "LunarLander-v3", "wrappers": []},
    ],
    ids=lambda run: f"{run['algo']}-{run['env']}",
)
def test_killed_at_many_moments_makes_the_same_bytes(tmp_path, run):
    finish(train(tmp_path / "straight", run))
    generations = sorted(random.sample(range(1, LAST + 1), 6))
    print("killed at generations", generations)
    kill_and_resume(tmp_path / "run", run, generations)
    assert bytes_of(tmp_path / "run") == bytes_of(tmp_path / "straight")
