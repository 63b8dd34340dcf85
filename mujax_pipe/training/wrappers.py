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
