"""Gumbel MuZero on Gymnasium, from one run to a grid with figures.

Names are imported when first used, so that the command line can answer without loading JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mujax_pipe.agents import ALGORITHMS, GMZ, SMZ, Algorithm, algorithm_for
    from mujax_pipe.agents.types import EnvironmentSpec
    from mujax_pipe.config import GMZConfig, MuZeroConfig, SMZConfig
    from mujax_pipe.run_config import CheckpointingConfig, EvaluationConfig
    from mujax_pipe.training.actor import Actor
    from mujax_pipe.training.environment_loop import EnvironmentLoop
    from mujax_pipe.training.envs import make_environment, make_environment_spec
    from mujax_pipe.training.experiment import ExperimentConfig, RunResult, run_experiment
    from mujax_pipe.training.inference import Policy, load_actor, load_policy
    from mujax_pipe.training.learner import Learner
    from mujax_pipe.training.observers import EnvLoopObserver, InfoKeysObserver
    from mujax_pipe.training.profile import profile
    from mujax_pipe.training.trackers import WandbWriter
    from mujax_pipe.training.writers import ConsoleWriter, Logger, Writer, create_writer

_HOME = {
    "mujax_pipe.agents": ("ALGORITHMS", "GMZ", "SMZ", "Algorithm", "algorithm_for"),
    "mujax_pipe.agents.types": ("EnvironmentSpec",),
    "mujax_pipe.config": ("GMZConfig", "MuZeroConfig", "SMZConfig"),
    "mujax_pipe.run_config": ("CheckpointingConfig", "EvaluationConfig"),
    "mujax_pipe.training.actor": ("Actor",),
    "mujax_pipe.training.environment_loop": ("EnvironmentLoop",),
    "mujax_pipe.training.envs": ("make_environment", "make_environment_spec"),
    "mujax_pipe.training.experiment": ("ExperimentConfig", "RunResult", "run_experiment"),
    "mujax_pipe.training.inference": ("Policy", "load_actor", "load_policy"),
    "mujax_pipe.training.learner": ("Learner",),
    "mujax_pipe.training.observers": ("EnvLoopObserver", "InfoKeysObserver"),
    "mujax_pipe.training.profile": ("profile",),
    "mujax_pipe.training.trackers": ("WandbWriter",),
    "mujax_pipe.training.writers": ("ConsoleWriter", "Logger", "Writer", "create_writer"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "ALGORITHMS",
    "GMZ",
    "SMZ",
    "Actor",
    "Algorithm",
    "CheckpointingConfig",
    "ConsoleWriter",
    "EnvLoopObserver",
    "EnvironmentLoop",
    "EnvironmentSpec",
    "EvaluationConfig",
    "ExperimentConfig",
    "GMZConfig",
    "InfoKeysObserver",
    "Learner",
    "Logger",
    "MuZeroConfig",
    "Policy",
    "RunResult",
    "SMZConfig",
    "WandbWriter",
    "Writer",
    "algorithm_for",
    "create_writer",
    "load_actor",
    "load_policy",
    "make_environment",
    "make_environment_spec",
    "profile",
    "run_experiment",
]


def __getattr__(name: str) -> Any:
    """Imports a public name on first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Lists the public names."""
    return sorted(__all__)
