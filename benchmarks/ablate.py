"""Compares settings of one algorithm over several seeds, by the cells of the pipeline itself.

    python benchmarks/ablate.py after_terminal            # train, evaluate, print the table
    python benchmarks/ablate.py targets --cores 4

Each variant is a params.yaml of its own in scratch/ablations/, run by Snakemake: stopped, it goes
on where it was. Seeds start at 1000, apart from those of the published grid. The final scores go to
benchmarks/results/ablation_<study>.csv, one row a run.
"""

import argparse
import copy
import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import scipy.stats
import yaml

ROOT = Path(__file__).resolve().parents[1]
SCRATCH = ROOT / "scratch" / "ablations"
SEEDS = range(1000, 1005)

# Variants of the algorithm's settings, by the name of the study.
STUDIES = {
    "after_terminal": {
        "algo": "gmz",
        "environments": ["cartpole", "blackjack", "acrobot"],
        "variants": {
            "absorbing": {"after_terminal": "absorbing"},
            "masked": {"after_terminal": "masked"},
        },
    },
    "targets": {
        "algo": "gmz",
        "environments": ["cartpole", "blackjack"],
        "variants": {
            "default": {},
            "off_policy: ignore": {"off_policy": "ignore"},
            "consistency_weight: 0": {"consistency_weight": 0.0},
            "averaging: 0": {"averaging": 0.0},
            "num_bins: 101": {"num_bins": 101},
        },
    },
}


def parameters(base: dict, study: dict, settings: dict) -> dict:
    """Returns a params.yaml with one variant's settings, on top of all that stands in `base`."""
    algo, environments = study["algo"], study["environments"]
    params = copy.deepcopy(base)
    params["grid"] = params["demo"] = {"algo": [algo], "env": environments, "seed": [*SEEDS]}
    params["algorithms"] = {algo: params["algorithms"][algo]}
    for section in ("environments", "evaluation"):
        params[section] = {name: params[section][name] for name in environments}
    overrides = params["overrides"][algo]
    params["overrides"] = {algo: {name: {**overrides[name], **settings} for name in environments}}
    params["figures"]["algorithm_names"] = {algo: algo}
    return params


def train(folder: Path, params: dict, cores: int) -> None:
    """Trains and evaluates every cell of one variant."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False), encoding="utf-8")
    for name in ("fingerprint.json", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    for name in ("mujax_pipe", "workflow"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    command = ["snakemake", "all", "--cores", str(cores), "--quiet", "rules"]
    subprocess.run(command, cwd=folder, check=True)


def scores(folder: Path, algo: str, env: str) -> list[dict]:
    """Returns the final score of each seed, and its mean score along training."""
    rows = []
    for seed in SEEDS:
        cell = folder / "results" / "cells" / algo / env / f"seed-{seed}"
        final = json.loads((cell / "evaluation.json").read_text(encoding="utf-8"))["mean"]
        with (cell / "curve.csv").open(encoding="utf-8") as file:
            curve = [float(row["score"]) for row in csv.DictReader(file)]
        rows.append({"env": env, "seed": seed, "final": final, "along": float(np.mean(curve[1:]))})
    return rows


def t_interval(values: list[float]) -> tuple[float, float]:
    """Returns mean and half width of the 95 % t interval."""
    half = scipy.stats.t.ppf(0.975, len(values) - 1) * scipy.stats.sem(values)
    return float(np.mean(values)), float(half)


def table(rows: list[dict]) -> str:
    """Returns means with 95 % t intervals over seeds, as Markdown."""
    lines = [
        "| environment | variant | final score | mean score along training |",
        "|:--|:--|--:|--:|",
    ]
    for env, variant in dict.fromkeys((row["env"], row["variant"]) for row in rows):
        mine = [row for row in rows if (row["env"], row["variant"]) == (env, variant)]
        cells = []
        for column in ("final", "along"):
            mean, half = t_interval([row[column] for row in mine])
            digits = 4 if env == "blackjack" else 1
            cells.append(f"{mean:.{digits}f} ± {half:.{digits}f}")
        lines.append(f"| {env} | {variant} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    study = STUDIES[arguments.study]
    base = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    rows = []
    for variant, settings in study["variants"].items():
        folder = SCRATCH / arguments.study / variant.replace(": ", "-")
        train(folder, parameters(base, study, settings), arguments.cores)
        for env in study["environments"]:
            found = scores(folder, study["algo"], env)
            rows += [{"variant": variant, **row} for row in found]
    rows.sort(key=lambda row: study["environments"].index(row["env"]))
    path = ROOT / "benchmarks" / "results" / f"ablation_{arguments.study}.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(table(rows))
    print(f"every run: {path.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
