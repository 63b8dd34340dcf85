"""A change runs again what it touches and no more: the same jobs in both engines."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any

import pytest

from mujax_pipe.params import load_params

# Two algorithms in two environments, a few learner steps each.
PARAMS = """\
grid: {algo: [gmz, smz], env: [cartpole, blackjack], seed: [0]}
demo: {algo: [gmz], env: [cartpole], seed: [0]}
run: {evaluations: 2, threads: 1}
algorithms:
  gmz: {size: XS, batch_size: 8, num_envs: 2, num_simulations: 2, min_replay_size: 50}
  smz: {size: XS, batch_size: 8, num_envs: 2, num_simulations: 2, min_replay_size: 50}
environments:
  cartpole: {id: CartPole-v1, wrappers: [], num_env_steps: 100, selection_episodes: 2}
  blackjack: {id: Blackjack-v1, wrappers: [flatten], num_env_steps: 100, selection_episodes: 2}
overrides:
  gmz: {cartpole: {}, blackjack: {discount: 0.9}}
  smz: {cartpole: {}, blackjack: {}}
evaluation:
  cartpole: {episodes: 4}
  blackjack: {episodes: 4}
search: {simulations: [0, 2], episodes: {cartpole: 2, blackjack: 2}}
references:
  cartpole: {score: 500.0, source: limit}
  blackjack: {score: -0.05, source: optimum}
analysis: {interval: t, confidence: 0.95, threshold: 0.9, bootstrap_samples: 20, bootstrap_seed: 0}
figures:
  dpi: 40
  algorithm_names: {gmz: Gumbel MuZero, smz: Stochastic MuZero}
  colours: {gmz: "#0072B2", smz: "#E69F00"}
"""

# Prints, for each stage, those that follow from it; a process of its own, as DVC changes globals.
FOLLOWERS = """
import json
import os
import networkx
from dvc.repo import Repo
graph = Repo('.').index.graph
print(json.dumps({
    stage.name: sorted(other.name for other in networkx.ancestors(graph, stage))
    for stage in graph if hasattr(stage, 'name')
}))
"""

CELLS = ("gmz-cartpole-0", "gmz-blackjack-0", "smz-cartpole-0", "smz-blackjack-0")
ANALYSIS = ("aggregate", "plot")


EVERY = ("train", "evaluate", "search")


def jobs(
    *cells: str,
    verbs: tuple[str, ...] = EVERY,
    random: tuple[str, ...] = (),
    analysis: tuple[str, ...] = ANALYSIS,
) -> set[str]:
    """Names jobs of cells, of the random policy in environments, and of the analysis."""
    return {
        *(f"{verb}@{cell}" for verb in verbs for cell in cells),
        *(f"random@{env}" for env in random),
        *analysis,
    }


# What is changed: a file, what it has, what it gets instead. And what must run again.
PARAMS_FILE = "params.yaml"
CHANGES: dict[str, tuple[str, str, str, set[str]]] = {
    "a key of one algorithm": (
        PARAMS_FILE,
        "gmz: {size: XS, batch_size: 8",
        "gmz: {size: XS, batch_size: 16",
        jobs("gmz-cartpole-0", "gmz-blackjack-0"),
    ),
    "a key of one environment": (
        PARAMS_FILE,
        "wrappers: [], num_env_steps: 100",
        "wrappers: [], num_env_steps: 120",
        jobs("gmz-cartpole-0", "smz-cartpole-0", random=("cartpole",)),
    ),
    "an override of one algorithm in one environment": (
        PARAMS_FILE,
        "discount: 0.9",
        "discount: 0.8",
        jobs("gmz-blackjack-0"),
    ),
    "a setting of all runs": (PARAMS_FILE, "evaluations: 2", "evaluations: 3", jobs(*CELLS)),
    "episodes of the final evaluation": (
        PARAMS_FILE,
        "blackjack: {episodes: 4}",
        "blackjack: {episodes: 5}",
        jobs("gmz-blackjack-0", "smz-blackjack-0", verbs=("evaluate",), random=("blackjack",)),
    ),
    "a search budget": (
        PARAMS_FILE,
        "simulations: [0, 2]",
        "simulations: [0, 4]",
        jobs(*CELLS, verbs=("search",)),
    ),
    "episodes of a search budget": (
        PARAMS_FILE,
        "episodes: {cartpole: 2",
        "episodes: {cartpole: 3",
        jobs("gmz-cartpole-0", "smz-cartpole-0", verbs=("search",)),
    ),
    "a reference": (PARAMS_FILE, "score: 500.0", "score: 400.0", jobs()),
    "a setting of the statistics": (PARAMS_FILE, "confidence: 0.95", "confidence: 0.9", jobs()),
    "a setting of the figures": (PARAMS_FILE, "dpi: 40", "dpi: 41", jobs(analysis=("plot",))),
    "a colour": (PARAMS_FILE, "#E69F00", "#009E73", jobs(analysis=("plot",))),
    "a comment in params.yaml": (PARAMS_FILE, "demo: ", "# A comment.\ndemo: ", set()),
    "another seed": (
        PARAMS_FILE,
        "seed: [0]}\ndemo",
        "seed: [0, 1]}\ndemo",
        jobs(*(cell.replace("-0", "-1") for cell in CELLS)),
    ),
    "an environment less": (
        PARAMS_FILE,
        "env: [cartpole, blackjack]",
        "env: [cartpole]",
        jobs(),
    ),
    "a comment in the trainer": (
        "mujax_pipe/training/learner.py",
        "import jax\n",
        "import jax  # The library.\n",
        set(),
    ),
    "a comment in the analysis": (
        "mujax_pipe/analysis/statistics.py",
        "import numpy as np\n",
        "import numpy as np  # The library.\n",
        jobs(),
    ),
    "a change in the trainer": (
        "mujax_pipe/training/learner.py",
        "state.step + 1",
        "1 + state.step",
        jobs(*CELLS, random=("cartpole", "blackjack")),
    ),
    "a comment in what measures search": (
        "mujax_pipe/training/search_budget.py",
        "import jax\n",
        "import jax  # The library.\n",
        jobs(*CELLS, verbs=("search",)),
    ),
}


# Each takes ten seconds; of changes that take the same way, one is among the quick tests.
SLOW = {
    "a setting of all runs",
    "episodes of a search budget",
    "a setting of the statistics",
    "a colour",
    "an environment less",
    "a comment in the trainer",
    "a comment in what measures search",
}


@pytest.fixture(scope="module")
def finished(new_project: Callable[[], Any]) -> Any:
    """A grid that Snakemake has run and DVC knows of."""
    project = new_project()
    (project.root / PARAMS_FILE).write_text(PARAMS)
    project.run("mujax-pipe", "stages", "--write")
    project.run("snakemake", "--cores", "2", "all")
    project.run("mujax-pipe", "sync")
    return project


def by_snakemake(project: Any) -> set[str]:
    """Returns the jobs that Snakemake would run, by the names that DVC gives them."""
    printed = project.run("snakemake", "-n", "--printshellcmds", "all").stdout
    cells = re.findall(r"mujax-pipe cell (\w+) (\w+) (\w+) (\d+) ", printed)
    random = re.findall(r"mujax-pipe random (\w+) ", printed)
    rest = re.findall(r"mujax-pipe (aggregate|plot) --grid all ", printed)
    return {
        *(f"{verb}@{algo}-{env}-{seed}" for verb, algo, env, seed in cells),
        *(f"random@{env}" for env in random),
        *rest,
    }


def by_dvc(project: Any) -> set[str]:
    """Returns the stages that DVC finds changed, and all that follow from them."""
    changed = json.loads(project.run("dvc", "status", "--json").stdout or "{}")
    followers = json.loads(project.run("python", "-c", FOLLOWERS).stdout)
    found = set(changed).union(*(followers[stage] for stage in changed))
    return {stage for stage in found if not stage.endswith("-demo")}


def test_a_finished_grid_has_nothing_to_run(finished: Any) -> None:
    assert len(load_params(finished.root / PARAMS_FILE).cells()) == len(CELLS)
    assert by_snakemake(finished) == set()
    status = json.loads(finished.run("dvc", "status", "--json").stdout or "{}")
    assert {stage for stage in status if not stage.endswith("-demo")} == set()


@pytest.mark.parametrize(
    "change",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in CHANGES],
)
def test_a_change_runs_the_same_jobs_in_both_engines(finished: Any, change: str) -> None:
    name, old, new, expected = CHANGES[change]
    path = finished.root / name
    fingerprint = finished.root / "fingerprint.json"
    kept = {file: (file.read_text(), file.stat()) for file in (path, fingerprint)}
    text = path.read_text()
    assert text.count(old) == 1
    try:
        path.write_text(text.replace(old, new))
        before = fingerprint.read_text()
        finished.run("mujax-pipe", "fingerprint", "--write")
        assert (fingerprint.read_text() != before) == (change == "a change in the trainer")
        assert by_snakemake(finished) == expected
        assert by_dvc(finished) == expected
    finally:
        for file, (text, stat) in kept.items():
            file.write_text(text)
            os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
