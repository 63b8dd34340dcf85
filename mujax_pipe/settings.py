"""Dataclass fields that carry their help text and allowed range, and the checks on them. No JAX."""

from __future__ import annotations

import dataclasses
import difflib
import math
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from mujax_pipe.errors import UserError, quoted

T = TypeVar("T")


def setting(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] | None = None,
    panel: str = "General",
) -> Any:
    """A dataclass field that carries its help text, allowed range and panel on the command line."""
    metadata = {"help": help, "low": low, "high": high, "choices": choices, "panel": panel}
    return dataclasses.field(default=default, metadata=metadata)


def setting_fields(cls: type) -> dict[str, dataclasses.Field[Any]]:
    """Returns the fields of a config class by name."""
    return {field.name: field for field in dataclasses.fields(cls)}


def setting_types(cls: type) -> dict[str, Any]:
    """Returns the resolved type of each field of a config class."""
    hints = typing.get_type_hints(cls)
    return {name: hints[name] for name in setting_fields(cls)}


def suggestion(key: object, known: tuple[str, ...]) -> str:
    """Returns the tail of an "unknown key" message: the closest name, and all allowed ones."""
    close = difflib.get_close_matches(str(key), known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{hint} (allowed: {quoted(sorted(known))})"


def validate(config: Any) -> None:
    """Checks every field's type and range; a whole number is taken where a number is meant."""
    kinds = setting_types(type(config))
    for name, field in setting_fields(type(config)).items():
        value = getattr(config, name)
        if kinds[name] is float and type(value) is int:
            value = float(value)
            object.__setattr__(config, name, value)
        check_value(name, value, kinds[name], field.metadata)


def check_value(name: str, value: Any, kind: Any, metadata: Mapping[str, Any]) -> None:
    """Raises `UserError` unless `value` has type `kind` and lies in the field's range."""
    if not _is_a(value, kind):
        raise UserError(f"{name} is {value!r}: allowed is {_type_name(kind)}")
    low, high, choices = (metadata.get(key) for key in ("low", "high", "choices"))
    if choices and value not in choices:
        raise UserError(f"{name} is {value!r}: allowed are {quoted(choices)}")
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, float) and not math.isfinite(number):
            raise UserError(f"{name} is {number}: allowed are finite numbers")
        if low is not None and number < low:
            raise UserError(f"{name} is {number}: allowed are values of at least {low}")
        if high is not None and number > high:
            raise UserError(f"{name} is {number}: allowed are values of at most {high}")


def _is_a(value: Any, kind: Any) -> bool:
    if typing.get_origin(kind) is tuple:
        item = typing.get_args(kind)[0]
        return isinstance(value, tuple) and len(value) > 0 and all(_is_a(v, item) for v in value)
    return type(value) is kind


def _type_name(kind: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    if kind in names:
        return names[kind]
    item = typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else None
    return "a list of whole numbers, such as [128, 128]" if item is int else f"a list of {kind}"


def from_mapping(cls: type[T], values: dict[str, Any], *, where: str, base: T | None = None) -> T:
    """Builds a config from parsed YAML or options, naming `where` a bad key or value stands.

    `size` is accepted for algorithms and applies before the other keys. Lists become tuples.

    Raises:
      UserError: an unknown key, a wrong type or a value out of range.
    """
    known = setting_fields(cls)
    extra = ("size",) if hasattr(cls, "with_size") else ()
    for key in values:
        if key not in known and key not in extra:
            raise UserError(f"{where}.{key}: unknown key{suggestion(key, (*known, *extra))}")
    values = dict(values)
    try:
        base = cls() if base is None else base
        if "size" in values:
            base = base.with_size(values.pop("size"))  # type: ignore[attr-defined]
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return dataclasses.replace(base, **values)  # type: ignore[type-var]
    except UserError as error:
        raise UserError(f"{where}.{error}") from None
