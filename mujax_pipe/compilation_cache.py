"""Compiled programs are kept: a warm start skips what takes longest. No JAX here.

JAX can do so in a folder, but a write there is not atomic: a cell killed at the wrong moment would
leave half a program for all others, for good. So each process has a folder of its own, which begins
as links to the shared one, and gives what it has compiled to the shared one by links too. Programs
never change a result: a test compares the bytes with the cache hot, cold and off.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path

_FOLDER = "JAX_COMPILATION_CACHE_DIR"
_ENABLED = "JAX_ENABLE_COMPILATION_CACHE"
_SETTINGS = {
    # By default JAX keeps slow programs alone; a start here has many quick ones.
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    # A path of its own would be part of what JAX knows a program by.
    "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",
}
_LARGEST = 2 * 1024**3  # bytes of shared programs; the oldest go first
_DAY = 86_400.0

_open: tuple[Path, Path] | None = None  # this process's folder and the shared one


def open_cache(threads: int) -> None:
    """Lets JAX keep compiled programs, unless the user's own settings of JAX say where or not to.

    Without effect where the folder cannot be written: then each process compiles for itself.
    """
    global _open
    off = os.environ.get(_ENABLED, "true").lower() in {"0", "false", "no", "off"}
    given = os.environ.get(_FOLDER)
    # That of the process which started this one is not the user's.
    if _open is not None or off or (given and root() not in Path(given).parents):
        return
    shared = root() / _key(threads)
    try:
        shared.mkdir(parents=True, exist_ok=True)
        _sweep(root())
        own = Path(tempfile.mkdtemp(prefix="process-", dir=root()))
        for program in shared.iterdir():
            os.link(program, own / program.name)
    except OSError:
        return
    _open = own, shared
    atexit.register(_close)
    settings = {**_SETTINGS, _FOLDER: str(own)}
    if "jax" not in sys.modules:
        os.environ.update(settings)
        return
    for name, value in settings.items():
        sys.modules["jax"].config.update(name.lower(), float(value) if value == "0" else value)


def publish() -> None:
    """Gives the programs compiled so far to processes that start from now on."""
    if _open is None:
        return
    own, shared = _open
    for program in own.glob("*-cache"):
        try:
            os.link(program, shared / program.name)
        except FileExistsError:
            continue
        except OSError:
            return


def root() -> Path:
    """Returns the folder of all compiled programs of this user."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "mujax_pipe" / "compiled"


def _key(threads: int) -> str:
    """Names what a compiled program depends on besides what it computes."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = sorted(
            {line for line in lines if line.startswith(("model name", "flags", "Features"))}
        )
    except OSError:
        cpu = [platform.processor()]
    versions = [importlib.metadata.version(name) for name in ("jax", "jaxlib")]
    about = [*versions, platform.machine(), *cpu, os.environ.get("XLA_FLAGS", ""), str(threads)]
    return hashlib.sha256("\n".join(about).encode()).hexdigest()[:16]


def _close() -> None:
    if _open is not None:
        publish()
        shutil.rmtree(_open[0], ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Removes what killed processes left behind, and the oldest programs beyond the limit."""
    now = time.time()
    for own in folder.glob("process-*"):
        if now - own.stat().st_mtime > 7 * _DAY:
            shutil.rmtree(own, ignore_errors=True)
    found = [(path.stat(), path) for path in folder.glob("*/*-cache")]
    programs = sorted(
        (
            (stat.st_mtime, stat.st_size, path)
            for stat, path in found
            if path.parent.name[:8] != "process-"
        ),
        reverse=True,
    )
    total = 0
    for _, size, path in programs:
        total += size
        if total > _LARGEST:
            path.unlink(missing_ok=True)
