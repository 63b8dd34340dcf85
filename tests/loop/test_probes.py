"""What is measured of a trained cell beside its score: search budgets, chance, a random policy."""

from __future__ import annotations

import dataclasses
import json
import shutil
import types
from pathlib import Path

import jax
import numpy as np
import pytest

from mujax_pipe.agents import ALGORITHMS
from mujax_pipe.config import CONFIGS
from mujax_pipe.layout import Cell, CellFiles, EnvironmentFiles
from mujax_pipe.training.anchors import measure_random
from mujax_pipe.training.cells import evaluate_cell
from mujax_pipe.training.checkpoint import load_metadata, save_best
from mujax_pipe.training.envs import environment_factory, make_environment_spec
from mujax_pipe.training.evaluation import Evaluator
from mujax_pipe.training.inference import load_policy
from mujax_pipe.training.keys import Episodes
from mujax_pipe.training.search_budget import Prior, search_cell, with_budget

PROJECT = types.SimpleNamespace(
    environments={
        "cartpole": types.SimpleNamespace(id="CartPole-v1", wrappers=()),
        "blackjack": types.SimpleNamespace(id="Blackjack-v1", wrappers=("flatten",)),
    },
    evaluation={
        "cartpole": types.SimpleNamespace(episodes=200),
        "blackjack": types.SimpleNamespace(episodes=4000),
    },
    search=types.SimpleNamespace(simulations=(0, 4), episodes={"cartpole": 8, "blackjack": 16}),
)


def untrained(root: Path, cell: Cell) -> CellFiles:
    """Writes a best checkpoint of random weights, and another last one."""
    files, environment = CellFiles(cell, root), PROJECT.environments[cell.env]
    made = environment_factory(environment.id, environment.wrappers)(0)
    spec = make_environment_spec(made)
    made.close()
    config = CONFIGS[cell.algo](num_simulations=4).with_size("XS")
    metadata = {
        "algorithm": cell.algo,
        "config": dataclasses.asdict(config),
        "environment_spec": spec._asdict(),
        "step": 0,
    }
    algorithm = ALGORITHMS[cell.algo](config, spec)
    for key, checkpoint in enumerate(files.checkpoints):
        content = {**metadata, "step": key}
        params = algorithm.init(jax.random.key(key))
        # Fresh heads are zero, and then every network plays alike.
        rng = np.random.default_rng(key)
        leaves, tree = jax.tree.flatten(params)
        leaves = [np.asarray(x + rng.normal(size=x.shape), np.float32) for x in leaves]
        save_best(checkpoint, tree.unflatten(leaves), content)
    return files


def final_returns(checkpoint: Path, env: str, episodes: int) -> np.ndarray:
    """Returns what the policy of a checkpoint makes of the final episodes."""
    policy, environment = load_policy(checkpoint), PROJECT.environments[env]
    evaluator = Evaluator(
        policy.algorithm,
        environment_factory(environment.id, environment.wrappers),
        Episodes.FINAL,
        episodes,
    )
    played = evaluator.play(policy.params, np.int32(policy.metadata["step"]))
    evaluator.close()
    return played.episode_return


def test_both_checkpoints_are_evaluated_on_the_same_episodes(tmp_path: Path) -> None:
    cell = Cell(algo="gmz", env="cartpole", seed=0)
    files = untrained(tmp_path, cell)
    evaluate_cell(PROJECT, cell, tmp_path)
    tables = {}
    for checkpoint, table, summary in (
        (files.best, files.evaluation_csv, files.evaluation_json),
        (files.last, files.last_csv, files.last_json),
    ):
        header, *rows = (line.split(",") for line in table.read_text().splitlines())
        assert header == ["episode", "seed", "return", "length"]
        tables[checkpoint.name] = rows
        returns = final_returns(checkpoint, "cartpole", len(rows))
        assert [float(row[2]) for row in rows] == returns.tolist()
        found = json.loads(summary.read_text())
        assert found["mean"] == returns.mean()
        assert found["checkpoint_step"] == load_metadata(checkpoint)["step"]
    assert [row[1] for row in tables["best"]] == [row[1] for row in tables["last"]]
    assert tables["best"] != tables["last"]


def test_one_checkpoint_that_is_both_is_played_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell(algo="gmz", env="cartpole", seed=0)
    files = untrained(tmp_path, cell)
    shutil.rmtree(files.last)
    shutil.copytree(files.best, files.last)
    played, play = [], Evaluator.play
    monkeypatch.setattr(
        Evaluator, "play", lambda self, *given: played.append(1) or play(self, *given)
    )
    evaluate_cell(PROJECT, cell, tmp_path)
    assert len(played) == 1
    assert files.last_csv.read_bytes() == files.evaluation_csv.read_bytes()


@pytest.mark.parametrize(("algo", "env"), [("gmz", "cartpole"), ("smz", "blackjack")])
def test_a_budget_is_the_final_evaluation_with_so_many_simulations(
    tmp_path: Path, algo: str, env: str
) -> None:
    cell = Cell(algo=algo, env=env, seed=0)
    files = untrained(tmp_path, cell)
    search_cell(PROJECT, cell, tmp_path)
    header, *rows = files.search_csv.read_text().splitlines()
    assert header == "simulations,episodes,mean,std,mean_length"
    assert [row.split(",")[0] for row in rows] == ["0", "4"]
    returns = final_returns(files.best, env, PROJECT.search.episodes[env])
    assert float(rows[1].split(",")[2]) == returns.mean()


def test_chance_is_measured_where_there_is_some(tmp_path: Path) -> None:
    found = {}
    for algo in ("gmz", "smz"):
        cell = Cell(algo=algo, env="blackjack", seed=0)
        files = untrained(tmp_path, cell)
        search_cell(PROJECT, cell, tmp_path)
        found[algo] = json.loads(files.search_json.read_text())
    assert found["gmz"] == {}
    codes = CONFIGS["smz"]().num_codes
    # Of 64 environments and steps: no episode is cut so early.
    assert found["smz"]["transitions"] == 64 * 64
    for name in ("code_perplexity", "codes_used", "chance_perplexity"):
        assert 1 <= found["smz"][name] <= codes + 1e-4


def test_no_search_takes_the_likeliest_legal_action(tmp_path: Path) -> None:
    files = untrained(tmp_path, Cell(algo="gmz", env="cartpole", seed=0))
    policy = load_policy(files.best)
    prior = with_budget(policy.algorithm, 0)
    assert isinstance(prior, Prior)
    observation = np.zeros((2, 4), np.float32)
    invalid = np.array([[False, False], [False, False]])
    key = jax.random.key(0)
    args = (policy.params, key, observation)
    free = prior.search(*args, invalid, np.int32(0), explore=False)
    best = int(free.action[0])
    assert free.policy_probs[0, best] == free.policy_probs[0].max()
    invalid[:, best] = True
    other = prior.search(*args, invalid, np.int32(0), explore=False)
    assert other.action.tolist() == [1 - best] * 2
    assert other.policy_probs[0, best] == 0.0


def test_random_returns_are_those_known(tmp_path: Path) -> None:
    """CartPole-v1 about 22 and Blackjack-v1 about -0.39, the same at every call."""
    for env, expected, error in (("cartpole", 22.3, 2.5), ("blackjack", -0.394, 0.05)):
        measure_random(PROJECT, env, tmp_path)
        path = EnvironmentFiles(env, tmp_path).random
        first = path.read_bytes()
        found = json.loads(first)
        assert found["mean"] == pytest.approx(expected, abs=error)
        assert found["episodes"] == PROJECT.evaluation[env].episodes
        measure_random(PROJECT, env, tmp_path)
        assert path.read_bytes() == first
