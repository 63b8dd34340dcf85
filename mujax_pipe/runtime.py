"""What must be settled before JAX starts, and a name for the class of this machine. No JAX here.

Results are bit for bit the same only while the thread pool is: XLA splits work by the number of
threads it finds, and sums in another order. So a run has one XLA thread, whatever the machine has.

And only while instructions are exact: an approximate reciprocal square root has other last bits on
each maker's CPUs. XLA is told to do without, which costs nothing that could be measured.
"""

from __future__ import annotations

import os
import platform
import resource
import sys
from pathlib import Path

# Read by XLA when the CPU backend starts.
_THREADS = "NPROC"
_FLAGS = "XLA_FLAGS"
_EXACT = "--xla_cpu_enable_platform_dependent_math=false"


def prepare(threads: int = 1) -> None:
    """Settles threads and numerics; without effect once JAX has started to compute."""
    os.environ[_THREADS] = str(threads)
    # The last of two counts; a user's other flags stay.
    flags = [flag for flag in os.environ.get(_FLAGS, "").split() if flag != _EXACT]
    os.environ[_FLAGS] = " ".join([*flags, _EXACT])
    # A stray setting from the user's shell would change random streams or precision.
    for name in ("JAX_ENABLE_X64", "JAX_THREEFRY_PARTITIONABLE", "JAX_DEFAULT_MATMUL_PRECISION"):
        os.environ.pop(name, None)
    # Silences start-up chatter of the C++ runtime; errors still show.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def threads() -> int | None:
    """XLA threads asked for, or None when `prepare` has not been called."""
    value = os.environ.get(_THREADS)
    return int(value) if value else None


def machine_class() -> str:
    """Names what bits may depend on: two machines of one class give the same bytes.

    Every x86-64 CPU with AVX2 and fused multiply-add is of one class (docs/reproducibility.md says
    what was tried); any other is named by its maker and model.
    """
    fields: dict[str, str] = {}
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    for line in text.split("\n\n", 1)[0].splitlines():
        key, _, value = line.partition(":")
        fields[key.strip()] = value.strip()
    if {"avx2", "fma"} <= {*fields.get("flags", "").split()}:
        return f"{platform.machine()} with AVX2 and FMA"
    names = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")
    parts = [fields[name] for name in names if name in fields]
    return " ".join([platform.machine(), *(parts or [platform.processor() or "unknown"])])


def peak_memory_mb() -> float:
    """Largest resident memory of this process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
