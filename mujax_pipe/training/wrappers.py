"""Wrappers that Gymnasium lacks."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium as gym
import numpy as np

from mujax_pipe.errors import UserError

# Beyond this a search with tens of simulations cannot tell the actions apart.
_MOST_ACTIONS = 1024


class DiscretiseActions(gym.ActionWrapper, gym.utils.RecordConstructorArgs):
    """Turns a Box of actions into Discrete: an even grid of `bins` values in each dimension."""

    def __init__(self, env: gym.Env, bins: int):
        gym.utils.RecordConstructorArgs.__init__(self, bins=bins)
        gym.ActionWrapper.__init__(self, env)
        space = env.action_space
        if not isinstance(space, gym.spaces.Box):
            raise UserError(f"wrapper discretise:{bins} needs Box actions, found {space}")
        if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise UserError(f"wrapper discretise:{bins} needs bounded actions, found {space}")
        count = bins ** int(np.prod(space.shape))
        if bins < 2 or count > _MOST_ACTIONS:
            raise UserError(
                f"wrapper discretise:{bins} on {space} makes {count} actions: allowed are 2 bins "
                f"and more, and at most {_MOST_ACTIONS} actions"
            )
        axes = [
            np.linspace(low, high, bins)
            for low, high in zip(space.low.flat, space.high.flat, strict=True)
        ]
        grid = np.array(list(itertools.product(*axes)), dtype=space.dtype)
        self._values = grid.reshape(count, *space.shape)
        self.action_space = gym.spaces.Discrete(count)

    def action(self, action: Any) -> np.ndarray:
        """Returns the Box action of a number."""
        return self._values[int(action)].copy()


class ActionMask(gym.Wrapper, gym.utils.RecordConstructorArgs):
    """Turns `info["action_mask"]`, 1 = legal as in Gymnasium's Taxi, to `info["invalid_actions"]`.

    Where an episode is over no action is chosen: a mask that leaves none counts as none.
    """

    def __init__(self, env: gym.Env):
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Starts an episode."""
        observation, info = self.env.reset(**options)
        return observation, _with_invalid_actions(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes an action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, _with_invalid_actions(info)


def _with_invalid_actions(info: dict[str, Any]) -> dict[str, Any]:
    if "action_mask" not in info:
        raise UserError(
            "wrapper action_mask needs info['action_mask'], one entry an action, 1 = legal; the "
            f"info has {', '.join(sorted(info)) or 'nothing'}: leave the wrapper out"
        )
    legal = np.asarray(info["action_mask"]).astype(bool)
    return {**info, "invalid_actions": ~legal & legal.any()}


class Mask2048(gym.Wrapper, gym.utils.RecordConstructorArgs):
    """Names the moves that would change nothing, in `info["invalid_actions"]`, for gymnasium-2048.

    A game that is over has no legal move; there the mask is empty, since no action is chosen.
    """

    def __init__(self, env: gym.Env):
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        if not hasattr(env.unwrapped, "apply_action"):
            raise UserError(
                "wrapper mask_2048 is for gymnasium_2048/TwentyFortyEight-v0, found "
                f"{env.unwrapped}"
            )
        # Wrapped environments are typed without the methods of their own.
        self._apply: Any = env.unwrapped.apply_action

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Starts a game."""
        observation, info = self.env.reset(**options)
        return observation, self._masked(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes a move."""
        observation, reward, terminated, truncated, info = self.env.step(int(action))
        return observation, reward, terminated, truncated, self._masked(info)

    def _masked(self, info: dict[str, Any]) -> dict[str, Any]:
        legal = [self._apply(info["board"], action)[2] for action in range(4)]
        return {**info, "invalid_actions": np.array([any(legal) and not move for move in legal])}
