"""Tiny environments and an algorithm without networks, for tests of the trainer."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from mujax_pipe.agents.muzero import Algorithm
from mujax_pipe.agents.types import EnvironmentSpec, SearchOutput, Transition
from mujax_pipe.config import GMZConfig


def tiny_config(**settings: Any) -> GMZConfig:
    """A config that compiles in a second or two."""
    layers = {name: (8,) for name in GMZConfig.__dataclass_fields__ if name.endswith("layer_sizes")}
    small = {
        "embedding_dim": 8,
        "num_bins": 21,
        "num_simulations": 2,
        "unroll_steps": 2,
        "bootstrap_steps": 2,
        "batch_size": 4,
        "num_envs": 2,
        "chunk_steps": 4,
        "replay_ratio": 1.0,
        "min_replay_size": 10,
        "max_replay_size": 100,
        "num_learner_steps": 20,
        "warmup_steps": 2,
    }
    return GMZConfig(**{**layers, **small, **settings})


class Walk(gym.Env):
    """A random walk of `length` steps, or of (fewest, most), that records what is asked of it.

    It hands out the same observation array every time, as some environments do. The reward is the
    first coordinate after the step.
    """

    def __init__(
        self,
        *,
        length: int | tuple[int, int] = 3,
        ends: str = "terminated",
        num_actions: int = 3,
        start: int = 0,
        masked: bool = False,
        reward: float | None = None,
    ):
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(num_actions, start=start)
        self._lengths = length if isinstance(length, tuple) else (length, length)
        self._ends, self._masked, self._reward = ends, masked, reward
        self._observation = np.zeros(2, np.float32)
        self.seeds: list[int | None] = []
        self.actions: list[int] = []
        self.closed = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self._time = 0
        self._length = self.np_random.integers(*self._lengths, endpoint=True)
        self._observation[:] = self.np_random.normal(size=2)
        return self._observation, self._info()

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self.action_space.contains(action)
        self.actions.append(action)
        self._time += 1
        self._observation += (1.0 + action) * self.np_random.normal(size=2)
        ended = self._time == self._length
        reward = float(self._observation[0]) if self._reward is None else self._reward
        terminated = ended and self._ends in ("terminated", "both")
        truncated = ended and self._ends in ("truncated", "both")
        return self._observation, reward, terminated, truncated, self._info()

    def close(self) -> None:
        self.closed = True

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {"time": self._time}
        if self._masked:
            # The one legal action moves on by one at each step.
            legal = self._time % self.action_space.n
            info["invalid_actions"] = np.arange(self.action_space.n) != legal
        return info


class Corridor(gym.Env):
    """Five cells in a row; the second is the start. Left pays 0.1 at once, right 1 at the end."""

    SIZE = 5
    OPTIMUM = 1.0

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(0.0, 1.0, (self.SIZE,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._cell, self._time = 1, 0
        return self._one_hot(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._cell += 1 if action == 1 else -1
        self._time += 1
        terminated = self._cell in (0, self.SIZE - 1)
        reward = {0: 0.1, self.SIZE - 1: 1.0}.get(self._cell, 0.0)
        return self._one_hot(), reward, terminated, self._time >= 20 and not terminated, {}

    def _one_hot(self) -> np.ndarray:
        return np.eye(self.SIZE, dtype=np.float32)[self._cell]


class Linear(Algorithm):
    """An algorithm that obeys the contract with one weight vector: compiles at once."""

    network = None  # type: ignore[assignment]

    def init(self, key: jax.Array) -> Any:
        return {"w": jax.random.normal(key, (self.spec.observation_dim,))}

    def value(self, params: Any, observation: jax.Array) -> jax.Array:
        return observation @ params["w"]

    def policy_and_value(
        self, params: Any, observation: jax.Array, invalid_actions: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """All legal actions are equally likely."""
        policy = jax.nn.softmax(jnp.where(invalid_actions, -jnp.inf, 0.0))
        return policy, self.value(params, observation)

    def search(
        self,
        params: Any,
        key: jax.Array,
        observation: jax.Array,
        invalid_actions: jax.Array,
        step: jax.Array,
        *,
        explore: bool,
    ) -> SearchOutput:
        """Acts at random, or by the first legal action; the value tells search from network."""
        logits = jnp.where(invalid_actions, -jnp.inf, 0.0)
        action = jax.random.categorical(key, logits) if explore else jnp.argmax(logits, axis=-1)
        return SearchOutput(
            action=action.astype(jnp.int32),
            policy_probs=jax.nn.softmax(logits),
            value=100.0 + self.value(params, observation),
        )

    def loss(self, params: Any, targets: Any) -> tuple[jax.Array, Any]:
        predicted = self.value(params, targets.observation)
        bins = jnp.arange(self.config.num_bins, dtype=jnp.float32)
        wanted = targets.value_probs @ bins / self.config.num_bins
        loss = jnp.mean(targets.value_mask * jnp.square(predicted - wanted))
        return loss, {"loss": loss, "prior_entropy": jnp.zeros(())}


SPEC = EnvironmentSpec(observation_dim=2, num_actions=3)


def numbered(rows: int, steps: int, first: int = 0, spec: EnvironmentSpec = SPEC) -> Transition:
    """Transitions [rows, steps] whose reward is 1000 * row + time, and random everything else."""
    rng = np.random.default_rng(first)
    shape = (rows, steps)
    time = first + np.arange(steps)
    return Transition(
        observation=rng.normal(size=(*shape, spec.observation_dim)).astype(np.float32),
        action=rng.integers(spec.num_actions, size=shape).astype(np.int32),
        reward=(1000.0 * np.arange(rows)[:, None] + time).astype(np.float32),
        discount=np.ones(shape, np.float32),
        truncated=np.zeros(shape, bool),
        bootstrap_value=np.zeros(shape, np.float32),
        invalid_actions=np.zeros((*shape, spec.num_actions), bool),
        policy_probs=np.full((*shape, spec.num_actions), 1.0 / spec.num_actions, np.float32),
        action_prob=np.full(shape, 1.0 / spec.num_actions, np.float32),
        value=rng.normal(size=shape).astype(np.float32),
    )
