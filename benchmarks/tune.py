"""Looks for settings that learn, on seeds that no published grid uses.

    python benchmarks/tune.py --algo gmz --env frozenlake --seeds 1000,1001 \\
        --set "replay_ratio=4|8|16" --set "value_layer_sizes=[64]|[128]" --random 4

Each combination of the alternatives (or `--random` of them, drawn by a fixed seed) is one trial of
each algorithm, environment and seed: a cell of params.yaml with those settings on top, trained by
the code of the pipeline. Its row goes to benchmarks/results/tuning.csv. Trials that are there are
not run again while source and params.yaml make the same of them, and a stopped one goes on where it
was: the same command can be given at any time.
"""

import argparse
import csv
import dataclasses
import fcntl
import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
LOG = ROOT / "benchmarks" / "results" / "tuning.csv"
SCRATCH = ROOT / "scratch" / "tuning"
COLUMNS = (
    *("algo", "env", "seed", "env_steps", "settings"),
    *("best", "last", "along", "core_seconds", "fingerprint", "note", "resolved"),
)


@dataclasses.dataclass(frozen=True)
class Trial:
    """One training run."""

    algo: str
    env: str
    seed: int
    env_steps: int
    settings: str  # JSON, sorted
    fingerprint: str
    resolved: str  # digest of the whole of what is run, defaults and params.yaml included

    @property
    def name(self) -> str:
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:10]
        return f"{self.algo}-{self.env}-{self.seed}-{digest}"


def alternatives(text: str) -> tuple[str, list[Any]]:
    """Reads `name=a|b`."""
    name, _, values = text.partition("=")
    return name, [yaml.safe_load(value) for value in values.split("|")]


def resolved(algo: str, env: str, env_steps: int, settings: str) -> tuple[Any, Any]:
    """Returns the config and the evaluation of a trial: params.yaml with settings on top."""
    from mujax_pipe.layout import Cell
    from mujax_pipe.params import load_params
    from mujax_pipe.settings import from_mapping

    params = load_params(ROOT / "params.yaml")
    cell = Cell(algo=algo, env=env, seed=0)
    base = params.config(cell)
    changed = json.loads(settings)
    if size := changed.pop("size", None):
        base = base.with_size(size)
    config = from_mapping(type(base), {**dataclasses.asdict(base), **changed}, where="--set")
    steps = config.learner_steps_within(env_steps)
    every = max(1, steps // params.run.evaluations)
    scoring = dataclasses.replace(params.evaluation_config(cell), every=every)
    return config.with_num_steps(steps), scoring


def digest(algo: str, env: str, env_steps: int, settings: str) -> str:
    """Names all that a trial is made of but its seed and the source."""
    from mujax_pipe.params import load_params

    parts = [load_params(ROOT / "params.yaml").environments[env]]
    parts += resolved(algo, env, env_steps, settings)
    text = json.dumps([dataclasses.asdict(part) for part in parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def run(trial: Trial) -> dict[str, Any]:
    """Trains in this process; returns what came of it."""
    from mujax_pipe import runtime

    runtime.prepare(1)
    from mujax_pipe.params import load_params
    from mujax_pipe.run_config import CheckpointingConfig
    from mujax_pipe.training.envs import environment_factory
    from mujax_pipe.training.experiment import ExperimentConfig, run_experiment

    environment = load_params(ROOT / "params.yaml").environments[trial.env]
    config, scoring = resolved(trial.algo, trial.env, trial.env_steps, trial.settings)
    started = time.process_time()
    result = run_experiment(
        ExperimentConfig(
            config=config,
            environment_factory=environment_factory(environment.id, environment.wrappers),
            seed=trial.seed,
            evaluation=scoring,
            checkpointing=CheckpointingConfig(directory=str(SCRATCH / trial.name)),
            title=trial.name,
        )
    )
    scores = [score for _, _, score in result.curve]
    return {
        "best": round(max(scores), 4),
        "last": round(scores[-1], 4),
        "along": round(sum(scores[1:]) / len(scores[1:]), 4),
        "core_seconds": round(time.process_time() - started),
    }


def done() -> set[Trial]:
    """Returns the trials of the log."""
    if not LOG.exists():
        return set()
    with LOG.open(encoding="utf-8", newline="") as file:
        return {
            Trial(
                **{name: row[name] for name in ("algo", "env", "settings")},
                **{name: row[name] for name in ("fingerprint", "resolved")},
                seed=int(row["seed"]),
                env_steps=int(row["env_steps"]),
            )
            for row in csv.DictReader(file)
        }


def note(trial: Trial, found: dict[str, Any], remark: str) -> None:
    """Adds a row to the log; several commands may run at once."""
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("a", encoding="utf-8", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        writer.writerow({**dataclasses.asdict(trial), **found, "note": remark})


def try_out(trial: Trial, remark: str) -> None:
    """Runs a trial in a process of its own, and notes it."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, "--one", json.dumps(dataclasses.asdict(trial))]
    with (SCRATCH / f"{trial.name}.log").open("w", encoding="utf-8") as log:
        finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True)
    lines = [line for line in finished.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        print(f"{trial.name} failed: see {log.name}", flush=True)
        return
    found = json.loads(lines[-1].removeprefix("RESULT "))
    note(trial, found, remark)
    print(trial.algo, trial.env, trial.seed, trial.settings, json.dumps(found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algo", default="gmz,smz")
    parser.add_argument("--env", default="cartpole")
    parser.add_argument("--seeds", default="1000,1001")
    parser.add_argument("--env-steps", type=int, help="default: those of params.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=A|B")
    parser.add_argument("--random", type=int, help="how many of the combinations")
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--note", default="", help="why, for the log")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print("RESULT " + json.dumps(run(Trial(**json.loads(options.one)))))
        return
    if any(int(seed) < 1000 for seed in options.seeds.split(",")):
        parser.error("seeds below 1000 are those of published grids")
    from mujax_pipe.fingerprint import source_digest
    from mujax_pipe.params import load_params

    environments = load_params(ROOT / "params.yaml").environments
    names, choices = zip(*map(alternatives, options.set), strict=True) if options.set else ((), ())
    combinations = [dict(zip(names, values, strict=True)) for values in itertools.product(*choices)]
    if options.random:
        rng = random.Random(0)
        combinations = rng.sample(combinations, min(options.random, len(combinations)))
    texts = [json.dumps(settings, sort_keys=True) for settings in combinations]
    source = source_digest()[:12]
    trials = []
    for seed, settings, env, algo in itertools.product(
        options.seeds.split(","), texts, options.env.split(","), options.algo.split(",")
    ):
        steps = options.env_steps or environments[env].num_env_steps
        trial = Trial(
            algo=algo,
            env=env,
            seed=int(seed),
            env_steps=steps,
            settings=settings,
            fingerprint=source,
            resolved=digest(algo, env, steps, settings),
        )
        trials.append(trial)
    finished = done()
    open_ = [trial for trial in trials if trial not in finished]
    print(f"{len(trials)} trials, {len(open_)} to run", flush=True)
    with ThreadPoolExecutor(options.cores) as pool:
        list(pool.map(lambda trial: try_out(trial, options.note), open_))


if __name__ == "__main__":
    main()
