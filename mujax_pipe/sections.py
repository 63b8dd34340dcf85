"""The sections of `params.yaml`: frozen records, and the checks that build one. No JAX here."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from mujax_pipe.config import MuZeroConfig
from mujax_pipe.errors import UserError
from mujax_pipe.layout import MAX_SEED
from mujax_pipe.settings import check_value, setting, setting_fields, setting_types, suggestion

T = TypeVar("T")

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_REQUIRED = dataclasses.MISSING


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grid:
    """Every combination of these is one cell."""

    algo: tuple[str, ...] = setting(_REQUIRED, "Algorithms.")
    env: tuple[str, ...] = setting(_REQUIRED, "Names of environments.")
    seed: tuple[int, ...] = setting(_REQUIRED, "Seeds.", low=0, high=MAX_SEED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """Shared by every training run."""

    evaluations: int = setting(_REQUIRED, "Evaluations during a run.", low=1)
    threads: int = setting(_REQUIRED, "XLA threads of a run; another number, other bits.", low=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Environment:
    """What a cell's environment name stands for, and how long it is trained on."""

    id: str = setting(_REQUIRED, "Gymnasium id.")
    wrappers: tuple[str, ...] = setting(_REQUIRED, "Wrappers, innermost first.")
    num_env_steps: int = setting(_REQUIRED, "Environment steps of a run.", low=1)
    selection_episodes: int = setting(
        _REQUIRED, "Episodes of each evaluation that picks the best checkpoint.", low=1
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Final evaluation of the best checkpoint."""

    episodes: int = setting(_REQUIRED, "Episodes.", low=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """How the worth of search is measured: the best checkpoint played with other budgets."""

    simulations: tuple[int, ...] = setting(
        _REQUIRED,
        "Simulations a step; 0: the network's policy alone.",
        low=0,
        high=setting_fields(MuZeroConfig)["num_simulations"].metadata["high"],
    )
    episodes: Mapping[str, int] = setting(
        _REQUIRED, "Episodes of each budget, by environment.", low=1
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reference:
    """The scores that count as 0 and 1 where environments are put together."""

    score: float = setting(_REQUIRED, "Mean return that counts as 1.")
    source: str = setting(_REQUIRED, "Where it is from.")
    base: float | None = setting(
        None, "Mean return that counts as 0; what a random policy scores if there is none."
    )
    base_source: str = setting("", "What the base is.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Analysis:
    """How cells are summarised."""

    interval: str = setting(
        _REQUIRED,
        "Kind of interval for means over seeds.",
        choices=("t", "percentile", "bca", "studentised"),
    )
    confidence: float = setting(_REQUIRED, "Coverage of intervals.", low=0.01, high=0.9999)
    threshold: float = setting(
        _REQUIRED,
        "Share of the way from a random policy to the reference that counts as learned.",
        low=0.01,
        high=1.0,
    )
    bootstrap_samples: int = setting(_REQUIRED, "Bootstrap resamples.", low=1, high=1_000_000)
    bootstrap_seed: int = setting(_REQUIRED, "Bootstrap seed.", low=0, high=MAX_SEED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figures:
    """How figures look."""

    dpi: int = setting(_REQUIRED, "Dots an inch of PNG files.", low=30, high=2400)
    algorithm_names: Mapping[str, str] = setting(_REQUIRED, "Names in legends.")
    colours: Mapping[str, str] = setting(_REQUIRED, "Colours of the algorithms, as #RRGGBB.")


def grid(values: Any, where: str) -> Grid:
    """Builds a grid of distinct entries whose names can stand in paths and DVC stage names."""
    grid = section(Grid, values, where)
    for field in setting_fields(Grid):
        entries = getattr(grid, field)
        for entry in entries:
            if entries.count(entry) > 1:
                raise UserError(f"{where}.{field} has {entry!r} twice: remove one of the two")
            if isinstance(entry, str):
                _check_name(entry, f"{where}.{field} has {entry!r}")
    return grid


def _check_name(name: str, subject: str) -> None:
    if "-" in name:
        raise UserError(
            f"{subject}: a dash is not allowed, as DVC joins the names of a cell by dashes; "
            f"write {name.lower().replace('-', '_')!r}"
        )
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{subject}: allowed are lower-case letters, digits and _, beginning with a letter"
        )


def named(cls: type[T], values: Any, where: str) -> Mapping[str, T]:
    """Builds one record for each named entry of a section."""
    result = {}
    for name, entry in mapping(values, where).items():
        _check_name(name, f"{where} has {name!r}")
        result[name] = section(cls, entry, f"{where}.{name}")
    return types.MappingProxyType(result)


def section(cls: type[T], values: Any, where: str) -> T:
    """Builds a record from a section that must hold its fields, each in range, and no others.

    Those with a default may be left out.
    """
    fields, kinds = setting_fields(cls), setting_types(cls)
    required = tuple(name for name, field in fields.items() if field.default is _REQUIRED)
    known_keys(mapping(values, where), tuple(fields), f"{where}.", required=required)
    read = {
        name: _value(f"{where}.{name}", values[name], _stripped(kinds[name]), field.metadata)
        for name, field in fields.items()
        if name in values
    }
    return cls(**read)


def _stripped(kind: Any) -> Any:
    """Returns X of `X | None`: what is left out is None, and never written so."""
    if isinstance(kind, types.UnionType):
        (kind,) = (one for one in typing.get_args(kind) if one is not type(None))
    return kind


def _value(where: str, value: Any, kind: Any, metadata: Any) -> Any:
    """Checks one value; lists become tuples, mappings read-only ones, and whole numbers floats."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        if not isinstance(value, list):
            raise UserError(f"{where} is {value!r}: allowed is a list, such as [a, b]")
        if not value and not where.endswith(".wrappers"):
            raise UserError(f"{where} is an empty list: name at least one entry")
        return tuple(
            _value(f"{where}[{i}]", v, arguments[0], metadata) for i, v in enumerate(value)
        )
    if origin is Mapping:
        entries = mapping(value, where).items()
        return types.MappingProxyType(
            {k: _value(f"{where}.{k}", v, arguments[1], metadata) for k, v in entries}
        )
    if kind is float and type(value) is int:
        value = float(value)
    check_value(where, value, kind, metadata)
    return value


def mapping(value: Any, where: str) -> dict[str, Any]:
    """Returns `value`, or raises `UserError` unless it is a mapping."""
    if not isinstance(value, dict):
        raise UserError(f"{where} is {value!r}: allowed is a mapping of keys to values")
    return value


def known_keys(
    values: Mapping[str, Any], known: tuple[str, ...], where: str, *, required: tuple[str, ...] = ()
) -> None:
    """Checks that a section has no other keys than the known ones, and all that are required."""
    for key in values:
        if key not in known:
            raise UserError(f"{where}{key}: unknown key{suggestion(key, known)}")
    for key in required:
        if key not in values:
            raise UserError(f"{where}{key} is missing: add it")
