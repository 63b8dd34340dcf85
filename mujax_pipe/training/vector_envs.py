"""What a factory returns, single or vector environments, as one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from mujax_pipe.agents.types import EnvironmentSpec
from mujax_pipe.errors import UserError
from mujax_pipe.training.envs import (
    EnvironmentBatch,
    EnvironmentFactory,
    Step,
    make_environment_spec,
    mask_of,
)


class Batch(Protocol):
    """B environments stepped side by side; `EnvironmentBatch` says what each member means."""

    spec: EnvironmentSpec
    episode: np.ndarray  # [B] number of the episode under way
    exact_resume: bool  # whether `restore` brings back the episodes under way

    def __len__(self) -> int: ...

    def reset(self) -> tuple[np.ndarray, np.ndarray]: ...

    def step(self, action: np.ndarray) -> Step: ...

    def snapshot(self) -> dict[str, np.ndarray]: ...

    def restore(self, saved: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]: ...

    def close(self) -> None: ...


def make_batch(factory: EnvironmentFactory, size: int, seed_of: Callable[[int, int], int]) -> Batch:
    """Makes a batch of what a factory returns.

    A factory of single environments is called `size` times. A vector environment is taken as it is,
    with the number of environments it has; the ones inside a plain `SyncVectorEnv` are stepped one
    by one, so that every episode gets its own seed.

    Args:
      factory: called with a number.
      size: B, for single environments.
      seed_of: (environment index, episode index) -> reset seed.

    Raises:
      UserError: spaces that do not fit, or a vector environment with another autoreset mode than
        SAME_STEP.
    """
    first = factory(0)
    if not isinstance(first, gym.vector.VectorEnv):
        return EnvironmentBatch(lambda i: factory(i) if i else first, size, seed_of)
    mode = first.metadata.get("autoreset_mode")
    if mode != AutoresetMode.SAME_STEP:
        first.close()
        raise UserError(
            f"vector environment {type(first).__name__} has the autoreset mode "
            f"{getattr(mode, 'name', mode)}: allowed is SAME_STEP, since the others put a step "
            "into the data that no action led to; make it with autoreset_mode=SAME_STEP"
        )
    if type(first) is gym.vector.SyncVectorEnv:
        return EnvironmentBatch(lambda i: first.envs[i], first.num_envs, seed_of)
    return VectorBatch(first, seed_of)


class VectorBatch:
    """A user's vector environment: the first episodes get seeds, later ones follow from them.

    It cannot be rebuilt from seeds and actions, so a resumed run starts new episodes in it.
    """

    exact_resume = False

    def __init__(self, env: gym.vector.VectorEnv, seed_of: Callable[[int, int], int]):
        self._env = env
        self._seed_of = seed_of
        self.spec = make_environment_spec(env)
        self._start = int(getattr(env.single_action_space, "start", 0))
        self.episode = np.zeros(env.num_envs, np.int64)

    def __len__(self) -> int:
        return self._env.num_envs

    def reset(self) -> tuple[np.ndarray, np.ndarray]:
        """See `EnvironmentBatch.reset`."""
        self.episode[:] = 0
        return self._start_episodes()

    def step(self, action: np.ndarray) -> Step:
        """See `EnvironmentBatch.step`."""
        observation, reward, terminated, truncated, infos = self._env.step(
            action.astype(np.int64) + self._start
        )
        observation = np.array(observation, np.float32)
        ended = np.flatnonzero(terminated | truncated)
        final_observation = observation.copy()
        for index in ended:
            final_observation[index] = infos["final_obs"][index]
        self.episode[ended] += 1
        final_info = [
            _info_of(infos.get("final_info", {}), i) if i in ended else None
            for i in range(len(self))
        ]
        return Step(
            observation=observation,
            invalid_actions=self._masks(infos),
            reward=np.array(reward, np.float32),
            terminated=np.array(terminated, bool),
            truncated=np.array(truncated & ~terminated, bool),
            final_observation=final_observation,
            final_info=final_info,
        )

    def close(self) -> None:
        """Closes the vector environment."""
        self._env.close()

    def snapshot(self) -> dict[str, np.ndarray]:
        """See `EnvironmentBatch.snapshot`."""
        return {"episode": self.episode.copy()}

    def restore(self, saved: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Starts new episodes, with seeds that none has had; returns observations and masks."""
        self.episode[:] = saved["episode"] + 1
        return self._start_episodes()

    def _start_episodes(self) -> tuple[np.ndarray, np.ndarray]:
        seeds = [self._seed_of(i, int(self.episode[i])) for i in range(len(self))]
        observation, infos = self._env.reset(seed=seeds)  # type: ignore[arg-type]
        return np.array(observation, np.float32), self._masks(infos)

    def _masks(self, infos: dict[str, Any]) -> np.ndarray:
        return np.stack(
            [mask_of(_info_of(infos, i), self.spec.num_actions, i) for i in range(len(self))]
        )


def _info_of(infos: dict[str, Any], index: int) -> dict[str, Any]:
    """Returns one environment's part of a vector info: `_key` says who has `key`."""
    return {
        key: _info_of(value, index) if isinstance(value, dict) else value[index]
        for key, value in infos.items()
        if not key.startswith("_") and (f"_{key}" not in infos or infos[f"_{key}"][index])
    }
