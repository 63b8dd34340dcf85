"""What a cluster is asked for, against what published cells took on this kind of core."""

import dataclasses
from pathlib import Path

import pytest

from mujax_pipe.budget import train_minutes
from mujax_pipe.config import CONFIGS, GMZConfig
from mujax_pipe.params import load_params

PARAMS = load_params(Path(__file__).parents[2] / "params.yaml")
# Seconds of the slowest seed of the published grid, two cells side by side.
TOOK = {
    ("gmz", "cartpole"): 191.0,
    ("gmz", "blackjack"): 141.0,
    ("smz", "cartpole"): 522.0,
    ("smz", "blackjack"): 278.0,
}


@pytest.mark.parametrize(("algo", "env"), TOOK)
def test_published_cells_stay_well_below(algo, env):
    cell = next(c for c in PARAMS.cells() if (c.algo, c.env) == (algo, env))
    seconds = 60.0 * train_minutes(PARAMS.config(cell))
    assert 3.0 * TOOK[algo, env] < seconds < 10.0 * TOOK[algo, env]


@pytest.mark.parametrize(
    "change",
    [
        {"num_learner_steps": 10_000_000},
        {"num_simulations": 256},
        {"batch_size": 4096},
        {"unroll_steps": 50},
        {"reanalyze_ratio": 1.0},
    ],
    ids=lambda change: next(iter(change)),
)
def test_more_work_is_given_more_time(change):
    config = GMZConfig(num_learner_steps=100_000)
    assert train_minutes(dataclasses.replace(config, **change)) > train_minutes(config)


@pytest.mark.parametrize("algo", CONFIGS)
def test_larger_networks_are_given_more_time(algo):
    config = CONFIGS[algo](num_learner_steps=100_000)
    minutes = [train_minutes(config.with_size(size)) for size in ("XS", "S", "M", "L", "XL")]
    assert minutes == sorted(set(minutes))
