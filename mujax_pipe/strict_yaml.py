"""Reads YAML that every reader understands alike, or says which line they would quarrel over.

DVC reads `params.yaml` as YAML 1.2 and Snakemake as YAML 1.1. The two dialects disagree about plain
scalars such as `1e-3`, `017`, `0o17`, `12:30:00` or `on`. This reader accepts only what both take
for the same value, so it does not matter which of them reads the file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from mujax_pipe.errors import UserError

_PREFIX = "tag:yaml.org,2002:"
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Plain scalars that mean the same in both dialects.
_COMMON = {
    "int": re.compile(r"[-+]?(0|[1-9][0-9]*)"),
    "float": re.compile(r"([-+]?[0-9]+\.[0-9]*|\.[0-9]+)([eE][-+][0-9]+)?"),
    "bool": re.compile(r"true|True|TRUE|false|False|FALSE"),
    "null": re.compile(r"~|null|Null|NULL|"),
}
# Text to YAML 1.1 (as PyYAML reads it), a number to YAML 1.2 or to a looser 1.2 reader.
_NUMBER = re.compile(
    r"[-+]?(\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?0o[0-7_]+|[-+]?0x[0-9a-fA-F_]+"
)


def load(path: Path) -> Any:
    """Returns the content of a YAML file as dicts with text keys, lists and plain scalars.

    Raises:
      UserError: the file cannot be read, is no YAML, repeats a key, uses a tag or a merge key, or
        holds a plain scalar that YAML 1.1 and YAML 1.2 read differently.
    """
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=_Loader)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; run this in the folder that holds it") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the file") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; save it as UTF-8") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}{_syntax(error)}") from None
    if node is None:
        return None
    try:
        return _build(node, str(path), "")
    except RecursionError:
        raise UserError(f"{path}: is nested without end; remove the alias to itself") from None


def _syntax(error: yaml.YAMLError) -> str:
    """Returns where and what is wrong with the syntax, on one line."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return f"{where}: no valid YAML ({' '.join(str(problem).split())}); correct that line"


def _build(node: yaml.Node, path: str, where: str) -> Any:
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, where)
    if isinstance(node, yaml.SequenceNode):
        return [_build(item, path, f"{where}[{i}]") for i, item in enumerate(node.value)]
    assert isinstance(node, yaml.ScalarNode)
    return _scalar(node, path, where)


def _mapping(node: yaml.MappingNode, path: str, where: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = f"{path}, line {key_node.start_mark.line + 1}"
        within = where or "the top level"
        key = _build(key_node, path, f"a key of {within}")
        if not isinstance(key, str):
            raise UserError(
                f"{line}: a key of {within} is {key!r}: allowed is a text; put it in quotes"
            )
        if key in result:
            raise UserError(f"{line}: {key} stands twice in {within}: remove one of the two")
        result[key] = _build(value_node, path, f"{where}.{key}" if where else key)
    return result


def _scalar(node: yaml.ScalarNode, path: str, where: str) -> Any:
    text, kind = node.value, node.tag.removeprefix(_PREFIX)
    line = f"{path}, line {node.start_mark.line + 1}: {where or 'the file'}"
    if node.style:
        if kind != "str":
            raise UserError(f"{line} has the tag {node.tag}: remove the tag")
        return text
    if kind == "merge":
        raise UserError(f"{line} is <<: merge keys are not allowed; write the keys out")
    if kind == "float" and text.lower().endswith((".inf", ".nan")):
        raise UserError(f"{line} is {text}: allowed are finite numbers")
    if kind in _COMMON and not _COMMON[kind].fullmatch(text):
        raise _ambiguous(line, text)
    if kind == "str" and _NUMBER.fullmatch(text):
        raise _ambiguous(line, text)
    if kind in ("int", "float"):
        return int(text) if kind == "int" else float(text)
    if kind in ("bool", "null"):
        return text.lower() == "true" if kind == "bool" else None
    if kind != "str":
        raise UserError(f"{line} is {text}: allowed are numbers and texts; put it in quotes")
    return text


def _ambiguous(line: str, text: str) -> UserError:
    """The error for a scalar that is one thing to DVC and another to Snakemake."""
    return UserError(
        f"{line} is {text}: YAML 1.1 and YAML 1.2 read that differently; {_advice(text)}"
    )


def _advice(text: str) -> str:
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        return "put a text in quotes, write a number in decimals, or write true or false"
    if text.lstrip("+-").isdecimal():
        return f"write {int(text)} without leading zeros, or a text in quotes"
    plain = repr(number) if number % 1 or "." in text or abs(number) >= 1e15 else str(int(number))
    plain = plain.replace("e", ".0e") if "e" in plain and "." not in plain else plain
    return f"write {plain}"
