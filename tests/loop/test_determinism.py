"""The same bytes from the same settings, whatever else differs."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import gymnasium as gym
import jax
import numpy as np
import pytest

import mujax_pipe
from mujax_pipe.run_config import EvaluationConfig
from mujax_pipe.training import schedule
from mujax_pipe.training.environment_loop import EnvironmentLoops
from mujax_pipe.training.envs import EnvironmentBatch
from mujax_pipe.training.evaluation import Evaluator
from mujax_pipe.training.keys import Episodes, episode_seed
from mujax_pipe.training.learner import Learner
from mujax_pipe.training.replay import Replay
from tests.fakes import Linear, tiny_config

# Trains a tiny run as its arguments say: folder, seconds between saves, and more as JSON.
PROGRAM = """
import json, os, sys
directory, every_sec, more = sys.argv[1], float(sys.argv[2]), json.loads(sys.argv[3])
if more["core"] is not None:
    os.sched_setaffinity(0, {more["core"]})
from mujax_pipe import runtime
runtime.prepare()
from mujax_pipe.config import CONFIGS
from mujax_pipe.run_config import CheckpointingConfig, EvaluationConfig
from mujax_pipe.training.envs import environment_factory
from mujax_pipe.training.experiment import ExperimentConfig, run_experiment

# Replay is full before the end; patience counts and does not stop.
config = CONFIGS[more["algo"]](
    batch_size=8, num_envs=4, num_actors=2, num_simulations=2, chunk_steps=2, unroll_steps=2,
    bootstrap_steps=2, min_replay_size=40, max_replay_size=80, num_learner_steps=20,
).with_size("XS")
run_experiment(ExperimentConfig(
    config=config,
    environment_factory=environment_factory(more["env"], more["wrappers"]),
    seed=3,
    evaluation=EvaluationConfig(every=7, num_episodes=3, patience=4, ema=0.5),
    checkpointing=CheckpointingConfig(directory=directory, every_sec=every_sec),
    environment={"id": more["env"], "wrappers": more["wrappers"]},
))
"""
ROOT = Path(mujax_pipe.__file__).parents[1]


CARTPOLE = {"algo": "gmz", "env": "CartPole-v1", "wrappers": []}


def train(directory, run=CARTPOLE, cwd=None, core=None, every_sec=0.0, **environment):
    """Starts a process; `core` pins it to one core."""
    # NPROC must come from the program, not from the tests' own process.
    inherited = {name: value for name, value in os.environ.items() if name != "NPROC"}
    arguments = [str(directory), str(every_sec), json.dumps({**run, "core": core})]
    return subprocess.Popen(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", PROGRAM, *arguments],
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        cwd=cwd,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """Waits for a process to end well; returns what it printed."""
    _, printed = process.communicate(timeout=600)
    assert process.returncode == 0, printed
    return printed


def bytes_of(directory):
    """The digest of each result; `latest/` is no result."""
    return {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.relative_to(directory).parts[0] != "latest"
    }


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of the same run twice, under different circumstances."""
    base = tmp_path_factory.mktemp("runs")
    (base / "elsewhere").mkdir()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None]
    processes = {
        "first": train(base / "first", PYTHONHASHSEED="0", TZ="UTC"),
        "again": train(
            "a/b c/again",
            cwd=base / "elsewhere",
            core=cores[-1],
            PYTHONHASHSEED="4242",
            TZ="Asia/Kathmandu",
            LC_ALL="C",
            COLUMNS="40",
            JAX_ENABLE_X64="1",
        ),
    }
    for process in processes.values():
        finish(process)
    return types.SimpleNamespace(first=base / "first", again=base / "elsewhere/a/b c/again")


def test_two_processes_make_the_same_bytes(runs):
    """Another hash seed, time zone, locale, working folder, path, time, and one core only."""
    first, again = bytes_of(runs.first), bytes_of(runs.again)
    assert first == again
    assert {"curve.csv", "train.json", "best/metadata.json"} <= first.keys()
    assert sum(name.startswith("best/params/") for name in first) > 20


def test_the_training_got_somewhere(runs):
    steps = [int(line.split(",")[0]) for line in (runs.first / "curve.csv").read_text().split()[1:]]
    assert steps == [0, 7, 14, 20]


# Killed and taken up again.


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


def test_killed_while_saving_and_taken_up_again_makes_the_same_bytes(runs, tmp_path):
    """At a generation that no clock chooses: a kill lands in the middle of a write, or next to it.

    Every event is saved, the straight runs were saved only at their end.
    """
    printed = kill_and_resume(tmp_path / "run", CARTPOLE, [random.randint(8, 30)])
    assert "going on from" in printed
    assert bytes_of(tmp_path / "run") == bytes_of(runs.first)


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    [
        CARTPOLE,
        {"algo": "smz", "env": "CartPole-v1", "wrappers": []},
        {"algo": "gmz", "env": "FrozenLake-v1", "wrappers": ["flatten"]},
        {"algo": "smz", "env": "FrozenLake-v1", "wrappers": ["flatten"]},
    ],
    ids=lambda run: f"{run['algo']}-{run['env']}",
)
def test_killed_at_many_moments_makes_the_same_bytes(tmp_path, run):
    finish(train(tmp_path / "straight", run))
    generations = sorted(random.sample(range(1, 36), 6))
    print("killed at generations", generations)
    kill_and_resume(tmp_path / "run", run, generations)
    assert bytes_of(tmp_path / "run") == bytes_of(tmp_path / "straight")


# Evaluation does not disturb training.


@pytest.fixture(scope="module")
def parts():
    """Learner, replay and evaluator, which keep nothing from one run to the next."""
    config = tiny_config()

    def env(index):
        return gym.make("CartPole-v1")

    environments = EnvironmentBatch(
        env, config.num_envs, lambda i, e: episode_seed(Episodes.TRAINING, 0, i, e)
    )
    algorithm = Linear(config, environments.spec)
    replay = Replay(config, environments.spec)
    evaluator = Evaluator(algorithm, env, Episodes.SELECTION, 2)
    yield types.SimpleNamespace(
        config=config,
        algorithm=algorithm,
        environments=environments,
        replay=replay,
        learner=Learner(algorithm, replay, 0),
        evaluator=evaluator,
    )
    environments.close()
    evaluator.close()


def train_here(parts, num_steps=12, **evaluation):
    roles = schedule.Roles(
        loops=EnvironmentLoops(parts.algorithm, [parts.environments], 0),
        learner=parts.learner,
        replay=parts.replay,
        evaluator=parts.evaluator,
    )
    settings = EvaluationConfig(num_episodes=2, **evaluation)
    state = schedule.start(roles, settings, None)
    events = list(schedule.run(roles, state, parts.config, num_steps))
    roles.loops.close()
    return state, sum(isinstance(event, schedule.Evaluated) for event in events)


def test_evaluating_more_often_changes_nothing_in_training(parts):
    seldom, few = train_here(parts, every=100)
    often, many = train_here(parts, every=1)
    assert (few, many) == (2, 13)
    assert (seldom.step, seldom.env_steps) == (often.step, often.env_steps)
    jax.tree.map(np.testing.assert_array_equal, seldom.training, often.training)
    jax.tree.map(np.testing.assert_array_equal, seldom.replay.experience, often.replay.experience)
