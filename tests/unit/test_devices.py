import os
import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mujax_pipe import runtime
from mujax_pipe.config import GMZConfig
from mujax_pipe.errors import UserError
from mujax_pipe.training import devices
from mujax_pipe.training.devices import acting_device, learning_device, placed

# Two devices, which must be asked for before JAX starts: the loop acts on one, learns on the other.
TWO_DEVICES = """
import jax, numpy as np
from mujax_pipe.training.devices import placed
from mujax_pipe.training.environment_loop import EnvironmentLoops
from mujax_pipe.training.envs import EnvironmentBatch
from mujax_pipe.training.learner import Learner
from mujax_pipe.training.replay import Replay
from tests.fakes import SPEC, Linear, Walk, tiny_config
config = tiny_config(actor_device="cpu:1", learner_device="cpu:0")
algorithm = Linear(config, SPEC)
learner = Learner(algorithm, Replay(config, SPEC), 0)
state = learner.init()
loops = EnvironmentLoops(algorithm, [EnvironmentBatch(lambda i: Walk(), 2, lambda i, e: e)], 0)
chunk, _ = loops.act(state.params, state.step, 3)
assert chunk.action.shape == (2, 3)
searched, _ = loops.actor.search(
    chunk.observation[:, 0], chunk.invalid_actions[:, 0], np.int32(0), 0
)
moved = placed(placed(state.params, jax.devices()[1]), jax.devices()[0])
assert {d.id for leaf in jax.tree.leaves(moved) for d in leaf.devices()} == {0}
print(*sorted(d.id for d in searched.value.devices()), *sorted(
    d.id for leaf in jax.tree.leaves(state.params) for d in leaf.devices()))
"""


def test_auto_acts_on_the_cpu_and_learns_where_jax_computes():
    assert acting_device("auto").platform == "cpu"
    assert learning_device("auto") == jax.devices()[0]
    assert acting_device("cpu:0") == learning_device("cpu") == jax.devices("cpu")[0]


@pytest.mark.parametrize("name", ["tpux", "cpu:7", "cpu:x", "gpu:99"])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(name):
    with pytest.raises(UserError, match=rf"actor_device is '{name}': allowed are auto, .*cpu:0"):
        acting_device(name)
    with pytest.raises(UserError, match="learner_device is"):
        learning_device(name)


def test_what_is_there_already_is_not_moved():
    tree = {"w": jnp.ones(3), "plain": np.ones(3)}
    same = placed(tree, jax.devices()[0])
    assert same["w"] is tree["w"]
    assert same["plain"] is tree["plain"]


def test_the_class_of_a_run_names_the_accelerator(monkeypatch):
    config = GMZConfig()
    assert devices.compute_class(config) == runtime.machine_class()
    gpu = types.SimpleNamespace(platform="gpu", device_kind="NVIDIA X")
    monkeypatch.setattr(devices, "learning_device", lambda name: gpu)
    assert devices.compute_class(config) == f"{runtime.machine_class()}, NVIDIA X"


def test_acting_and_learning_may_be_on_devices_of_their_own():
    flags = "--xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", TWO_DEVICES],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    acted, *learned = done.stdout.split()
    assert acted == "1"
    assert set(learned) == {"0"}
