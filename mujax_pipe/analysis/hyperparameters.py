"""Every setting of every cell, and where its value comes from."""

from __future__ import annotations

import re
import typing

import pandas as pd

from mujax_pipe.config import CONFIGS
from mujax_pipe.settings import setting_fields

if typing.TYPE_CHECKING:
    from mujax_pipe.params import Params

# Tags of papers in the help of a setting, as config.py has them.
_PAPER = re.compile(r"\[([A-Z])")


def hyperparameters(params: Params, grid: str) -> pd.DataFrame:
    """Returns columns algo, env, setting, value, default, source; a row for each.

    The source of a value is `tuned` (it stands in params.yaml: for the algorithm, or for it in this
    environment), `derived` (from others, as layers are from `size`), `paper X` (the default is that
    of a paper, by the letter that config.py gives it) or `default`.
    """
    rows = []
    pairs = dict.fromkeys((cell.algo, cell.env) for cell in params.cells(grid))
    for algo, env in pairs:
        cell = next(c for c in params.cells(grid) if (c.algo, c.env) == (algo, env))
        config, default = params.config(cell), CONFIGS[algo]()
        tuned = {*params.tree["algorithms"][algo], *params.tree["overrides"][algo][env]}
        for name, field in setting_fields(CONFIGS[algo]).items():
            value, usual = getattr(config, name), getattr(default, name)
            paper = _PAPER.search(field.metadata["help"])
            if name in tuned:
                source = "tuned"
            elif value != usual:
                source = "derived"
            else:
                source = f"paper {paper[1]}" if paper else "default"
            rows.append((algo, env, name, _text(value), _text(usual), source))
    columns = ["algo", "env", "setting", "value", "default", "source"]
    return pd.DataFrame(rows, columns=columns)


def by_setting(table: pd.DataFrame, names: dict[str, str], titles: dict[str, str]) -> pd.DataFrame:
    """Returns a row a setting and a column an algorithm, for a reader.

    Where environments differ, the commonest value stands first and the others with their names.
    """
    rows = []
    for setting in dict.fromkeys(table["setting"]):
        row = {"Setting": setting}
        for algo, name in names.items():
            mine = table[(table["setting"] == setting) & (table["algo"] == algo)]
            if mine.empty:
                row[name], row[f"{name}: source"] = "-", "-"
                continue
            (usual, *_) = mine["value"].value_counts(sort=True).index
            others = mine[mine["value"] != usual]
            more = [f"{titles[r.env]}: {r.value}" for r in others.itertuples()]
            row[name] = f"{usual} ({', '.join(more)})" if more else usual
            row[f"{name}: source"] = ", ".join(dict.fromkeys(mine["source"]))
        rows.append(row)
    return pd.DataFrame(rows)


def _text(value: object) -> str:
    if isinstance(value, tuple | list):
        return " ".join(map(_text, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
