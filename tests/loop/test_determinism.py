"""The same bytes from the same settings, whatever else differs."""

import hashlib
import os
import pty
import shutil
import subprocess
import sys
import threading
import types

import gymnasium as gym
import jax
import numpy as np
import pytest

from mujax_pipe import runtime
from mujax_pipe.run_config import EvaluationConfig
from mujax_pipe.training import schedule
from mujax_pipe.training.environment_loop import EnvironmentLoops
from mujax_pipe.training.envs import EnvironmentBatch
from mujax_pipe.training.evaluation import Evaluator
from mujax_pipe.training.keys import Episodes, episode_seed
from mujax_pipe.training.learner import Learner
from mujax_pipe.training.replay import Replay
from tests.fakes import Linear, tiny_config
from tests.loop.processes import ROOT, bytes_of, finish, train


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of the same run twice, under different circumstances."""
    base = tmp_path_factory.mktemp("runs")
    (base / "elsewhere").mkdir()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None]
    processes = {
        "first": train(
            base / "first", PYTHONHASHSEED="0", TZ="UTC", JAX_ENABLE_COMPILATION_CACHE="false"
        ),
        "again": train(
            "a/b c/again",
            cwd=base / "elsewhere",
            core=cores[-1],
            PYTHONHASHSEED="4242",
            TZ="Asia/Kathmandu",
            LC_ALL="C",
            COLUMNS="40",
            JAX_ENABLE_X64="1",
            XDG_CACHE_HOME=str(base / "cache"),
            writers=("wandb",),
            scratch=base,
            WANDB_MODE="offline",
        ),
    }
    for process in processes.values():
        finish(process)
    finish(train(base / "warm", XDG_CACHE_HOME=str(base / "cache")))
    return types.SimpleNamespace(
        first=base / "first", again=base / "elsewhere/a/b c/again", warm=base / "warm"
    )


def test_compiled_programs_change_no_byte(runs):
    """Compiled without a cache, into a cold one, and loaded from it."""
    assert bytes_of(runs.first) == bytes_of(runs.again) == bytes_of(runs.warm)


def test_two_processes_make_the_same_bytes(runs):
    """Another hash seed, time zone, locale, working folder, path, time, and one core only."""
    first, again = bytes_of(runs.first), bytes_of(runs.again)
    assert first == again
    assert {"curve.csv", "train.json", "best/metadata.json"} <= first.keys()
    assert sum(name.startswith("best/params/") for name in first) > 20


def test_the_training_got_somewhere(runs):
    steps = [int(line.split(",")[0]) for line in (runs.first / "curve.csv").read_text().split()[1:]]
    assert steps == [0, 7, 14, 20]


# One circumstance at a time: docs/reproducibility.md lists them.

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None]


def start(directory, circumstance):
    """Starts a run in a circumstance; returns its process and what else to stop."""
    elsewhere = directory.parent / "else where"
    elsewhere.mkdir(exist_ok=True)
    offline = {"writers": ("wandb",), "scratch": elsewhere, "WANDB_MODE": "offline"}
    settings = {
        "another process": {},
        "one core": {"core": CORES[0]},
        "a busy machine": {},
        "beside another cell": {},
        "another working directory": {"cwd": elsewhere},
        "another user and home": {"USER": "nobody", "LOGNAME": "nobody", "HOME": str(elsewhere)},
        "another time zone": {"TZ": "Asia/Kathmandu"},
        "another language": {"LANG": "de_DE.UTF-8", "LC_ALL": "C", "LANGUAGE": "de"},
        "another hash seed": {"PYTHONHASHSEED": "4242"},
        "W&B offline": offline,
        "more logging": {"TF_CPP_MIN_LOG_LEVEL": "0", "JAX_LOGGING_LEVEL": "INFO"},
        "a progress bar": {},
        "instructions set otherwise in the shell": {
            "XLA_FLAGS": "--xla_cpu_max_isa=AVX",
            "NPY_DISABLE_CPU_FEATURES": "X86_V3",
            "ONEDNN_MAX_CPU_ISA": "SSE41",
            "OPENBLAS_CORETYPE": "Haswell",
        },
        "JAX set otherwise in the shell": {
            "JAX_ENABLE_X64": "1",
            "JAX_DEFAULT_PRNG_IMPL": "rbg",
            "JAX_RANDOM_SEED_OFFSET": "7",
            "JAX_HIGH_DYNAMIC_RANGE_GUMBEL": "1",
            "JAX_DISABLE_JIT": "1",
            "DNNL_MAX_CPU_ISA": "SSE41",
            "NPROC": "abc",
        },
    }[circumstance]
    others = []
    if circumstance == "a busy machine":
        spin = [sys.executable, "-c", "while True: pass"]
        others = [subprocess.Popen(spin) for _ in range(2 * len(CORES))]
    if circumstance == "beside another cell":
        others = [train(directory.parent / "other", seed=4)]
    if circumstance == "a progress bar":
        ours, theirs = pty.openpty()
        process = train(directory, stderr=theirs, TERM="xterm", **settings)
        os.close(theirs)
        return process, others, ours
    return train(directory, **settings), others, None


def drain(terminal, printed):
    """Reads a terminal until the program that writes to it has ended."""
    try:
        while data := os.read(terminal, 1024):
            printed.append(data)
    except OSError:  # Linux reports the end so.
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    "circumstance",
    [
        *("another process", "one core", "a busy machine", "beside another cell"),
        *("another working directory", "another user and home", "another time zone"),
        *("another language", "another hash seed", "W&B offline", "more logging"),
        *("a progress bar", "instructions set otherwise in the shell"),
        "JAX set otherwise in the shell",
    ],
)
def test_no_circumstance_changes_a_byte(runs, tmp_path, circumstance):
    process, others, terminal = start(tmp_path / "run", circumstance)
    printed = []
    if terminal is not None:
        reader = threading.Thread(target=drain, args=(terminal, printed))
        reader.start()
    try:
        finish(process)
    finally:
        for other in others:
            other.kill()
            other.communicate()
    if terminal is not None:
        reader.join()
        os.close(terminal)
        assert "\x1b[" in b"".join(printed).decode()
    if circumstance == "W&B offline":
        assert list((tmp_path / "else where").rglob("*.wandb"))
    assert bytes_of(tmp_path / "run") == bytes_of(runs.first)


# What a CPU's model has a say in, of which AVX-512 is a part.

PROGRAM = """
from mujax_pipe import runtime
runtime.prepare()
import jax, jax.numpy as jnp
def loss(w, x):
    hidden = jax.nn.silu(x @ w[0] + w[1])
    return jnp.mean(jnp.sum(jax.nn.log_softmax(hidden @ w[2] + w[3]), axis=(1, 2)))
w = [jnp.ones(shape) for shape in ((4, 33), (33,), (33, 2), (2,))]
jax.jit(jax.grad(loss))(w, jnp.ones((64, 6, 4)))
"""


def machine_code(folder, *emulator):
    """Returns the digests of what XLA compiles a small network, its gradient and its sums to."""
    environment = {
        **os.environ,
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "XLA_FLAGS": f"--xla_dump_to={folder}",
        "PYTHONPATH": str(ROOT),
    }
    command = [*emulator, sys.executable, "-c", PROGRAM]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.o")}


@pytest.mark.slow
@pytest.mark.skipif("AVX-512" not in runtime.machine_class(), reason="another class of machine")
@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="needs qemu-user")
def test_xla_compiles_the_same_for_cpus_of_two_makers(tmp_path):
    here = machine_code(tmp_path / "here")
    assert len(here) > 5
    assert machine_code(tmp_path / "there", "qemu-x86_64", "-cpu", "Haswell") == here


@pytest.mark.slow
@pytest.mark.skipif("AVX-512" not in runtime.machine_class(), reason="another class of machine")
@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="needs qemu-user")
def test_a_cpu_without_avx512_makes_the_same_bytes(runs, tmp_path):
    """A whole run on an emulated Haswell, of 2013: minutes."""
    process = train(tmp_path / "run", emulator=["qemu-x86_64", "-cpu", "Haswell"])
    finish(process, timeout=7200)
    assert bytes_of(tmp_path / "run") == bytes_of(runs.first)


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
