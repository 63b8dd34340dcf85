"""Every setting with its source."""

from __future__ import annotations

import re
from pathlib import Path

from mujax_pipe.analysis.hyperparameters import by_setting, hyperparameters
from mujax_pipe.config import CONFIGS
from mujax_pipe.params import load_params
from mujax_pipe.settings import setting_fields

ROOT = Path(__file__).parents[2]
PARAMS = load_params(ROOT / "params.yaml")
TABLE = hyperparameters(PARAMS, "all")


def test_every_setting_of_every_algorithm_and_environment_is_there() -> None:
    for algo in PARAMS.grid.algo:
        for env in PARAMS.grid.env:
            mine = TABLE[(TABLE["algo"] == algo) & (TABLE["env"] == env)]
            assert list(mine["setting"]) == list(setting_fields(CONFIGS[algo]))


def test_the_source_is_where_the_value_comes_from() -> None:
    for row in TABLE.itertuples():
        written = {
            **PARAMS.tree["algorithms"][row.algo],
            **PARAMS.tree["overrides"][row.algo][row.env],
        }
        assert (row.source == "tuned") == (row.setting in written), row
        assert re.fullmatch(r"tuned|derived|default|paper [A-Z]", row.source)
        if row.source in ("default",) or row.source.startswith("paper"):
            assert row.value == row.default
    learner_steps = TABLE[TABLE["setting"] == "num_learner_steps"]
    assert set(learner_steps["source"]) == {"derived"}


def test_where_environments_differ_they_are_named() -> None:
    names = {"gmz": "GMZ", "smz": "SMZ"}
    titles = {env: PARAMS.environments[env].id for env in PARAMS.grid.env}
    shown = by_setting(TABLE, names, titles).set_index("Setting")
    ratio = shown.loc["replay_ratio", "GMZ"]
    values = {PARAMS.config(cell).replay_ratio for cell in PARAMS.cells() if cell.algo == "gmz"}
    assert all(f"{value:g}" in ratio for value in values)
    assert shown.loc["replay_ratio", "GMZ: source"] == "tuned"
    # What only one algorithm has is a dash for the other.
    assert "-" in set(shown["GMZ"]) | set(shown["SMZ"])
