"""From the parameters of a cell to the settings of its run: all of params.yaml that training sees.

It stands apart from `params.py`, which reads and checks the file, since this part can change a
result and so counts in the fingerprint.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mujax_pipe.config import CONFIGS, MuZeroConfig
from mujax_pipe.errors import UserError
from mujax_pipe.layout import Cell
from mujax_pipe.run_config import EvaluationConfig
from mujax_pipe.settings import from_mapping


def config(
    cell: Cell,
    *,
    algorithm: Mapping[str, Any],
    overrides: Mapping[str, Any],
    num_env_steps: int,
    source: str,
) -> MuZeroConfig:
    """Returns a cell's hyperparameters: the defaults, then `algorithm`, then `overrides`.

    A `size` counts before the other keys of its own section. The number of learner steps is what
    the replay ratio owes for `num_env_steps`.

    Raises:
      UserError: a key or value is not allowed, or the run would end before its first learner step;
        `source` names the file.
    """
    base = _over(None, algorithm, cell.algo, f"{source}: algorithms.{cell.algo}")
    result = _over(base, overrides, cell.algo, f"{source}: overrides.{cell.algo}.{cell.env}")
    steps = result.learner_steps_within(num_env_steps)
    if steps == 0:
        raise UserError(
            f"{source}: environments.{cell.env}.num_env_steps is {num_env_steps}: {cell.algo} "
            f"takes its first learner step after {result.env_steps_for(1)} environment steps; "
            "raise it, or lower min_replay_size or num_envs"
        )
    return result.with_num_steps(steps)


def evaluation_config(config: MuZeroConfig, *, evaluations: int, episodes: int) -> EvaluationConfig:
    """Returns when, and over how many episodes, a run is scored.

    Rounded up, so that the last of `evaluations` falls on the last step and not just before it.
    """
    every = math.ceil(config.num_learner_steps / evaluations)
    return EvaluationConfig(every=every, num_episodes=episodes)


def _over(
    base: MuZeroConfig | None, values: Mapping[str, Any], algo: str, where: str
) -> MuZeroConfig:
    """Returns `base`, or the defaults, with one section of params.yaml over it."""
    if "num_learner_steps" in values:
        raise UserError(
            f"{where}.num_learner_steps: follows from environments.<env>.num_env_steps and the "
            "replay ratio; remove it"
        )
    return from_mapping(CONFIGS[algo], dict(values), where=where, base=base)
