"""What must be settled before JAX starts, and a name for the class of this machine. No JAX here.

Results are bit for bit the same only while the thread pool is: XLA splits work by the number of
threads it finds, and sums in another order. So a run has one XLA thread, whatever the machine has.
"""

from __future__ import annotations

import os
import platform
import resource
import sys
from pathlib import Path

# Read by XLA when the CPU backend starts.
_THREADS = "NPROC"


def prepare(threads: int = 1) -> None:
    """Settles threads and numerics; without effect once JAX has started to compute."""
    os.environ[_THREADS] = str(threads)
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
    """Names what bits may depend on: the CPU, such as `x86_64 GenuineIntel 6 143 avx512f`.

    Two machines of one class give the same bytes; on another class the last bits of library kernels
    may differ.
    """
    fields: dict[str, str] = {}
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    for line in text.split("\n\n", 1)[0].splitlines():
        key, _, value = line.partition(":")
        fields[key.strip()] = value.strip()
    names = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")
    parts = [fields[name] for name in names if name in fields]
    widest = [isa for isa in ("avx512f", "avx2", "avx") if isa in fields.get("flags", "").split()]
    return " ".join(
        [platform.machine(), *(parts or [platform.processor() or "unknown"]), *widest[:1]]
    )


def peak_memory_mb() -> float:
    """Largest resident memory of this process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
