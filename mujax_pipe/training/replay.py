"""Replay: one row an environment, overlapping windows sampled uniformly (flashbax)."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flashbax
import jax
import jax.numpy as jnp
import numpy as np

from mujax_pipe.agents.types import Array, EnvironmentSpec, Transition
from mujax_pipe.config import MuZeroConfig
from mujax_pipe.errors import UserError
from mujax_pipe.training.devices import learning_device, placed

ReplayState = Any  # flashbax.TrajectoryBufferState


class Replay:
    """Pure functions over a buffer of at most `max_replay_size` transitions.

    The oldest steps of all rows are overwritten together. A window never spans the seam between the
    newest and the oldest step.
    """

    def __init__(self, config: MuZeroConfig, spec: EnvironmentSpec):
        self._item = empty_transition(spec)
        self._device = learning_device(config.learner_device)
        self._length = config.max_replay_size // config.num_envs
        self._rows = config.num_envs
        self._buffer = flashbax.make_trajectory_buffer(
            add_batch_size=config.num_envs,
            sample_batch_size=config.batch_size,
            sample_sequence_length=config.window_length,
            period=1,
            min_length_time_axis=config.window_length,
            max_length_time_axis=self._length,
        )
        self.add = jax.jit(self._buffer.add, donate_argnums=0)

    @property
    def num_bytes(self) -> int:
        """Bytes that `init` allocates."""
        one = sum(leaf.nbytes for leaf in jax.tree.leaves(self._item))
        return one * self._rows * self._length

    def init(self) -> ReplayState:
        """Allocates an empty buffer.

        Raises:
          UserError: if it would not fit in the memory that is free now.
        """
        free = available_memory()
        if free is not None and self.num_bytes > free:
            raise UserError(
                f"max_replay_size of {self._rows * self._length:,} transitions takes "
                f"{self.num_bytes / 1e6:,.0f} MB and {free / 1e6:,.0f} MB are free: lower "
                f"max_replay_size to {self._rows * self._length * free // self.num_bytes // 2:,}"
            )
        return placed(self._buffer.init(jax.tree.map(jnp.asarray, self._item)), self._device)

    def cut(self, state: ReplayState, value: Callable[[Array], Array]) -> ReplayState:
        """Marks the newest step of each row as truncated, for episodes that cannot go on.

        The observation it led to is lost, so it bootstraps from the value of the one it left.
        """
        newest = (state.current_index - 1) % self._length
        steps = state.experience
        open_ = (steps.discount[:, newest] > 0.0) & ~steps.truncated[:, newest]
        bootstrap = value(steps.observation[:, newest])
        return state.replace(
            experience=dataclasses.replace(
                steps,
                truncated=steps.truncated.at[:, newest].set(steps.truncated[:, newest] | open_),
                bootstrap_value=steps.bootstrap_value.at[:, newest].set(
                    jnp.where(open_, bootstrap, steps.bootstrap_value[:, newest])
                ),
            )
        )

    def sample(self, state: ReplayState, key: Array) -> Transition:
        """Returns windows drawn uniformly, leading axes [N, K+n+1]."""
        return self._buffer.sample(state, key).experience


def empty_transition(spec: EnvironmentSpec) -> Transition:
    """Returns one transition of zeros: the shapes and types that replay stores."""
    return Transition(
        observation=np.zeros(spec.observation_dim, np.float32),
        action=np.zeros((), np.int32),
        reward=np.zeros((), np.float32),
        discount=np.zeros((), np.float32),
        truncated=np.zeros((), bool),
        bootstrap_value=np.zeros((), np.float32),
        invalid_actions=np.zeros(spec.num_actions, bool),
        policy_probs=np.zeros(spec.num_actions, np.float32),
        action_prob=np.zeros((), np.float32),
        value=np.zeros((), np.float32),
    )


def available_memory() -> int | None:
    """Returns the bytes that this process may still take, or None where nothing tells."""
    limits = []
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        limits.append(int(fields["MemAvailable"].split()[0]) * 1024)
    except (OSError, KeyError, ValueError):
        if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
            limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    # Inside a container or a Slurm job the control group's limit is the true one.
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text(encoding="ascii").strip()
        limits.append(int(limit) - int(used))
    except (OSError, ValueError):
        pass
    return math.floor(min(limits)) if limits else None
