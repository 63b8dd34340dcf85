"""`params.yaml` as typed, frozen, strictly validated values. No JAX here, and no effects.

Both engines and every command read the file through `load_params`, so a mistake in it is found
before anything runs, and means the same to all of them.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mujax_pipe import layout, resolve, sections, strict_yaml
from mujax_pipe.config import CONFIGS, MuZeroConfig
from mujax_pipe.errors import UserError, quoted
from mujax_pipe.layout import MAX_SEED, Cell
from mujax_pipe.run_config import EvaluationConfig
from mujax_pipe.sections import (
    Analysis,
    Environment,
    Evaluation,
    Figures,
    Grid,
    Reference,
    Run,
    Search,
)
from mujax_pipe.settings import check_value, setting_fields

# Which keys of params.yaml each kind of stage reads; dvc.yaml lists the same ones under `params:`
# and Snakemake's rules pass their values, so that a changed key re-runs exactly what read it.
STAGE_KEYS: dict[str, tuple[str, ...]] = {
    "train": ("run", "algorithms.{algo}", "environments.{env}", "overrides.{algo}.{env}"),
    # Settings of the algorithm are read from the checkpoint.
    "evaluate": ("environments.{env}", "evaluation.{env}"),
    "search": ("environments.{env}", "search.simulations", "search.episodes.{env}"),
    "random": ("environments.{env}", "evaluation.{env}"),
    "aggregate": (
        *("{grid}", "analysis", "references", "figures.algorithm_names"),
        # What the table of hyperparameters calls tuned.
        *("algorithms", "overrides"),
    ),
    "plot": ("{grid}", "analysis", "figures"),
}

_SECTIONS = (
    *("grid", "demo", "run", "algorithms", "environments", "overrides", "evaluation"),
    *("search", "references", "analysis", "figures"),
)

_COLOUR = re.compile(r"#[0-9A-Fa-f]{6}")

# The section of params.yaml that spans each named grid.
GRIDS = {"all": "grid", "demo": "demo"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Params:
    """All of params.yaml; built by `load_params`, which validates."""

    source: str
    tree: Mapping[str, Any]
    grid: Grid
    demo: Grid
    run: Run
    environments: Mapping[str, Environment]
    evaluation: Mapping[str, Evaluation]
    search: Search
    references: Mapping[str, Reference]
    analysis: Analysis
    figures: Figures

    def cells(self, grid: str = "all") -> tuple[Cell, ...]:
        """Returns the cells of a grid: seeds within environments within algorithms, as listed.

        Raises:
          UserError: there is no grid of that name.
        """
        span: Grid = getattr(self, grid_key(grid))
        return tuple(
            Cell(algo=algo, env=env, seed=seed)
            for algo, env, seed in itertools.product(span.algo, span.env, span.seed)
        )

    def environments_of(self, grid: str = "all") -> tuple[str, ...]:
        """Returns the environments of a grid, as listed."""
        return tuple(getattr(self, grid_key(grid)).env)

    def cell(self, algo: str, env: str, seed: int) -> Cell:
        """Returns one cell; its seed need not be in the grid, so that one more run is easy.

        Raises:
          UserError: the grid lacks the algorithm or environment, or the seed is out of range.
        """
        for name, value, allowed in (("algo", algo, self.grid.algo), ("env", env, self.grid.env)):
            if value not in allowed:
                raise UserError(
                    f"{name} is {value!r}: allowed are {quoted(allowed)}, "
                    f"as grid.{name} in {self.source} lists"
                )
        check_value("seed", seed, int, {"low": 0, "high": MAX_SEED})
        return Cell(algo=algo, env=env, seed=seed)

    def environment(self, env: str) -> Environment:
        """Returns an environment of the grid; raises `UserError` where it lacks it."""
        if env not in self.grid.env:
            raise UserError(
                f"env is {env!r}: allowed are {quoted(self.grid.env)}, as grid.env in "
                f"{self.source} lists"
            )
        return self.environments[env]

    def config(self, cell: Cell) -> MuZeroConfig:
        """Returns the cell's hyperparameters: defaults, its algorithm's, then its overrides.

        A `size` counts before the other keys of its own section. The number of learner steps is
        what the replay ratio owes for the environment steps of the run.

        Raises:
          UserError: the combination is not allowed, or the run would end before the first step.
        """
        return resolve.config(
            cell,
            algorithm=self.tree["algorithms"][cell.algo],
            overrides=self.tree["overrides"][cell.algo][cell.env],
            num_env_steps=self.environments[cell.env].num_env_steps,
            source=self.source,
        )

    def evaluation_config(self, cell: Cell) -> EvaluationConfig:
        """Returns when, and over how many episodes, the cell is scored during its training."""
        return resolve.evaluation_config(
            self.config(cell),
            evaluations=self.run.evaluations,
            episodes=self.environments[cell.env].selection_episodes,
        )

    def settings(self, stage: str, **names: str) -> str:
        """Returns what a stage reads of params.yaml, as sorted JSON that compares as text."""
        keys = [key.format(**names) for key in STAGE_KEYS[stage]]
        values = {key: _at(self.tree, key) for key in keys}
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    def train_settings(self, cell: Cell) -> str:
        """Returns what the training of a cell reads; see `settings`."""
        return self.settings("train", algo=cell.algo, env=cell.env)

    def evaluate_settings(self, cell: Cell) -> str:
        """Returns what the final evaluation of a cell reads; see `settings`."""
        return self.settings("evaluate", algo=cell.algo, env=cell.env)

    def search_settings(self, cell: Cell) -> str:
        """Returns what the sweep over search budgets reads; see `settings`."""
        return self.settings("search", env=cell.env)

    def random_settings(self, env: str) -> str:
        """Returns what the random policy of an environment reads; see `settings`."""
        return self.settings("random", env=env)

    def analysis_settings(self, grid: str = "all") -> str:
        """Returns what the aggregation of a grid reads; see `settings`."""
        return self.settings("aggregate", grid=grid_key(grid))

    def figure_settings(self, grid: str = "all") -> str:
        """Returns what the figures of a grid read; see `settings`."""
        return self.settings("plot", grid=grid_key(grid))


def grid_key(grid: str) -> str:
    """Returns the section of params.yaml that spans a named grid.

    Raises:
      UserError: there is no grid of that name.
    """
    if grid not in GRIDS:
        raise UserError(f"grid is {grid!r}: allowed are {quoted(GRIDS)}")
    return GRIDS[grid]


def load_params(path: Path | str = layout.PARAMS) -> Params:
    """Reads and validates a params.yaml.

    Raises:
      UserError: the file is missing or no YAML, a key is unknown or missing, a value has the wrong
        type or is out of range, or a number reads differently in the two dialects of YAML.
    """
    source = str(path)
    tree = sections.mapping(strict_yaml.load(Path(path)), f"{source}: the file")
    sections.known_keys(tree, _SECTIONS, f"{source}: ", required=_SECTIONS)
    environments = sections.named(Environment, tree["environments"], f"{source}: environments")
    evaluation = sections.named(Evaluation, tree["evaluation"], f"{source}: evaluation")
    sections.known_keys(evaluation, tuple(environments), f"{source}: evaluation.")
    params = Params(
        source=source,
        tree=types.MappingProxyType(tree),
        grid=sections.grid(tree["grid"], f"{source}: grid"),
        demo=sections.grid(tree["demo"], f"{source}: demo"),
        run=sections.section(Run, tree["run"], f"{source}: run"),
        environments=environments,
        evaluation=evaluation,
        search=sections.section(Search, tree["search"], f"{source}: search"),
        references=sections.named(Reference, tree["references"], f"{source}: references"),
        analysis=sections.section(Analysis, tree["analysis"], f"{source}: analysis"),
        figures=sections.section(Figures, tree["figures"], f"{source}: figures"),
    )
    _check_entries(params)
    _check_subset(params)
    for algo, env in itertools.product(params.grid.algo, params.grid.env):
        params.evaluation_config(Cell(algo=algo, env=env, seed=0))
    return params


def _check_entries(params: Params) -> None:
    """Checks that sections by algorithm and environment name known ones, and all of the grid's."""
    tree, source = params.tree, params.source
    for name in ("algorithms", "overrides"):
        section = sections.mapping(tree[name], f"{source}: {name}")
        sections.known_keys(section, tuple(CONFIGS), f"{source}: {name}.")
        for algo, values in section.items():
            sections.mapping(values, f"{source}: {name}.{algo}")
    for algo, section in tree["overrides"].items():
        where = f"{source}: overrides.{algo}"
        sections.known_keys(section, tuple(params.environments), f"{where}.")
        for env, values in section.items():
            sections.mapping(values, f"{where}.{env}")
    names = params.figures.algorithm_names
    sections.known_keys(names, tuple(CONFIGS), f"{source}: figures.algorithm_names.")
    sections.known_keys(params.figures.colours, tuple(CONFIGS), f"{source}: figures.colours.")
    for algo, colour in params.figures.colours.items():
        if not _COLOUR.fullmatch(colour):
            raise UserError(
                f"{source}: figures.colours.{algo} is {colour!r}: allowed are red, green and "
                'blue as "#RRGGBB", in quotes'
            )
    for algo in params.grid.algo:
        if algo not in CONFIGS:
            raise UserError(f"{source}: grid.algo has {algo!r}: allowed are {quoted(CONFIGS)}")
        _entry(tree["algorithms"], algo, f"{source}: algorithms", "grid.algo", "{}")
        _entry(tree["overrides"], algo, f"{source}: overrides", "grid.algo", "{}")
        for env in params.grid.env:
            where = f"{source}: overrides.{algo}"
            _entry(tree["overrides"][algo], env, where, "grid.env", "{}")
    for env in params.grid.env:
        _entry(tree["environments"], env, f"{source}: environments", "grid.env", "its settings")
        _entry(tree["evaluation"], env, f"{source}: evaluation", "grid.env", "its settings")
        _entry(tree["references"], env, f"{source}: references", "grid.env", "score and source")
        episodes = params.search.episodes
        _entry(episodes, env, f"{source}: search.episodes", "grid.env", "a number of episodes")


def _entry(section: Mapping[str, Any], name: str, where: str, listed: str, value: str) -> None:
    if name not in section:
        raise UserError(f"{where} has no {name}, which {listed} lists; add `{name}: {value}`")


def _check_subset(params: Params) -> None:
    """Checks that a demo's cells are cells of the grid."""
    for field in setting_fields(Grid):
        whole = getattr(params.grid, field)
        for value in getattr(params.demo, field):
            if value not in whole:
                raise UserError(
                    f"{params.source}: demo.{field} has {value!r}: the demo is part of the grid, "
                    f"so allowed are {quoted(whole)}; add it to grid.{field} or take it out"
                )


def _at(tree: Mapping[str, Any], key: str) -> Any:
    """Returns what stands at a dotted key."""
    return functools.reduce(lambda section, name: section[name], key.split("."), tree)
