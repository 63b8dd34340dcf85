"""Both engines describe the same work: commands, inputs, outputs and parameters."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mujax_pipe.dvc_stages import stages
from mujax_pipe.layout import (
    ANALYSIS_SOURCE,
    CELLS,
    ENVIRONMENTS,
    AnalysisFiles,
    CellFiles,
    EnvironmentFiles,
)
from mujax_pipe.params import GRIDS, STAGE_KEYS, load_params

ROOT = Path(__file__).parents[2]
PARAMS = load_params(ROOT / "params.yaml")

# Prints DVC's stages as JSON; a process of its own, as DVC changes global state.
DVC_STAGES = """
import json
from dvc.repo import Repo
repo = Repo('.')
print(json.dumps({
    stage.name: {
        'command': stage.cmd,
        'inputs': [dep.def_path for dep in stage.deps if not hasattr(dep, 'params')],
        'params': [key for dep in stage.deps for key in getattr(dep, 'params', ())],
        'outputs': {out.def_path: [out.use_cache, bool(out.metric)] for out in stage.outs},
    }
    for stage in repo.index.stages
}))
"""


@dataclasses.dataclass(frozen=True)
class Job:
    command: str
    inputs: frozenset[str]
    outputs: frozenset[str]


@pytest.fixture(scope="module")
def project(new_project: Callable[[], Any]) -> Any:
    return new_project()


@pytest.fixture(scope="module")
def dvc(project: Any) -> dict[str, Any]:
    return json.loads(project.run("python", "-c", DVC_STAGES).stdout)


@pytest.fixture(scope="module")
def snakemake(project: Any) -> list[Job]:
    printed = project.run("snakemake", "-n", "--forceall", "all", "demo").stdout
    jobs = []
    for block in printed.split("\n\n"):
        found = {
            key: match[1].split(", ")
            if (match := re.search(rf"^    {key}: (.*)$", block, re.M))
            else []
            for key in ("input", "output")
        }
        command = re.search(r"^Shell command: (mujax-pipe .*?) >>? (\S+) 2>&1$", block, re.M)
        if command:
            assert command[2].startswith("logs/")
            jobs.append(Job(command[1], frozenset(found["input"]), frozenset(found["output"])))
    return jobs


def files_of(folder: str, grid: str) -> set[str]:
    """Returns the files that a folder stands for among DVC's dependencies."""
    if folder == str(ANALYSIS_SOURCE):
        return {str(p.relative_to(ROOT)) for p in (ROOT / folder).iterdir() if p.is_file()}
    if folder == str(CELLS):
        files = (CellFiles(cell) for cell in PARAMS.cells(grid))
        return {str(path) for one in files for path in (*one.analysed, *one.searched)}
    if folder == str(ENVIRONMENTS):
        return {str(EnvironmentFiles(env).random) for env in PARAMS.environments_of(grid)}
    return {folder}


def test_both_engines_do_the_same_jobs(dvc: dict[str, Any], snakemake: list[Job]) -> None:
    from_dvc = {
        Job(
            stage["command"],
            frozenset(file for path in stage["inputs"] for file in files_of(path, "all")),
            frozenset(stage["outputs"]),
        )
        for stage in dvc.values()
    }
    number = 3 * len(PARAMS.cells()) + len(PARAMS.grid.env) + 2 * len(GRIDS)
    assert len(snakemake) == len(dvc) == number
    assert set(snakemake) == from_dvc


def test_dvc_lists_exactly_the_keys_that_a_stage_reads(dvc: dict[str, Any]) -> None:
    for grid, section in GRIDS.items():
        suffix = "" if grid == "all" else f"-{grid}"
        for verb in ("aggregate", "plot"):
            keys = sorted(key.format(grid=section) for key in STAGE_KEYS[verb])
            assert sorted(dvc[f"{verb}{suffix}"]["params"]) == keys
    for cell in PARAMS.cells():
        for verb in ("train", "evaluate", "search"):
            keys = sorted(key.format(algo=cell.algo, env=cell.env) for key in STAGE_KEYS[verb])
            found = dvc[f"{verb}@{cell.algo}-{cell.env}-{cell.seed}"]["params"]
            assert sorted(found) == keys
    for env in PARAMS.grid.env:
        keys = sorted(key.format(env=env) for key in STAGE_KEYS["random"])
        assert sorted(dvc[f"random@{env}"]["params"]) == keys


def test_only_checkpoints_are_cached_and_one_file_is_the_metric(dvc: dict[str, Any]) -> None:
    outputs = {path: kind for stage in dvc.values() for path, kind in stage["outputs"].items()}
    cached = {path for path, (use_cache, _) in outputs.items() if use_cache}
    assert cached == {str(path) for cell in PARAMS.cells() for path in CellFiles(cell).checkpoints}
    metrics = [path for path, (_, metric) in outputs.items() if metric]
    assert metrics == [str(AnalysisFiles().summary)]


def test_recording_names_the_stages_of_its_grid(dvc: dict[str, Any]) -> None:
    demo = {
        *(stage for stage in dvc if stage.endswith("-demo")),
        *(f"random@{env}" for env in PARAMS.demo.env),
        *(
            f"{verb}@{cell.algo}-{cell.env}-{cell.seed}"
            for cell in PARAMS.cells("demo")
            for verb in ("train", "evaluate")
        ),
    }
    assert set(stages(PARAMS, "demo")) == demo
    assert set(stages(PARAMS, "all")) == {name for name in dvc if not name.endswith("-demo")}
    for grid in GRIDS:
        for name, files in stages(PARAMS, grid).items():
            assert set(map(str, files)) == set(dvc[name]["outputs"])


def test_recording_writes_dvc_lock_in_the_order_of_dvc_itself(project: Any) -> None:
    printed = project.run("dvc", "repro", "--dry", "--force").stdout
    order = re.findall(r"^Running stage '(.*)':", printed, re.M)
    assert order == [*stages(PARAMS, "all"), *[*stages(PARAMS, "demo")][-2:]]


def test_the_workflow_passes_snakemakes_own_checks(project: Any) -> None:
    assert "good condition" in project.run("snakemake", "--lint").stderr


def test_reading_the_workflow_writes_nothing(project: Any) -> None:
    def files() -> set[Path]:
        found = (path.relative_to(project.root) for path in project.root.rglob("*"))
        return {path for path in found if path.parts[0] not in (".snakemake", ".git")}

    before = files()
    project.run("snakemake", "-n", "demo")
    assert {path for path in files() - before if "__pycache__" not in path.parts} == set()


def test_a_bad_parameter_stops_snakemake_with_one_line(new_project: Callable[[], Any]) -> None:
    project = new_project()
    path = project.root / "params.yaml"
    path.write_text(re.sub("confidence: .*", "confidence: 95", path.read_text()))
    done = project.run("snakemake", "-n", check=False)
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if "profile" not in line]
    assert len(lines) == 1
    assert lines[0].startswith("mujax-pipe: params.yaml: analysis.confidence is 95")
