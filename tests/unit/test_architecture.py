"""The shape of the package: which way imports point, what is pinned, and how long a file may be.

Imports are read from the syntax tree, those inside functions and under TYPE_CHECKING included;
nothing of the package is imported here.
"""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PACKAGE = "mujax_pipe"

# Layers of the package: a module of one imports only from the layers named after it. A layer is a
# folder, or a set of modules that stand at the top.
BASE = {
    "budget",
    "compilation_cache",
    "config",
    "dvc_stages",
    "errors",
    "fingerprint",
    "layout",
    "locking",
    "normal_form",
    "params",
    "record",
    "resolve",
    "run_config",
    "runtime",
    "sections",
    "settings",
    "status",
    "strict_yaml",
    "sync",
}
# The command line: the commands, and how they turn settings into options.
CLI = {"__main__", "cli", "grid_commands", "options"}
MAY_IMPORT = {
    "base": {"base"},
    "agents": {"base", "agents"},
    "training": {"base", "agents", "training"},
    "analysis": {"base", "analysis"},
    "api": {"base", "agents", "training", "analysis"},
    "cli": {"base", "agents", "training", "analysis", "api", "cli"},
}

# Mathematics on arrays, wherever it stands.
JAX = {"jax", "jaxlib", "flax", "optax", "orbax", "mctx", "flashbax", "rlax", "distrax", "chex"}
# What reaches outside of a function's arguments: environments, files, clocks, loggers, processes.
EFFECTS = {
    "datetime",
    "flashbax",
    "gymnasium",
    "io",
    "logging",
    "multiprocessing",
    "orbax",
    "os",
    "pathlib",
    "pickle",
    "random",
    "rich",
    "shutil",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "typer",
    "wandb",
}
MAY_NOT_USE = {
    "base": JAX | {"gymnasium", "typer"},
    "agents": EFFECTS | {"importlib"},
    "training": {"typer"},
    "analysis": JAX | {"gymnasium", "importlib", "typer"},
    "api": set(),
    "cli": set(),
}

MAX_LINES = 350
MAX_TEST_LINES = 450
EMPTY_NAMES = {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}


def modules(root: Path = ROOT) -> list[Path]:
    """Returns every module of the package, relative to `root`."""
    return sorted(path.relative_to(root) for path in (root / PACKAGE).rglob("*.py"))


def dotted(path: Path) -> str:
    """Returns `mujax_pipe/agents/__init__.py` as `mujax_pipe.agents`."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer(module: str) -> str | None:
    """Returns the layer of `mujax_pipe.x.y`, None when it has none."""
    _, _, rest = module.partition(".")
    head = rest.partition(".")[0]
    if head == "":
        return "api"
    if head in CLI:
        return "cli"
    if head in BASE:
        return "base"
    return head if head in MAY_IMPORT and head not in ("api", "base") else None


def imports(path: Path, root: Path = ROOT) -> Iterator[tuple[int, str]]:
    """Yields the line and full name of all that a module imports."""
    known = {dotted(other) for other in modules(root)}
    package = dotted(path) if path.name == "__init__.py" else dotted(path).rpartition(".")[0]
    for node in ast.walk(ast.parse((root / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base]).rstrip(".")
            for alias in node.names:
                name = f"{base}.{alias.name}"
                # A name is a module if there is a file for it; else it comes out of `base`.
                yield node.lineno, name if name in known else base


def wrong_imports(root: Path = ROOT) -> list[str]:
    """Returns a line for each import that points the wrong way."""
    wrong = []
    for path in modules(root):
        own = layer(dotted(path))
        if own is None:
            continue
        for line, name in imports(path, root):
            where = f"{path}:{line}: {own} imports {name}"
            if name.partition(".")[0] == PACKAGE:
                other = layer(name)
                if other not in MAY_IMPORT[own]:
                    allowed = ", ".join(sorted(MAY_IMPORT[own]))
                    wrong.append(f"{where} ({other}): allowed are {allowed}")
            elif name.partition(".")[0] in MAY_NOT_USE[own]:
                wrong.append(f"{where}, which {own} may not use")
    return wrong


def report(title: str, lines: list[str]) -> str:
    return "\n  ".join([title, *lines])


def test_imports_point_one_way() -> None:
    wrong = wrong_imports()
    assert not wrong, report("imports against the arrows of CONTRIBUTING.md:", wrong)


def test_every_module_belongs_to_a_layer() -> None:
    lost = [str(path) for path in modules() if layer(dotted(path)) is None]
    assert len(modules()) > 10
    assert not lost, report("add to BASE in this test, or move into a folder:", lost)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("config.py", "from mujax_pipe.agents import gmz"),
        ("config.py", "import jax.numpy as jnp"),
        ("agents/gmz.py", "import gymnasium as gym"),
        ("agents/gmz.py", "from mujax_pipe.training.envs import make"),
        ("agents/gmz.py", "from ..training import envs"),
        ("agents/gmz.py", "def f():\n    import time"),
        ("agents/gmz.py", "from mujax_pipe import GMZConfig"),
        ("training/envs.py", "from mujax_pipe import cli"),
        ("training/envs.py", "import mujax_pipe.analysis.tables"),
        ("analysis/tables.py", "from mujax_pipe.agents.types import Targets"),
        ("analysis/tables.py", "from jax import numpy"),
        ("__init__.py", "from .cli import main"),
    ],
)
def test_wrong_imports_are_found(tmp_path: Path, path: str, source: str) -> None:
    for name in ("__init__.py", "cli.py", "config.py", "agents/gmz.py", "training/envs.py", path):
        file = tmp_path / PACKAGE / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("", encoding="utf-8")
    assert wrong_imports(tmp_path) == []
    (tmp_path / PACKAGE / path).write_text(source, encoding="utf-8")
    wrong = wrong_imports(tmp_path)
    assert len(wrong) == 1
    assert wrong[0].startswith(f"{PACKAGE}/{path}:{1 + source.count(chr(10))}: ")


def test_no_module_has_an_empty_name() -> None:
    empty = [
        str(path)
        for path in modules()
        for part in path.with_suffix("").parts
        if set(part.lower().split("_")) & EMPTY_NAMES
    ]
    assert not empty, report("name these after what they hold:", empty)


def test_files_stay_short() -> None:
    files = [*modules(), *(p.relative_to(ROOT) for p in (ROOT / "tests").rglob("*.py"))]
    lengths = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in files}
    most = lambda path: MAX_TEST_LINES if path.parts[0] == "tests" else MAX_LINES
    long = [f"{path}: {n} lines" for path, n in lengths.items() if n > most(path)]
    assert not long, report(
        f"split these (at most {MAX_LINES} lines, tests {MAX_TEST_LINES}):", long
    )


LIGHT = [dotted(path) for path in modules() if layer(dotted(path)) in ("base", "api", "cli")]


@pytest.mark.parametrize("name", LIGHT)
def test_start_is_free_of_jax(name: str) -> None:
    """`--help` answers at once, and threads can be settled before JAX starts."""
    heavy = sorted(JAX | {"gymnasium", "pandas", "matplotlib", "scipy", "snakemake", "dvc"})
    code = f"import sys, {name}; print(*[m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [], f"import {name} also imports {done.stdout.strip()}"


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def constraint_lines() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def pins() -> dict[str, str]:
    """Returns name -> version of the constraints that hold on this Python and platform."""
    wanted = [Requirement(line) for line in constraint_lines()]
    return {
        canonicalize_name(r.name): next(iter(r.specifier)).version
        for r in wanted
        if r.marker is None or r.marker.evaluate()
    }


def test_extras_exist() -> None:
    extras = {"box2d", "cuda12", "dev", "dvclive", "s3", "tensorboard", "wandb"}
    assert set(project()["optional-dependencies"]) == extras


def test_constraints_are_exact_and_portable() -> None:
    exact = re.compile(r"[a-z0-9][a-z0-9.-]*==[A-Za-z0-9.+!]+( ; [a-zA-Z0-9_ .<>='\"()!]+)?")
    bad = [line for line in constraint_lines() if not exact.fullmatch(line)]
    assert not bad, report("want `name==version`, no address, hash, path or option:", bad)
    names = [Requirement(line).name for line in constraint_lines()]
    assert names == sorted(names)
    assert not {"torch", "tensorflow"} & set(names)


def test_every_dependency_is_pinned() -> None:
    declared = [
        *project()["dependencies"],
        *(line for extra in project()["optional-dependencies"].values() for line in extra),
    ]
    names = {canonicalize_name(Requirement(line).name) for line in declared}
    missing = sorted(names - set(pins()))
    assert not missing, report("run `make constraints`, these are not pinned:", missing)


def test_numerics_are_installed_as_pinned() -> None:
    """Results are bytes of these versions; another version is another experiment."""
    numerics = (*sorted(JAX - {"orbax"}), "orbax-checkpoint", "gymnasium", "numpy", "tensorstore")
    differ = [
        f"{name}: pinned {pins()[name]}, installed {importlib.metadata.version(name)}"
        for name in numerics
        if pins()[name] != importlib.metadata.version(name)
    ]
    assert not differ, report("run `make env`:", differ)
