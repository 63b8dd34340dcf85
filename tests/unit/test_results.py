"""Finished cells become frames, or one line that says which file to make again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from mujax_pipe.analysis import results, tables
from mujax_pipe.errors import UserError
from mujax_pipe.layout import Cell, CellFiles
from tests.unit.finished_cells import make_params, write_cell

CELL = Cell(algo="gmz", env="cartpole", seed=0)
ONE = make_params(envs=["cartpole"], seeds=[0], demo_seeds=[0])


def message(root: Path, params=ONE) -> str:
    with pytest.raises(UserError) as error:
        results.read_cells(params, "all", root)
    text = str(error.value)
    assert "\n" not in text
    return text


def test_cells_become_tidy_frames(tmp_path: Path) -> None:
    params = make_params(seeds=[3, 1])
    for cell in params.cells("all"):
        write_cell(
            tmp_path,
            cell,
            returns=[1.0, 2.0, 6.0],
            curve=[(0, 0, 1.5), (5, 400, 9.5), (10, 800, float(cell.seed))],
        )
    read = results.read_cells(params, "all", tmp_path)
    labels = read.scores[["algo", "env", "seed"]].to_numpy().tolist()
    assert labels == [["gmz", e, s] for e in ("cartpole", "blackjack") for s in (3, 1)]
    row = read.scores.iloc[0].to_dict()
    assert (row["episodes"], row["mean"], row["min"], row["max"]) == (3, 3.0, 1.0, 6.0)
    assert row["std"] == pytest.approx(7**0.5)
    assert (row["best_step"], row["best_env_steps"], row["best_score"]) == (5, 400, 9.5)
    assert (row["learner_steps"], row["env_steps"], row["parameters"]) == (10, 800, 1234)
    assert list(read.curves) == ["algo", "env", "seed", "step", "env_steps", "score"]
    assert read.curves.iloc[5].tolist() == ["gmz", "cartpole", 1, 10, 800, 1.0]


def test_a_grid_reads_its_own_cells_only(tmp_path: Path) -> None:
    params = make_params(seeds=[0, 1], demo_seeds=[1])
    for cell in params.cells("demo"):
        write_cell(tmp_path, cell)
    assert results.read_cells(params, "demo", tmp_path).scores["seed"].tolist() == [1, 1]
    everything = results.read_cells(params, "all", tmp_path)
    assert everything.scores["seed"].tolist() == [1, 1]
    assert [fault.split("; ")[0] for fault in everything.faults] == [
        f"{CellFiles(cell, tmp_path).curve} is missing"
        for cell in params.cells("all")
        if cell.seed == 0
    ]


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("curve.csv", "train"),
        ("train.json", "train"),
        ("evaluation.csv", "evaluate"),
        ("evaluation.json", "evaluate"),
        ("evaluation_last.csv", "evaluate"),
        ("search.csv", "search"),
        ("search.json", "search"),
    ],
)
def test_a_missing_file_names_the_command_that_makes_it(
    tmp_path: Path, name: str, verb: str
) -> None:
    files = write_cell(tmp_path, CELL)
    (files.directory / name).unlink()
    assert message(tmp_path) == (
        f"{files.directory / name} is missing; make it with: mujax-pipe cell {verb} gmz cartpole 0"
    )


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("curve.csv", "step,env_steps,score\n0,0,1.0\n10,800,48", "cut off"),
        ("curve.csv", "step,env_steps,score\n0,0,1.0\n10,800\n", "line 3 has no finite number"),
        ("curve.csv", "step,env_steps,score\n0,0,nan\n", "line 2 has no finite number"),
        ("curve.csv", "step,env_steps,score\n0,0,inf\n", "line 2 has no finite number"),
        ("curve.csv", "step,env_steps,score\n0,0,good\n", "it cannot be read"),
        ("curve.csv", "step,env_steps,score\n0.5,0,1.0\n", "it cannot be read"),
        ("curve.csv", "step,env_steps,score\n0,0,1.0,7\n", "it cannot be read"),
        ("curve.csv", "step,env_steps,score\n0,0,1.0\n0,800,2.0\n", "'step' does not increase"),
        ("curve.csv", "step,env_steps,score\n0,9,1.0\n1,8,2.0\n", "'env_steps' decreases"),
        ("curve.csv", "step,env_steps,score\n", "it has no rows"),
        ("curve.csv", "", "its columns are ''"),
        ("curve.csv", "step,score\n0,1.0\n", "its columns are 'step,score'"),
        ("evaluation.csv", "episode,seed,return,length\n0,1,1.0,7\n0,2,3.0,7\n", "twice"),
        ("train.json", "{", "it is not JSON"),
        ("train.json", "[]", "no JSON object"),
        ("evaluation.json", '{"episodes": 2, "mean": "2"}', "mean is '2', not a finite number"),
        ("evaluation.json", '{"episodes": true}', "episodes is True, not a whole number"),
    ],
)
def test_a_malformed_file_is_named(tmp_path: Path, name: str, content: str, part: str) -> None:
    files = write_cell(tmp_path, CELL)
    (files.directory / name).write_text(content)
    text = message(tmp_path)
    assert text.startswith(f"{files.directory / name}: ")
    assert part in text
    assert "make it again with: mujax-pipe cell " in text


@pytest.mark.parametrize(
    ("key", "value", "part"),
    [
        ("algorithm", "smz", "algorithm is 'smz', not 'gmz'"),
        ("environment", "CartPole-v0", "environment is 'CartPole-v0', not 'CartPole-v1'"),
        ("seed", 1, "seed is 1, not 0"),
        ("best", None, "it has no 'best'"),
        ("num_env_steps", 1.5, "num_env_steps is 1.5, not a whole number"),
    ],
)
def test_a_train_file_of_another_cell_is_refused(
    tmp_path: Path, key: str, value: object, part: str
) -> None:
    files = write_cell(tmp_path, CELL)
    files.train.write_text(json.dumps({**json.loads(files.train.read_text()), key: value}))
    assert part in message(tmp_path)


@pytest.mark.parametrize("key", ["episodes", "mean", "std", "min", "max"])
def test_a_summary_at_odds_with_its_episodes_is_refused(tmp_path: Path, key: str) -> None:
    files = write_cell(tmp_path, CELL, returns=[100.0, 104.0])
    told = json.loads(files.evaluation_json.read_text())
    files.evaluation_json.write_text(json.dumps({**told, key: told[key] + 1}))
    assert f"{key} is " in message(tmp_path)
    assert "but the episodes of evaluation.csv give" in message(tmp_path)


def test_a_rounded_summary_is_accepted(tmp_path: Path) -> None:
    files = write_cell(tmp_path, CELL, returns=[1.0, 1.0, 2.0])
    told = json.loads(files.evaluation_json.read_text())
    rounded = {key: round(value, 6) for key, value in told.items()}
    files.evaluation_json.write_text(json.dumps(rounded))
    assert results.read_cells(ONE, "all", tmp_path).scores["mean"].tolist() == [4 / 3]


def test_tables_read_back_what_was_written(tmp_path: Path) -> None:
    for cell in ONE.cells("all"):
        write_cell(tmp_path, cell)
    tables.aggregate(ONE, "all", tmp_path)
    cells, back = results.read_cells(ONE, "all", tmp_path), results.read_tables("all", tmp_path)
    pd.testing.assert_frame_equal(back.curves, cells.curves, rtol=1e-5)
    pd.testing.assert_frame_equal(back.scores, cells.scores, rtol=1e-5)


def test_a_missing_table_names_the_command_of_its_grid(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is missing; make it with: mujax-pipe aggregate$"):
        results.read_tables("all", tmp_path)
    with pytest.raises(UserError, match=r"with: mujax-pipe aggregate --grid demo$"):
        results.read_tables("demo", tmp_path)


def test_the_package_is_quick_to_import() -> None:
    heavy = ["arch", "jax", "matplotlib", "numpy", "pandas", "rliable", "scipy", "seaborn"]
    code = f"import sys, mujax_pipe.analysis; print([m for m in {heavy} if m in sys.modules])"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_a_folder_in_place_of_a_file_is_no_traceback(tmp_path: Path) -> None:
    files = CellFiles(CELL, tmp_path)
    files.curve.mkdir(parents=True)
    assert "curve.csv cannot be read" in message(tmp_path)
