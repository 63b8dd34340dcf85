"""Digest of everything that can change a training result: `fingerprint.json`, kept in git. No JAX.

Every cell depends on that small file instead of on the source, so a comment or a new figure
re-trains nothing and a changed loss re-trains everything. What counts:

- every module of the package that training can reach by imports, package `__init__` files
  included, except those in `_HARMLESS`;
- of a module, what runs, as `normal_form.py` writes it;
- the pinned versions of the libraries that compute.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mujax_pipe import layout
from mujax_pipe.errors import UserError
from mujax_pipe.normal_form import is_silent, normal_form

_SCHEME = 1
_PACKAGE = Path(__file__).parent
_WRITE = "`mujax-pipe fingerprint --write`"

# Where training starts: the cell's code, its settings, and what is settled before JAX starts.
_ENTRIES = ("training/cells.py", "resolve.py", "runtime.py")

# Reached by training, yet with no say in its numbers: they list public names, read and refuse
# parameters (`resolve.py` makes settings of them), name a place, or show progress.
_HARMLESS = (
    *("__init__.py", "errors.py", "fingerprint.py", "layout.py", "normal_form.py", "params.py"),
    *("sections.py", "strict_yaml.py", "training/progress.py", "training/logs.py"),
    *("training/machine.py", "training/observers.py", "training/trackers.py"),
    *("training/writers.py", "training/writer_files.py"),
)

# Libraries that compute, sample or hold what a result is made of.
NUMERICS = (
    *("box2d", "box2d-py", "chex", "distrax", "flashbax", "flax", "gymnasium", "gymnasium-2048"),
    *("jax", "jaxlib", "mctx", "ml-dtypes", "numpy", "opt-einsum", "optax", "orbax-checkpoint"),
    *("rlax", "tensorstore", "tfp-nightly"),
)


def compute(root: Path = Path(), package: Path = _PACKAGE) -> dict[str, Any]:
    """Returns the content that fingerprint.json should have.

    Args:
      root: the folder of constraints.txt.
      package: the folder of the package's source; by default of the package that runs.

    Raises:
      UserError: constraints.txt is missing.
    """
    modules = {
        f"{package.name}/{path.relative_to(package).as_posix()}": _digest(path)
        for path in _reachable(package)
    }
    return {"scheme": _SCHEME, "modules": modules, "versions": _pinned(root)}


def source_digest(package: Path = _PACKAGE) -> str:
    """Returns one digest of the source that can change a result, and of the installed libraries.

    It tells runs apart where there is no fingerprint.json: outside a source tree.
    """
    parts = [_digest(path) for path in _reachable(package)]
    for name in NUMERICS:
        try:
            parts.append(f"{name}=={importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def check(
    root: Path = Path(), package: Path = _PACKAGE, warn: Callable[[str], None] | None = None
) -> None:
    """Checks that fingerprint.json in `root` is that of the running source and its libraries.

    A folder without the file, away from the source, has nothing to check.

    Args:
      root: the folder of fingerprint.json and constraints.txt.
      package: the folder of the package's source.
      warn: is told of a library whose installed version is not the pinned one, in place of an
        error.

    Raises:
      UserError: it is missing from the source tree, stale, or another version of a library is
        installed than is pinned.
    """
    path = root / layout.FINGERPRINT
    if not path.exists() and package.resolve().parent != root.resolve():
        return
    found, wanted = _read(path), compute(root, package)
    for section in ("modules", "versions", "scheme"):
        name = _first_difference(found.get(section), wanted[section])
        if name is not None:
            raise UserError(
                f"{path} is stale: {name or 'its scheme'} changed, so every cell must be trained "
                f"again; if that is meant, run {_WRITE}"
            )
    for line in _installed_otherwise(wanted["versions"]):
        if warn is None:
            raise UserError(line)
        warn(line)


def write(root: Path = Path(), package: Path = _PACKAGE) -> bool:
    """Brings fingerprint.json up to date; returns whether it changed, and else leaves it untouched.

    Raises:
      UserError: constraints.txt is missing.
    """
    path = root / layout.FINGERPRINT
    text = json.dumps(compute(root, package), indent=2, sort_keys=True) + "\n"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True


def _digest(path: Path) -> str:
    text = normal_form(path.read_text(encoding="utf-8"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _reachable(package: Path) -> list[Path]:
    """Returns the source files that training can reach, sorted; nothing is imported."""
    harmless = {package / name for name in _HARMLESS}
    found: set[Path] = set()
    waiting = [package / entry for entry in _ENTRIES]
    while waiting:
        path = waiting.pop()
        if path not in found | harmless and path.exists():
            found.add(path)
            waiting.extend(_imports(path, package))
    return sorted(found)


def _imports(path: Path, package: Path) -> Iterator[Path]:
    """Yields the files of the package that a file imports anywhere, and its own packages' files."""
    yield from _files(path.relative_to(package).parent.parts, package)
    for node in _running(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _named(alias.name, package)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, path, package)
            for name in (module, *(f"{module}.{alias.name}" for alias in node.names)):
                yield from _named(name, package)


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Yields a node and all within it, save what only type checkers see."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not is_silent(child):
            yield from _running(child)


def _absolute(node: ast.ImportFrom, path: Path, package: Path) -> str:
    """Returns the full name of the module that an import statement names, relative or not."""
    if node.level == 0:
        return node.module or ""
    here = (package.name, *path.relative_to(package).parent.parts)
    base = here[: len(here) - node.level + 1]
    return ".".join((*base, node.module) if node.module else base)


def _named(name: str, package: Path) -> Iterator[Path]:
    """Yields the files that importing a dotted name runs, if it lies in the package."""
    top, *parts = name.split(".")
    if top == package.name:
        yield from _files(tuple(parts), package)


def _files(parts: tuple[str, ...], package: Path) -> Iterator[Path]:
    for depth in range(len(parts) + 1):
        base = package.joinpath(*parts[:depth])
        yield base / "__init__.py"
        if depth:
            yield base.with_suffix(".py")


def _pinned(root: Path) -> dict[str, str]:
    """Returns what constraints.txt pins of the numerics libraries, with the condition if any."""
    path = root / layout.CONSTRAINTS
    if not path.exists():
        raise UserError(f"{path}: no such file; it pins the versions that results depend on")
    pins: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, equal, version = line.partition("==")
        name = re.sub(r"[-_.]+", "-", name.strip()).lower()
        if equal and name in NUMERICS:
            pins[name] = version.strip()
    return dict(sorted(pins.items()))


def _installed_otherwise(pins: dict[str, str]) -> Iterator[str]:
    """Yields a line for each library that will compute in another version than the pinned one."""
    for name, pinned in pins.items():
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if version != pinned.partition(";")[0].strip():
            yield (
                f"{name} {version} is installed, but {layout.CONSTRAINTS} pins {pinned}, which the "
                f"recorded results depend on: install that, or pin {version} and run {_WRITE}"
            )


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing: run {_WRITE}") from None
    except ValueError:
        raise UserError(f"{path} is no JSON: run {_WRITE}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} holds no fingerprint: run {_WRITE}")
    return content


def _first_difference(found: Any, wanted: Any) -> str | None:
    """Returns the first name whose value differs, "" if the whole does, None if nothing does."""
    if found == wanted:
        return None
    if not isinstance(found, dict) or not isinstance(wanted, dict):
        return ""
    names = sorted({*found, *wanted})
    return next(name for name in names if found.get(name) != wanted.get(name))
