"""What cells cost: by hand, and as files."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from mujax_pipe import analysis
from mujax_pipe.analysis import spent
from mujax_pipe.errors import UserError
from tests.unit.finished_cells import make_params, write_cell

PARAMS = make_params(algos=["gmz", "smz"], envs=["cartpole"], seeds=[0, 1])


def test_core_seconds_until_learned_by_hand() -> None:
    rows = [
        # Reaches 5 after 30 of 100 seconds, and after 20 of 40.
        *(("gmz", 0, seconds, score, 100.0) for seconds, score in ((0, 1), (30, 5), (100, 4))),
        *(("gmz", 1, seconds, score, 40.0) for seconds, score in ((0, 1), (20, 9), (40, 9))),
        *(("smz", 0, seconds, score, 70.0) for seconds, score in ((0, 1), (70, 2))),
    ]
    columns = ["algo", "seed", "seconds", "score", "total"]
    curves = pd.DataFrame(rows, columns=columns).assign(env="cartpole", megabytes=900.0)
    gmz, smz = spent.compute(curves, {"cartpole": 5.0}).to_dict("records")
    assert (gmz["seeds"], gmz["seconds"], gmz["total"], gmz["reached"]) == (2, 70.0, 140.0, 2)
    assert gmz["seconds_to_level"] == 25.0
    assert smz["reached"] == 0
    assert np.isnan(smz["seconds_to_level"])


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    for cell in PARAMS.cells("all"):
        files = write_cell(tmp_path, cell, curve=[(0, 0, 1.0), (5, 500, 2.0), (10, 900, 9.0)])
        files.logs.mkdir(parents=True)
        # Two cores for half the time.
        seconds = (100.0 + cell.seed) / 2
        record = {"seconds": seconds, "peak_memory_mb": 900.0, "xla_threads": 2}
        files.machine.write_text(json.dumps(record))
    analysis.aggregate(PARAMS, "all", tmp_path)
    return tmp_path


def test_everything_goes_to_the_logs(finished: Path) -> None:
    before = {path: path.read_bytes() for path in (finished / "results").rglob("*.*")}
    console = Console(width=160, record=True, file=io.StringIO())
    spent.cost(PARAMS, "all", finished, console)
    made = {path.name for path in (finished / "logs/all/cost").iterdir()}
    assert made == {
        *(f"compute.{suffix}" for suffix in ("csv", "md", "tex")),
        *(f"learning_curves_seconds.{suffix}" for suffix in ("csv", "pdf", "svg", "png")),
    }
    assert {path: path.read_bytes() for path in (finished / "results").rglob("*.*")} == before
    text = " ".join(console.export_text().split())
    assert "CartPole-v1 Gumbel MuZero 2 100 201 900 2 of 2 100" in text
    bands = pd.read_csv(finished / "logs/all/cost/learning_curves_seconds.csv")
    gmz = bands[bands["algo"] == "gmz"]
    assert gmz["seconds"].tolist() == [0.0, 50.25, 100.5]
    assert gmz["iqm"].tolist() == [1.0, 2.0, 9.0]


def test_without_records_there_is_nothing_to_tell(finished: Path) -> None:
    for path in finished.rglob("machine.json"):
        path.unlink()
    with pytest.raises(UserError, match="no cell of 'all' has a record of its seconds"):
        spent.cost(PARAMS, "all", finished)
