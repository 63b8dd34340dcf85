"""Tiny runs in processes of their own, and the digests of what they leave."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import mujax_pipe

# Trains a tiny run as its arguments say: folder, seconds between saves, and more as JSON.
PROGRAM = """
import json, os, sys
from pathlib import Path
directory, every_sec, more = sys.argv[1], float(sys.argv[2]), json.loads(sys.argv[3])
if more["core"] is not None:
    os.sched_setaffinity(0, {more["core"]})
from mujax_pipe import runtime
runtime.prepare()
from mujax_pipe.config import CONFIGS
from mujax_pipe.run_config import CheckpointingConfig, EvaluationConfig
from mujax_pipe.training.envs import environment_factory
from mujax_pipe.training.experiment import ExperimentConfig, run_experiment
from mujax_pipe.training.writers import create_writer

# Replay is full before the end; patience counts and does not stop.
config = CONFIGS[more["algo"]](
    batch_size=8, num_envs=4, num_actors=2, num_simulations=2, chunk_steps=2, unroll_steps=2,
    bootstrap_steps=2, min_replay_size=40, max_replay_size=80, num_learner_steps=20,
).with_size("XS")
writers = []
if more["writers"]:
    writers = [create_writer(more["writers"], Path(more["scratch"]), title="tiny")]
run_experiment(ExperimentConfig(
    config=config,
    environment_factory=environment_factory(more["env"], more["wrappers"]),
    seed=more["seed"],
    evaluation=EvaluationConfig(every=7, num_episodes=3, patience=4, ema=0.5),
    checkpointing=CheckpointingConfig(directory=directory, every_sec=every_sec),
    environment={"id": more["env"], "wrappers": more["wrappers"]},
    writers=writers,
))
"""
ROOT = Path(mujax_pipe.__file__).parents[1]


CARTPOLE = {"algo": "gmz", "env": "CartPole-v1", "wrappers": []}


def train(
    directory,
    run=CARTPOLE,
    *,
    cwd=None,
    core=None,
    every_sec=0.0,
    seed=3,
    writers=(),
    scratch="",
    stderr=subprocess.PIPE,
    emulator=(),
    **environment,
):
    """Starts a process; `core` pins it to one core, `writers` write to the folder `scratch`.

    `emulator` is a command to run Python under.
    """
    # NPROC must come from the program, not from the tests' own process.
    inherited = {name: value for name, value in os.environ.items() if name != "NPROC"}
    more = {**run, "core": core, "writers": writers, "scratch": str(scratch), "seed": seed}
    arguments = [str(directory), str(every_sec), json.dumps(more)]
    return subprocess.Popen(
        [*emulator, sys.executable, "-W", "error::RuntimeWarning", "-c", PROGRAM, *arguments],
        env={**inherited, "PYTHONPATH": str(ROOT), **environment},
        cwd=cwd,
        stderr=stderr,
        text=True,
    )


def finish(process, timeout=600):
    """Waits for a process to end well; returns what it printed."""
    _, printed = process.communicate(timeout=timeout)
    assert process.returncode == 0, printed
    return printed


def bytes_of(directory):
    """The digest of each result; `latest/` is no result."""
    return {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.relative_to(directory).parts[0] != "latest"
    }
