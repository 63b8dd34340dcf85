"""What must be settled before JAX starts, and a name for the class of this machine. No JAX here.

Results are bit for bit the same only while the thread pool is: XLA splits work by the number of
threads it finds, and sums in another order. So a run has one XLA thread, whatever the machine has.

And only while the machine code is: an approximate reciprocal square root has other last bits on
each maker's CPUs, and sums come in the order that suits a CPU's vectors. So XLA, oneDNN and NumPy
are held to what the CPUs of a class share, which costs nothing that could be measured.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import sys
from pathlib import Path

from mujax_pipe.compilation_cache import open_cache

# Read by XLA when the CPU backend starts.
_THREADS = "NPROC"
_FLAGS = "XLA_FLAGS"
_EXACT = "--xla_cpu_enable_platform_dependent_math=false"
# XLA lets LLVM reorder the sum of a reduction, which it does where that pays: by the CPU's model.
# Held to AVX2, it compiles for any CPU that has more as for a Haswell.
_WIDEST = "--xla_cpu_max_isa=AVX2"
_LIBRARIES = {
    "ONEDNN_MAX_CPU_ISA": "AVX2",  # XLA calls oneDNN for some matrix products.
    # NumPy's functions of AVX-512 have other last bits, and an environment may call them.
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
}

# What a user may say about JAX without a say in its numbers, as the first letters of names.
_HARMLESS_SETTINGS = (
    *("JAX_PLATFORMS", "JAX_LOG", "JAX_TRACEBACK", "JAX_DEBUG_LOG", "JAX_DUMP", "JAX_EXPLAIN"),
    *("JAX_COMPILATION_CACHE", "JAX_ENABLE_COMPILATION_CACHE", "JAX_PERSISTENT_CACHE"),
    *("JAX_RAISE_PERSISTENT_CACHE", "JAX_CUDA", "JAX_ROCM", "JAX_PJRT"),
)
# And about XLA.
_HARMLESS_FLAGS = (
    *("--xla_dump", "--xla_force_host_platform_device_count"),
    *("--xla_hlo_profile", "--xla_gpu_cuda_data_dir", _EXACT, _WIDEST),
)

# Of glibc's mallopt: memory that XLA frees is kept for its next call. Given back to the system, its
# buffers would be mapped and zeroed anew each time: 12 % of a learner step, a third of a search.
_KEEP_MEMORY = {"M_MMAP_MAX": (-4, 0), "M_TRIM_THRESHOLD": (-1, 2**31 - 1)}

_X86 = {"x86_64", "AMD64"}

_settled: int | None = None


def prepare(threads: int = 1) -> None:
    """Settles threads and numerics; without effect once JAX has started to compute."""
    global _settled
    if _started():
        return
    _settled = threads
    os.environ[_THREADS] = str(threads)
    # A user's other flags stay, and `machine_class` names them.
    ours = [_EXACT, *([_WIDEST] if platform.machine() in _X86 else [])]
    names = tuple(flag.partition("=")[0] for flag in ours)
    theirs = [flag for flag in os.environ.get(_FLAGS, "").split() if not flag.startswith(names)]
    os.environ[_FLAGS] = " ".join([*theirs, *ours])
    os.environ.update(_LIBRARIES)
    os.environ.pop("DNNL_MAX_CPU_ISA", None)
    # A stray setting from the user's shell would change random streams or precision.
    for name in [name for name in os.environ if name.startswith("JAX_")]:
        if not name.startswith(_HARMLESS_SETTINGS):
            del os.environ[name]
    # Silences start-up chatter of the C++ runtime; errors still show.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    _keep_memory()
    open_cache(threads)


def _keep_memory() -> None:
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is not None and hasattr(library, "mallopt"):
        for option, value in _KEEP_MEMORY.values():
            library.mallopt(option, value)


def threads() -> int | None:
    """XLA threads that `prepare` has settled; None when it was not called before JAX started."""
    return _settled


def _started() -> bool:
    """Whether JAX has read its settings: it does when it first needs a device."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bridge.backends_are_initialized()


def machine_class() -> str:
    """Names what bits may depend on: two machines of one class give the same bytes.

    Every x86-64 CPU with AVX-512 is of one class: XLA compiles the same for all of them. For others
    it compiles by the model (docs/reproducibility.md). XLA flags that may change numbers make a
    class of their own.
    """
    flags = os.environ.get(_FLAGS, "").split()
    foreign = sorted(flag for flag in flags if not flag.startswith(_HARMLESS_FLAGS))
    return " ".join([_cpu_class(), *(["with", *foreign] if foreign else [])])


def _cpu_class() -> str:
    fields = cpu_fields()
    if "avx512f" in fields.get("flags", "").split():
        return f"{platform.machine()} with AVX-512"
    names = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")
    parts = [fields[name] for name in names if name in fields]
    return " ".join([platform.machine(), *(parts or [platform.processor() or "unknown"])])


def cpu_fields() -> dict[str, str]:
    """Returns what Linux says of the first core; nothing elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    lines = (line.partition(":") for line in text.split("\n\n", 1)[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in lines}


def peak_memory_mb() -> float:
    """Largest resident memory of this process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
