"""A miniature grid on a real Slurm of one node: a job that is cancelled half-way goes on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.test_engines import PARAMS, shrink, tracked

NEEDED = ("slurmctld", "slurmd", "sbatch", "scancel", "munged")
ONE_NODE = Path(__file__).with_name("one_node.sh")

# Long enough to be cancelled in the middle.
LONGER = PARAMS.replace("num_env_steps: 200", "num_env_steps: 6000")


def missing() -> str:
    """Says why no Slurm can be started here, or nothing."""
    if os.geteuid() != 0:
        return "Slurm's daemons are started as root"
    if lacking := [name for name in NEEDED if shutil.which(name) is None]:
        return (
            f"{', '.join(lacking)} not installed: apt install slurmctld slurmd slurm-client munge"
        )
    return ""


pytestmark = [pytest.mark.slurm, pytest.mark.skipif(bool(missing()), reason=missing())]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs Slurm on this machine."""
    folder = tmp_path_factory.mktemp("slurm")
    started = subprocess.run(
        [ONE_NODE, "start", folder], capture_output=True, text=True, check=False
    )
    if started.returncode != 0:
        pytest.skip(f"Slurm does not start here: {started.stderr}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", started.stdout.strip())
        yield
    subprocess.run([ONE_NODE, "stop", folder], check=False)


def make(new_project: Callable[..., Any]) -> Any:
    project = shrink(new_project())
    (project.root / "params.yaml").write_text(LONGER)
    return project


def cancel_when_training(project: Any, running: subprocess.Popen[str]) -> str:
    """Cancels the first job that is seen in the middle of its training; returns its cell."""
    cells = project.root / "logs" / "cells"
    while running.poll() is None:
        for path in cells.rglob("progress.json"):
            step = re.search(r'"step": (\d+)', path.read_text())
            if step is not None and int(step[1]) > 100:
                cell = path.parent.relative_to(cells)
                # The plugin names the rule and its wildcards in the job's comment.
                name = "rule_train_wildcards_" + "_".join(cell.parts).replace("seed-", "")
                jobs = subprocess.run(
                    ["squeue", "--noheader", "--format=%i %k"],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
                (job,) = [line.split()[0] for line in jobs.splitlines() if line.endswith(name)]
                subprocess.run(["scancel", job], check=True)
                return cell.as_posix()
        time.sleep(0.05)
    raise AssertionError(f"the grid ended early:\n{running.communicate()[0]}")


def test_a_cancelled_job_goes_on_and_ends_with_the_bytes_of_a_local_run(
    slurm: None,
    new_project: Callable[..., Any],
) -> None:
    local, cluster = make(new_project), make(new_project)
    local.run("snakemake", "--cores", "2", "all")
    command = [
        *("snakemake", "--profile", "workflow/profiles/slurm", "all"),
        *("--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "5"),
        *("--latency-wait", "5"),
    ]
    running = cluster.start(*command)
    cancelled = cancel_when_training(cluster, running)
    printed, _ = running.communicate(timeout=900)
    assert running.returncode == 0, printed
    log = (cluster.root / "logs" / "cells" / cancelled / "train.log").read_text()
    assert "going on from" in log
    assert tracked(cluster.root) == tracked(local.root)
