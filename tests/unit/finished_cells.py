"""Finished cells without a trainer: files as `mujax-pipe cell train` and `evaluate` leave them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mujax_pipe.config import CONFIGS
from mujax_pipe.layout import Cell, CellFiles, EnvironmentFiles
from mujax_pipe.sections import Reference

IDS = {"cartpole": "CartPole-v1", "blackjack": "Blackjack-v1"}


def make_params(
    *,
    algos: Sequence[str] = ("gmz",),
    envs: Sequence[str] = ("cartpole", "blackjack"),
    seeds: Sequence[int] = (0, 1, 2),
    demo_seeds: Sequence[int] = (0, 1),
    interval: str = "percentile",
    confidence: float = 0.95,
    bootstrap_samples: int = 2000,
) -> Any:
    """What the analysis reads of `Params`, for any grid."""

    def cells(grid: str = "all") -> tuple[Cell, ...]:
        chosen = {"all": seeds, "demo": demo_seeds}[grid]
        return tuple(Cell(algo=a, env=e, seed=s) for a in algos for e in envs for s in chosen)

    return types.SimpleNamespace(
        cells=cells,
        environments_of=lambda grid="all": tuple(envs),
        environments={
            env: types.SimpleNamespace(id=IDS.get(env, env), num_env_steps=1000) for env in envs
        },
        references={env: Reference(score=10.0, source="a proof") for env in envs},
        run=types.SimpleNamespace(threads=1),
        tree={
            "algorithms": {algo: {"batch_size": 8} for algo in algos},
            "overrides": {algo: {env: {} for env in envs} for algo in algos},
        },
        config=lambda cell: CONFIGS[cell.algo](batch_size=8),
        analysis=types.SimpleNamespace(
            interval=interval,
            confidence=confidence,
            threshold=0.5,
            bootstrap_samples=bootstrap_samples,
            bootstrap_seed=0,
        ),
        figures=types.SimpleNamespace(
            dpi=100,
            algorithm_names={"gmz": "Gumbel MuZero", "smz": "Stochastic MuZero"},
            colours={"gmz": "#0072B2"},
        ),
    )


def write_cell(
    root: Path,
    cell: Cell,
    *,
    returns: Sequence[float] = (1.0, 3.0),
    curve: Sequence[tuple[int, int, float]] = ((0, 0, 0.0), (10, 1000, 2.0)),
    machine_class: str = "x86_64 Maker family 1",
) -> CellFiles:
    """Writes the small files of one finished cell, and what is measured of its environment."""
    files = CellFiles(cell, root)
    files.directory.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{step},{env_steps},{score!r}\n" for step, env_steps, score in curve)
    files.curve.write_text("step,env_steps,score\n" + rows)
    step, env_steps, score = max(curve, key=lambda row: row[2])
    train = {
        "algorithm": cell.algo,
        "environment": IDS.get(cell.env, cell.env),
        "seed": cell.seed,
        "num_learner_steps": curve[-1][0],
        "num_env_steps": curve[-1][1],
        "num_parameters": 1234,
        "best": {"step": step, "env_steps": env_steps, "score": score},
        "machine_class": machine_class,
        "config": {},
    }
    files.train.write_text(json.dumps(train) + "\n")
    rows = "".join(f"{i},{100 + i},{value!r},7\n" for i, value in enumerate(returns))
    files.evaluation_csv.write_text("episode,seed,return,length\n" + rows)
    mean = sum(returns) / len(returns)
    evaluation = {
        "episodes": len(returns),
        "mean": mean,
        "std": statistics.stdev(returns) if len(returns) > 1 else 0.0,
        "min": min(returns),
        "max": max(returns),
    }
    files.evaluation_json.write_text(json.dumps(evaluation) + "\n")
    files.last_csv.write_bytes(files.evaluation_csv.read_bytes())
    files.last_json.write_bytes(files.evaluation_json.read_bytes())
    rows = "".join(f"{n},2,{mean + n!r},1.0,7.0\n" for n in (0, 4))
    files.search_csv.write_text("simulations,episodes,mean,std,mean_length\n" + rows)
    chance = {"transitions": 9, "code_perplexity": 3.5, "codes_used": 4.0, "chance_perplexity": 2.5}
    files.search_json.write_text(json.dumps(chance if cell.algo == "smz" else {}) + "\n")
    random = EnvironmentFiles(cell.env, root).random
    random.parent.mkdir(parents=True, exist_ok=True)
    random.write_text(json.dumps({"environment": IDS.get(cell.env, cell.env), "mean": 0.0}) + "\n")
    return files


def bytes_below(directory: Path) -> dict[str, bytes]:
    """Relative path -> content of every file below a folder."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


# What a user's machine may differ in.
_MACHINES = (
    {"PYTHONHASHSEED": "1", "TZ": "UTC", "LANG": "C", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "2", "TZ": "Asia/Tokyo", "LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8"},
)
_MATPLOTLIBRC = "font.family: serif\naxes.facecolor: pink\nsavefig.dpi: 30\npdf.fonttype: 3\n"

_CODE = """
import sys
from pathlib import Path
from mujax_pipe import analysis
from tests.unit.finished_cells import make_params, write_cell

params, root = make_params(algos=["gmz", "smz"]), Path(sys.argv[1])
for cell in params.cells("all"):
    noise = 0.1 * cell.seed
    curve = [(k, 500 * k, 10.0 * k + noise) for k in range(6)]
    write_cell(root, cell, returns=[1 / 3 + noise, 2.0], curve=curve)
analysis.aggregate(params, "all", root)
if sys.argv[2] == "figures":
    analysis.plot(params, "all", root)
"""


def run_elsewhere(directory: Path, number: int, what: str) -> dict[str, bytes]:
    """Aggregates (and plots, for `figures`) in a process and home of its own; returns its files.

    The second of two such homes has a matplotlibrc that changes what it can.
    """
    home, root = directory / f"home-{number}", directory / f"root-{number}"
    config = home / ".config" / "matplotlib"
    config.mkdir(parents=True)
    if number:
        (config / "matplotlibrc").write_text(_MATPLOTLIBRC)
    keep = {key: os.environ[key] for key in ("PATH", "SYSTEMROOT") if key in os.environ}
    project = str(Path(__file__).parents[2])
    environment = {**keep, **_MACHINES[number], "HOME": str(home), "PYTHONPATH": project}
    subprocess.run(
        [sys.executable, "-c", _CODE, str(root), what], env=environment, check=True, cwd=home
    )
    files = bytes_below(root / "results")
    return {
        name: content
        for name, content in files.items()
        if not name.startswith(("cells/", "environments/"))
    }
