"""What is known of the machine and the time of a run: `machine.json`, which nothing tracks."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import TYPE_CHECKING, Any

from mujax_pipe import runtime
from mujax_pipe.fingerprint import NUMERICS
from mujax_pipe.training.progress import earlier_seconds

if TYPE_CHECKING:
    from mujax_pipe.training.experiment import RunResult


def machine_record(result: RunResult) -> dict[str, Any]:
    """Returns the machine, versions and flags of a run, and what it took."""
    return {
        "machine_class": runtime.machine_class(),
        "cpu": cpu(),
        "cores": _cores(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": dict(_versions()),
        "xla_threads": runtime.threads(),
        "flags": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(("XLA_", "JAX_", "NPY_", "OPENBLAS_", "OMP_", "MKL_"))
        },
        # With those of earlier processes that were stopped or killed.
        "seconds": round(earlier_seconds() + result.seconds, 2),
        "seconds_to_first_learner_step": round(result.seconds_to_first_step, 2),
        "seconds_saving": round(result.seconds_saving, 2),
        "peak_memory_mb": round(runtime.peak_memory_mb(), 1),
    }


def _cores() -> int | None:
    """Returns the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def cpu() -> str:
    """Returns the CPU's name for people, and its family and model: names hide which one it is."""
    fields = runtime.cpu_fields()
    name = fields.get("model name") or platform.processor() or "unknown"
    if {"cpu family", "model"} <= fields.keys():
        return f"{name} (family {fields['cpu family']} model {fields['model']})"
    return name


def _versions() -> Any:
    for name in NUMERICS:
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
