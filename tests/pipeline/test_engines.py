"""A real miniature grid through both engines: same bytes, and each finds the other's work done."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

# Two cells, of which one is the demo; a few learner steps each.
PARAMS = """\
grid: {algo: [gmz], env: [cartpole], seed: [0, 1]}
demo: {algo: [gmz], env: [cartpole], seed: [0]}
run: {evaluations: 2, threads: 1}
algorithms:
  gmz: {size: XS, batch_size: 8, num_envs: 2, num_simulations: 2, min_replay_size: 50}
environments:
  cartpole: {id: CartPole-v1, wrappers: [], num_env_steps: 200, selection_episodes: 2}
overrides:
  gmz: {cartpole: {}}
evaluation:
  cartpole: {episodes: 4}
search: {simulations: [0, 2], episodes: {cartpole: 2}}
references: {cartpole: {score: 500.0, source: limit}}
analysis: {interval: t, confidence: 0.95, threshold: 0.9, bootstrap_samples: 20, bootstrap_seed: 0}
figures: {dpi: 40, algorithm_names: {gmz: Gumbel MuZero}, colours: {gmz: "#0072B2"}}
"""


def shrink(project: Any) -> Any:
    """Gives a copy of the pipeline the miniature grid, also in dvc.yaml's list of the demo."""
    (project.root / "params.yaml").write_text(PARAMS)
    project.run("mujax-pipe", "stages", "--write")
    return project


def tracked(root: Path) -> dict[str, bytes]:
    """Returns what the engines track, by path; Snakemake's mark in a folder is no part of it."""
    files = (path for path in (root / "results").rglob("*") if path.is_file())
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in files
        if path.name != ".snakemake_timestamp"
    }


def snakemake(project: Any, *arguments: str) -> str:
    """Runs Snakemake and returns what it prints."""
    done = project.run("snakemake", "--cores", "2", *arguments)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def by_snakemake(new_project: Callable[[], Any]) -> Any:
    project = shrink(new_project())
    snakemake(project, "demo")
    printed = project.run("mujax-pipe", "sync", "--grid", "demo").stdout
    assert printed.startswith("demo: Snakemake is done; recording 5 stages")
    assert "agree on the 1 cells of 'demo'" in printed
    return project


@pytest.fixture(scope="module")
def by_dvc(new_project: Callable[[], Any]) -> Any:
    project = shrink(new_project())
    project.run("dvc", "repro", "plot-demo")
    return project


def test_the_demo_is_its_own_cells_and_no_more(by_snakemake: Any) -> None:
    found = tracked(by_snakemake.root)
    assert {Path(path).parts[4] for path in found if path.startswith("results/cells")} == {"seed-0"}
    assert "results/demo/figures/learning_curves.pdf" in found
    assert "results/cells/gmz/cartpole/seed-0/evaluation.json" in found


def test_dvc_finds_recorded_work_done(by_snakemake: Any) -> None:
    before = tracked(by_snakemake.root)
    printed = by_snakemake.run("dvc", "repro", "plot-demo").stdout
    assert "Running stage" not in printed
    assert printed.count("didn't change, skipping") == 5
    status = by_snakemake.run("dvc", "status", "--with-deps", "plot-demo").stdout
    assert "up to date" in status
    assert tracked(by_snakemake.root) == before
    assert list((by_snakemake.root / "results").rglob(".gitignore")) == []


def test_both_engines_give_the_same_bytes(by_snakemake: Any, by_dvc: Any) -> None:
    ours, theirs = tracked(by_snakemake.root), tracked(by_dvc.root)
    assert sorted(ours) == sorted(theirs)
    assert [path for path in ours if ours[path] != theirs[path]] == []
    # In any order: which of the stages that a target needs come first DVC draws anew each time.
    # That of the whole grid it takes from dvc.yaml, see test_graphs.py.
    locks = [
        yaml.safe_load((project.root / "dvc.lock").read_text())
        for project in (by_snakemake, by_dvc)
    ]
    assert locks[0] == locks[1]


def test_snakemake_finds_dvcs_work_done(by_dvc: Any) -> None:
    """Even where the files are of another time, as after a clone."""
    before = (by_dvc.root / "dvc.lock").read_bytes()
    os.utime(by_dvc.root / "fingerprint.json")
    printed = by_dvc.run("mujax-pipe", "sync", "--grid", "demo").stdout
    told = re.match("demo: DVC is done; telling Snakemake, which would run (.*)[.]\n", printed)
    assert told is not None
    # In any order, where neither needs the other.
    assert {"train", "random", "evaluate"} <= set(told[1].split(", "))
    again = by_dvc.run("mujax-pipe", "sync", "--grid", "demo").stdout
    assert again == "Snakemake and DVC agree on the 1 cells of 'demo': nothing to do.\n"
    assert (by_dvc.root / "dvc.lock").read_bytes() == before
    assert "Nothing to be done" in snakemake(by_dvc, "-n", "demo")
    assert "up to date" in by_dvc.run("dvc", "status", "--with-deps", "plot-demo").stdout


def test_checkpoints_come_back_from_the_cache(by_dvc: Any) -> None:
    best = by_dvc.root / "results/cells/gmz/cartpole/seed-0/best"
    before = tracked(by_dvc.root)
    shutil.rmtree(best)
    by_dvc.run("dvc", "checkout", "train@gmz-cartpole-0")
    assert tracked(by_dvc.root) == before


# test_reruns.py says the same of the whole grid, for more changes.
@pytest.mark.slow
def test_a_changed_parameter_runs_what_read_it(by_snakemake: Any) -> None:
    path = by_snakemake.root / "params.yaml"
    try:
        for old, new, rules in (
            ("dpi: 40", "dpi: 41", ["plot_demo"]),
            ("confidence: 0.95", "confidence: 0.9", ["aggregate_demo", "plot_demo"]),
            ("episodes: 4}", "episodes: 5}", ["evaluate", "random", "aggregate_demo", "plot_demo"]),
            ("size: XS", "size: S", ["train", "evaluate", "aggregate_demo", "plot_demo"]),
        ):
            path.write_text(PARAMS.replace(old, new))
            printed = snakemake(by_snakemake, "-n", "demo")
            assert sorted(re.findall(r"^rule (\w+):", printed, re.M)) == sorted(rules)
            status = by_snakemake.run("dvc", "status", "--with-deps", "plot-demo").stdout
            stages = {
                line.split("@")[0].rstrip(":") for line in re.findall(r"^\S+:$", status, re.M)
            }
            # DVC names the stages that read the key; what follows from them it finds when it runs.
            assert {rules[0].replace("_", "-")} <= stages <= {r.replace("_", "-") for r in rules}
    finally:
        path.write_text(PARAMS)
        os.utime(path, (0, 0))


def test_all_finds_the_demos_cells_done(by_snakemake: Any) -> None:
    printed = snakemake(by_snakemake, "-n", "--printshellcmds", "all")
    assert "cell train gmz cartpole 1" in printed
    assert "cell train gmz cartpole 0" not in printed


def test_a_published_cell_is_verified_byte_for_byte(by_snakemake: Any) -> None:
    """Trained again in processes of its own; only then, with what was published changed."""
    name = "gmz/cartpole/seed-0"
    # The demo searches nothing; a published cell has its sweep too.
    by_snakemake.run("dvc", "repro", "--single-item", "search@gmz-cartpole-0")
    before = tracked(by_snakemake.root)
    printed = by_snakemake.run("mujax-pipe", "verify", name).stdout.splitlines()
    lines = [line for line in printed if line.startswith(("same", "differs"))]
    folder = f"results/cells/{name}"
    files = (
        *("best", "last", "curve.csv", "train.json", "evaluation.csv", "evaluation.json"),
        *("evaluation_last.csv", "evaluation_last.json", "search.csv", "search.json"),
    )
    assert lines == [f"same    {folder}/{file} (results/ and dvc.lock)" for file in files]
    assert f"{name}: is as published; compared bytes" in printed[-1]
    assert tracked(by_snakemake.root) == before


@pytest.mark.slow
def test_what_differs_from_the_published_is_named_and_kept(by_snakemake: Any) -> None:
    name = "gmz/cartpole/seed-0"
    folder = f"results/cells/{name}"
    before = tracked(by_snakemake.root)
    path, best = by_snakemake.root / folder / "curve.csv", by_snakemake.root / folder / "best"
    try:
        path.write_text("\n".join([*path.read_text().splitlines()[:-1], "37,200,1.5", ""]))
        best.rename(best.with_name("elsewhere"))
        done = by_snakemake.run("mujax-pipe", "verify", folder, check=False)
    finally:
        path.write_bytes(before[f"{folder}/curve.csv"])
        best.with_name("elsewhere").rename(best)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("mujax-pipe: not everything is as published")
    assert "Traceback" not in done.stderr
    assert f"same    {folder}/best (dvc.lock)" in done.stdout
    assert re.search(
        rf"differs {folder}/curve.csv: line 4, \w+ is '.*' here, '.*' pub", done.stdout
    )
    kept = re.search(r"what was made now is kept in (\S+)", done.stdout)
    assert kept is not None
    assert Path(kept[1], folder, "curve.csv").read_bytes() == before[f"{folder}/curve.csv"]
    shutil.rmtree(kept[1])


def refused(project: Any, *arguments: str) -> str:
    """Runs `sync`, which must refuse in one line and leave dvc.lock alone; returns the line."""
    before = (project.root / "dvc.lock").read_bytes()
    done = project.run("mujax-pipe", "sync", *arguments, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    assert (project.root / "dvc.lock").read_bytes() == before
    return str(done.stderr)


def test_an_unfinished_grid_is_not_recorded(by_dvc: Any) -> None:
    line = refused(by_dvc)
    assert "neither engine is done, so nothing was changed: Snakemake would run " in line
    assert "first train@gmz-cartpole-1 (changed deps: " in line


def test_cells_of_other_settings_are_not_recorded(by_dvc: Any) -> None:
    os.utime(by_dvc.root / "fingerprint.json")
    by_dvc.run("mujax-pipe", "sync", "--grid", "demo")
    path = by_dvc.root / "params.yaml"
    path.write_text(PARAMS.replace("num_simulations: 2", "num_simulations: 3"))
    try:
        line = refused(by_dvc, "--grid", "demo")
        # Told so by hand, Snakemake is content, and wrongly so.
        by_dvc.run("snakemake", "--touch", "--cores", "1", "demo")
        more = refused(by_dvc, "--grid", "demo")
    finally:
        path.write_text(PARAMS)
    assert "neither engine is done" in line
    assert "seed-0/train.json: num_simulations is 2, but params.yaml asks for 3" in more


def test_a_change_that_snakemake_overlooks_is_not_recorded(by_dvc: Any) -> None:
    """It knows no parameters of what it has not made itself."""
    by_dvc.run("mujax-pipe", "sync", "--grid", "demo")
    shutil.rmtree(by_dvc.root / ".snakemake/metadata")
    path = by_dvc.root / "params.yaml"
    path.write_text(PARAMS.replace("confidence: 0.95", "confidence: 0.9"))
    os.utime(path, (0, 0))
    try:
        assert "Nothing to be done" in snakemake(by_dvc, "-n", "demo")
        line = refused(by_dvc, "--grid", "demo")
    finally:
        path.write_text(PARAMS)
    assert "stage aggregate-demo changed for DVC (changed deps: params.yaml" in line
    assert "run `dvc repro aggregate-demo`, or delete that file and finish with" in line


def test_a_running_snakemake_is_left_alone(by_dvc: Any) -> None:
    os.utime(by_dvc.root / "fingerprint.json")
    lock = by_dvc.root / ".snakemake/locks/0.output.lock"
    lock.parent.mkdir(exist_ok=True)
    lock.write_text("results/x\n")
    try:
        assert "run `snakemake --unlock`" in refused(by_dvc, "--grid", "demo")
    finally:
        lock.unlink()
    by_dvc.run("mujax-pipe", "sync", "--grid", "demo")


def test_a_stale_fingerprint_stops_both_engines(by_dvc: Any) -> None:
    path = by_dvc.root / "mujax_pipe/agents/returns.py"
    text = path.read_text()
    path.write_text(text + "\nEXTRA = 1\n")
    try:
        for command in (
            ("snakemake", "--cores", "1", "results/cells/gmz/cartpole/seed-1/train.json"),
            ("dvc", "repro", "train@gmz-cartpole-1"),
            ("mujax-pipe", "cell", "evaluate", "gmz", "cartpole", "0"),
        ):
            done = by_dvc.run(*command, check=False)
            assert done.returncode != 0
            assert "mujax-pipe fingerprint --write" in done.stdout + done.stderr
        assert not (by_dvc.root / "results/cells/gmz/cartpole/seed-1").exists()
    finally:
        path.write_text(text)
