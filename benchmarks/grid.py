"""Seconds that both engines take over a large finished grid: 10 environments x 2 x 10 seeds.

    python benchmarks/grid.py

The cells are generated, not trained: files of the right names, settings and sizes in a temporary
copy of the pipeline. Seconds are the median of the rounds.
"""

import argparse
import dataclasses
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from mujax_pipe.layout import CellFiles, EnvironmentFiles
from mujax_pipe.params import Params, load_params

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS, SEEDS = 10, 10
COMMANDS = {
    "parse and plan: snakemake -n all": ("snakemake", "-n", "--quiet", "all", "all"),
    "dvc status": ("dvc", "status"),
    "mujax-pipe sync, nothing to do": ("mujax-pipe", "sync"),
    "mujax-pipe status --once": ("mujax-pipe", "status", "--once"),
}


def run(folder: Path, *command: str) -> float:
    """Runs a command of this environment in a folder; returns the seconds it took."""
    programs = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
    }
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - started


def make_project(folder: Path) -> Params:
    """Copies the pipeline's description and gives it the large grid; returns its parameters."""
    for name in ("params.yaml", "dvc.yaml", ".dvcignore", ".gitignore", "constraints.txt"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "workflow", folder / "workflow")
    shutil.copytree(ROOT / "mujax_pipe", folder / "mujax_pipe")
    shutil.copytree(ROOT / ".dvc", folder / ".dvc", ignore=shutil.ignore_patterns("cache", "tmp"))
    run(folder, "git", "init", "--quiet")
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    names = [f"cartpole{number}" for number in range(ENVIRONMENTS)]
    tree["grid"] = {"algo": ["gmz", "smz"], "env": names, "seed": [*range(SEEDS)]}
    tree["demo"] = {"algo": ["gmz"], "env": names[:1], "seed": [0]}
    cartpole = tree["environments"]["cartpole"]
    tree["environments"] = {name: dict(cartpole) for name in names}
    tree["search"]["episodes"] = dict.fromkeys(names, 100)
    tree["references"] = dict.fromkeys(names, tree["references"]["cartpole"])
    tree["evaluation"] = {name: {"episodes": 100} for name in names}
    tree["overrides"] = {algo: {name: {} for name in names} for algo in ("gmz", "smz")}
    (folder / "params.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    run(folder, "mujax-pipe", "stages", "--write")
    run(folder, "mujax-pipe", "fingerprint", "--write")
    return load_params(folder / "params.yaml")


def finish(params: Params, folder: Path) -> None:
    """Writes what cells would have come to, and lets both engines know."""
    checkpoint = {f"params/array{number}": os.urandom(6_000) for number in range(50)}
    for cell in params.cells():
        files, environment = CellFiles(cell, folder), params.environments[cell.env]
        for name, content in checkpoint.items():
            path = files.best / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content + cell.name.encode())
        config = dataclasses.asdict(params.config(cell))
        train = {
            "algorithm": cell.algo,
            "environment": environment.id,
            "wrappers": environment.wrappers,
            "seed": cell.seed,
            "evaluation": dataclasses.asdict(params.evaluation_config(cell)),
            "config": config,
            "num_learner_steps": config["num_learner_steps"],
            "num_env_steps": environment.num_env_steps,
            "num_parameters": 300_000,
            "best": {"step": 4000, "env_steps": 16_000, "score": 500.0},
            "machine_class": "none",
            "xla_threads": params.run.threads,
        }
        evaluations = "".join(f"{500 * n},{2000 * n},{50.0 * n}\n" for n in range(11))
        episodes = "".join(f"{n},{4 * n},{400.0 + n},{400 + n}\n" for n in range(100))
        std = statistics.stdev(range(100))
        score = {"episodes": 100, "mean": 449.5, "std": std, "min": 400.0, "max": 499.0}
        rows = "".join(f"{n},100,{400.0 + n},{std},450.0\n" for n in params.search.simulations)
        files.search_csv.write_text(f"simulations,episodes,mean,std,mean_length\n{rows}")
        files.search_json.write_text("{}\n")
        random = EnvironmentFiles(cell.env, folder).random
        random.parent.mkdir(parents=True, exist_ok=True)
        random.write_text(json.dumps({"environment": environment.id, "mean": 22.0}))
        files.curve.write_text(f"step,env_steps,score\n{evaluations}")
        files.train.write_text(json.dumps(train, indent=2))
        files.evaluation_csv.write_text(f"episode,seed,return,length\n{episodes}")
        files.evaluation_json.write_text(
            json.dumps({**score, "mean_length": 449.5, "checkpoint_step": 4000})
        )
        files.last_csv.write_bytes(files.evaluation_csv.read_bytes())
        files.last_json.write_bytes(files.evaluation_json.read_bytes())
        shutil.copytree(files.best, files.last)
    for verb in ("aggregate", "plot"):
        for grid in ("all", "demo"):
            run(folder, "mujax-pipe", verb, "--grid", grid)
    run(folder, "snakemake", "--touch", "--cores", "1", "all", "demo")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        params = make_project(folder)
        finish(params, folder)
        recorded = run(folder, "mujax-pipe", "sync")
        print(f"{len(params.cells())} cells")
        print("\n| command | seconds |\n|:--|--:|")
        print(f"| mujax-pipe sync, recording every stage | {recorded:.1f} |")
        for label, command in COMMANDS.items():
            seconds = statistics.median(run(folder, *command) for _ in range(options.rounds))
            print(f"| {label} | {seconds:.1f} |")


if __name__ == "__main__":
    main()
