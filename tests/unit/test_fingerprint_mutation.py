"""Each operator of each file that counts, swapped: the fingerprint must notice it."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import mujax_pipe
from mujax_pipe.normal_form import normal_form

ROOT = Path(mujax_pipe.__file__).parents[1]
COUNTED = sorted(json.loads((ROOT / "fingerprint.json").read_text())["modules"])

OTHER = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mod,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Not: ast.UAdd,
    ast.USub: ast.UAdd,
    ast.Invert: ast.UAdd,
}


def running(node: ast.AST) -> Iterator[ast.AST]:
    """Yields all that runs; the words of an error do not count."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(node, ast.Raise):
            yield from running(child)


def mutants(tree: ast.Module) -> Iterator[str]:
    """Swaps one operator after the other in the tree, and yields where."""
    for node in running(tree):
        if isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.AugAssign):
            kept = node.op
            node.op = OTHER[type(kept)]()  # type: ignore[assignment]
            yield f"line {node.lineno}, {type(kept).__name__}"
            node.op = kept  # type: ignore[assignment]
        elif isinstance(node, ast.Compare):
            for index, kept_op in enumerate(node.ops):
                node.ops[index] = OTHER[type(kept_op)]()
                yield f"line {node.lineno}, {type(kept_op).__name__}"
                node.ops[index] = kept_op


def digest(source: str) -> str:
    return hashlib.sha256(normal_form(source).encode()).hexdigest()


@pytest.mark.parametrize("name", COUNTED)
def test_every_swapped_operator_is_noticed(name: str) -> None:
    source = (ROOT / name).read_text(encoding="utf-8")
    tree = ast.parse(source)
    own = digest(source)
    missed = [where for where in mutants(tree) if digest(ast.unparse(tree)) == own]
    assert missed == []
    # Undone again, and so not noticed: the comparison is not of something else.
    assert digest(ast.unparse(tree)) == own


def test_there_is_much_to_swap() -> None:
    trees = [ast.parse((ROOT / name).read_text(encoding="utf-8")) for name in COUNTED]
    assert sum(1 for tree in trees for _ in mutants(tree)) > 400


@pytest.mark.parametrize("name", COUNTED)
def test_comments_and_layout_are_not_noticed(name: str) -> None:
    """A comment behind every line that may have one."""
    source = (ROOT / name).read_text(encoding="utf-8")
    ends = {
        token.start[0]: token.start[1]
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type in (tokenize.NEWLINE, tokenize.NL)
    }
    lines = source.splitlines()
    for number, column in ends.items():
        lines[number - 1] = lines[number - 1][:column] + "  # a comment"
    assert digest("\n".join(["# Another comment.", *lines, ""])) == digest(source)
