"""A copy of the pipeline to run: its description, but not its results."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Project:
    """A folder with the pipeline's description in it, in which commands can be run.

    Args:
      root: the folder.
      fill: copy the description there, but no results; else it is all there.
    """

    def __init__(self, root: Path, *, fill: bool):
        self.root = root
        if fill:
            self._fill(root)

    def _fill(self, root: Path) -> None:
        for name in ("params.yaml", "dvc.yaml", ".dvcignore", ".gitignore", "constraints.txt"):
            shutil.copy(ROOT / name, root / name)
        shutil.copytree(ROOT / "workflow", root / "workflow")
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "mujax_pipe", root / "mujax_pipe", ignore=ignored)
        (root / ".dvc").mkdir()
        for name in ("config", ".gitignore"):
            shutil.copy(ROOT / ".dvc" / name, root / ".dvc" / name)
        shutil.copytree(ROOT / ".dvc" / "plots", root / ".dvc" / "plots")
        self.run("git", "init", "--quiet")
        self.run("mujax-pipe", "fingerprint", "--write")

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs a command in the folder with this environment's programs first."""
        process = self.start(*command, stderr=subprocess.PIPE)
        out, err = process.communicate()
        if check:
            assert process.returncode == 0, f"{command}\n{out}\n{err}"
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def start(self, *command: str, stderr: int = subprocess.STDOUT) -> subprocess.Popen[str]:
        """Starts a command; its output can be read from the process."""
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            # The source in this folder is what runs, and its fingerprint what counts.
            "PYTHONPATH": os.pathsep.join(
                filter(None, (str(self.root), os.environ.get("PYTHONPATH")))
            ),
            "COLUMNS": "200",
        }
        return subprocess.Popen(
            command,
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )


@pytest.fixture(scope="session")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Project]:
    """Makes a fresh copy of the pipeline, or takes a folder that has one."""

    def make(root: Path | None = None) -> Project:
        folder = root or tmp_path_factory.mktemp("project")
        return Project(folder, fill=root is None)

    return make
