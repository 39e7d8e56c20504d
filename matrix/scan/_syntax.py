"""Small readings of syntax trees that several modules share."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Function", "dotted", "last_name", "own_nodes", "statements", "targets"]

Function = ast.FunctionDef | ast.AsyncFunctionDef

_BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try)


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement of a function, nested blocks included, nested functions and classes not."""
    rest = [*body][::-1]
    while rest:
        node = rest.pop()
        yield node
        if isinstance(node, _BLOCKS):
            inner = [*node.body, *getattr(node, "orelse", ()), *getattr(node, "finalbody", ())]
            for handler in getattr(node, "handlers", ()):
                inner += handler.body
            rest += inner[::-1]


def targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    """What an assignment assigns to."""
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions and classes inside it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, Function | ast.ClassDef | ast.Lambda):
            yield from own_nodes(child)


def dotted(node: ast.expr) -> str | None:
    """`a.b.c` as a string, `None` for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
