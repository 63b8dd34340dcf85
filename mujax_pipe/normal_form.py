"""What runs of a module's source, as text: the same for any layout, on Python 3.11 to 3.14.

`ast.dump` and `ast.unparse` change with Python's minor version; this form names each node and its
non-empty fields only. Comments, layout, docstrings, error messages, imports for type checkers, and
the help text and panel of a setting do not appear in it.
"""

from __future__ import annotations

import ast
from typing import Any

# Fields of a syntax tree that say nothing about what runs.
_SILENT = ("ctx", "kind", "type_comment", "type_ignores")


def normal_form(source: str) -> str:
    """Returns the normal form of a module's source."""
    return _dump(ast.parse(source))


def _dump(node: Any) -> str:
    """Writes a node as its class and non-empty fields, without what cannot change a result."""
    if isinstance(node, list):
        return f"[{','.join(_dump(item) for item in node if not is_silent(item))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Constant):
        return f"{type(node.value).__name__}:{node.value!r}"
    if isinstance(node, ast.Raise):
        return f"Raise({_dump(_exception(node.exc))})"
    if isinstance(node, ast.JoinedStr):
        # Python 3.12 puts an empty text behind a nested format.
        node = ast.JoinedStr(values=[part for part in node.values if not _is_empty(part)])
    if _is_setting(node):
        node = _without_help(node)
    fields = (
        f"{name}={_dump(value)}"
        for name, value in sorted(ast.iter_fields(node))
        if name not in _SILENT and value is not None and value != []
    )
    return f"{type(node).__name__}({','.join(fields)})"


def is_silent(node: Any) -> bool:
    """Returns whether a statement does nothing when the module runs, or nothing of weight.

    So are a loose text such as a docstring, an import for type checkers, and `__all__` or
    `__version__`.
    """
    if isinstance(node, ast.If):
        return ast.unparse(node.test).endswith("TYPE_CHECKING") and not node.orelse
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        return bool(names) and names <= {"__all__", "__version__"}
    return False


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == ""


def _exception(node: ast.expr | None) -> ast.expr | None:
    """Returns what is raised, without the arguments that make up its message."""
    return node.func if isinstance(node, ast.Call) else node


def _is_setting(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setting"
    )


def _without_help(call: Any) -> ast.Call:
    """Returns a `setting(default, help, ...)` call without its help text and panel."""
    keywords = [word for word in call.keywords if word.arg not in ("help", "panel")]
    return ast.Call(func=call.func, args=call.args[:1], keywords=keywords)
