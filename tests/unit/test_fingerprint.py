"""The fingerprint: what must change it does, what must not does not."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from pathlib import Path

import pytest

import mujax_pipe
from mujax_pipe import fingerprint
from mujax_pipe.errors import UserError
from mujax_pipe.normal_form import normal_form

PACKAGE = Path(mujax_pipe.__file__).parent


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a copy of the source, its own constraints and an up-to-date fingerprint."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "mujax_pipe", ignore=ignored)
    jax = importlib.metadata.version("jax")
    (tmp_path / "constraints.txt").write_text(f"# made by hand\njax=={jax}\npytest==1.0\n")
    assert fingerprint.write(tmp_path, tmp_path / "mujax_pipe")
    return tmp_path


def check(project: Path) -> None:
    fingerprint.check(project, project / "mujax_pipe")


def edit(project: Path, name: str, old: str, new: str) -> None:
    path = project / "mujax_pipe" / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_what_training_can_reach_counts_and_no_more(project: Path) -> None:
    content = json.loads((project / "fingerprint.json").read_text())
    modules = set(content["modules"])
    for name in ("agents/gmz", "agents/__init__", "config", "resolve", "runtime", "training/cells"):
        assert f"mujax_pipe/{name}.py" in modules
    for name in ("cli", "options", "params", "record", "layout", "analysis/tables", "__init__"):
        assert f"mujax_pipe/{name}.py" not in modules
    assert content["versions"] == {"jax": importlib.metadata.version("jax")}
    assert list(content["modules"]) == sorted(modules)


def test_a_changed_line_that_runs_is_named(project: Path) -> None:
    check(project)
    path = project / "mujax_pipe/agents/returns.py"
    path.write_text(path.read_text() + "\nEXTRA = 1\n")
    with pytest.raises(UserError) as caught:
        check(project)
    assert "fingerprint.json is stale: mujax_pipe/agents/returns.py changed" in str(caught.value)
    assert "mujax-pipe fingerprint --write" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_comments_help_and_messages_change_nothing(project: Path) -> None:
    before = (project / "fingerprint.json").stat().st_mtime_ns
    edit(project, "config.py", '"Simulations of each search."', '"How many simulations."')
    edit(project, "resolve.py", "or lower min_replay_size or num_envs", "or so")
    path = project / "mujax_pipe/agents/returns.py"
    path.write_text("# A comment.\n\n" + path.read_text())
    (project / "mujax_pipe/analysis/new.py").write_text("X = 1\n")
    check(project)
    assert not fingerprint.write(project, project / "mujax_pipe")
    assert (project / "fingerprint.json").stat().st_mtime_ns == before


def test_a_changed_default_counts(project: Path) -> None:
    edit(project, "config.py", '"Simulations of each search.", low=1', '"Simulations.", low=2')
    with pytest.raises(UserError, match=r"mujax_pipe/config\.py changed"):
        check(project)


def test_a_module_that_training_begins_to_import_counts(project: Path) -> None:
    (project / "mujax_pipe/agents/extra.py").write_text("X = 1\n")
    check(project)
    path = project / "mujax_pipe/training/cells.py"
    path.write_text(path.read_text() + "\n\ndef late():\n    from ..agents import extra\n")
    fingerprint.write(project, project / "mujax_pipe")
    edit(project, "agents/extra.py", "X = 1", "X = 2")
    with pytest.raises(UserError, match=r"agents/extra\.py changed"):
        check(project)


def test_another_pin_counts_and_another_installed_version_is_refused(project: Path) -> None:
    (project / "constraints.txt").write_text("jax==0.0.1\n")
    with pytest.raises(UserError, match="jax changed"):
        check(project)
    fingerprint.write(project, project / "mujax_pipe")
    with pytest.raises(UserError, match=r"is installed, but constraints\.txt pins 0\.0\.1"):
        check(project)
    # A training goes on, and says so.
    said: list[str] = []
    fingerprint.check(project, project / "mujax_pipe", said.append)
    assert len(said) == 1 and "constraints.txt pins 0.0.1" in said[0]


def test_a_missing_or_broken_file_names_the_command(project: Path) -> None:
    path = project / "fingerprint.json"
    for content in ("{", "[]"):
        path.write_text(content)
        with pytest.raises(UserError, match="mujax-pipe fingerprint --write"):
            check(project)
    path.unlink()
    with pytest.raises(UserError, match=r"fingerprint\.json is missing: run"):
        check(project)
    # Away from the source there is nothing to check.
    fingerprint.check(project, PACKAGE)


@pytest.mark.parametrize(
    "other",
    [
        "def f(a, b=1):\n    return a + b\n",
        '"""Doc."""\ndef f(a, b=1):\n    "Doc."\n    # why\n    return (a +\n        b)\n',
        "__version__ = '9'\n__all__ = ['f']\ndef f(a, b=1):\n    return a + b\n",
        "if TYPE_CHECKING:\n    import x\ndef f(a, b=1):\n    return a + b\n",
    ],
)
def test_the_same_code_has_the_same_normal_form(other: str) -> None:
    assert normal_form(other) == normal_form("def f(a, b=1): return a + b")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("x = 1", "x = 1.0"),
        ("x = 1", "x = True"),
        ("x = 'a'", "x = b'a'"),
        ("x = a + b", "x = b + a"),
        ("x = a - b", "x = a + b"),
        ("x = f(a)", "x = f(b=a)"),
        ("x = [a]", "x = (a,)"),
        ("x: int = 1", "x: float = 1"),
        ("raise A('x')", "raise B('x')"),
        ("x = setting(1, 'help', low=0)", "x = setting(2, 'help', low=0)"),
        ("x = setting(1, 'help', low=0)", "x = setting(1, 'help', low=1)"),
        ("x = other(1, 'help')", "x = other(1, 'text')"),
        ("import a", "import b"),
        ("def f(*, a): pass", "def f(a): pass"),
        ("x = a if b else c", "x = c if b else a"),
        ("x = f'{a}'", "x = f'{a:.2f}'"),
    ],
)
def test_other_code_has_another_normal_form(one: str, two: str) -> None:
    assert normal_form(one) != normal_form(two)


def test_the_normal_form_is_the_same_on_every_python() -> None:
    # Golden: the same on 3.11, 3.12 and 3.13, where `ast.dump` gives three texts.
    source = "def f(a, *, b: int = 1): return a[1:], f'{b!r:>{a}}', lambda: {**b}"
    assert normal_form(source) == (
        "Module(body=[FunctionDef(args=arguments(args=[arg(arg='a')],kw_defaults=[int:1],"
        "kwonlyargs=[arg(annotation=Name(id='int'),arg='b')]),body=[Return(value=Tuple(elts=["
        "Subscript(slice=Slice(lower=int:1),value=Name(id='a')),JoinedStr(values=[FormattedValue("
        "conversion=114,format_spec=JoinedStr(values=[str:'>',FormattedValue(conversion=-1,"
        "value=Name(id='a'))]),value=Name(id='b'))]),Lambda(args=arguments(),body=Dict("
        "keys=[None],values=[Name(id='b')]))]))],name='f')])"
    )
