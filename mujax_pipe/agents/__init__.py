"""Planning algorithms: pure functions that read like the papers. No environment, file or clock."""

from __future__ import annotations

from mujax_pipe.agents.gmz import GMZ
from mujax_pipe.agents.muzero import Algorithm
from mujax_pipe.agents.smz import SMZ
from mujax_pipe.agents.types import EnvironmentSpec
from mujax_pipe.config import CONFIGS, MuZeroConfig

__all__ = [
    "ALGORITHMS",
    "GMZ",
    "SMZ",
    "Algorithm",
    "EnvironmentSpec",
    "algorithm_for",
    "algorithm_name",
]

ALGORITHMS: dict[str, type[Algorithm]] = {"gmz": GMZ, "smz": SMZ}


def algorithm_name(config: MuZeroConfig) -> str:
    """Returns the registered name of a config's algorithm.

    Raises:
      TypeError: for a config that no algorithm is registered for.
    """
    for name, cls in CONFIGS.items():
        if type(config) is cls:
            return name
    raise TypeError(f"no algorithm takes a {type(config).__name__}; registered are {CONFIGS}")


def algorithm_for(config: MuZeroConfig, spec: EnvironmentSpec) -> Algorithm:
    """Returns the algorithm that a config is for."""
    return ALGORITHMS[algorithm_name(config)](config, spec)
