"""What functions outside of models do with a draft's layer ids: read, move, refuse."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from matrix.scan._facts import IdShift
from matrix.scan._linear import linear
from matrix.scan._syntax import Function, own_nodes
from matrix.scan._words import SHIFT_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["id_functions", "id_shifts", "refusals"]


def id_functions(tree: ast.Module, lines: list[str]) -> list[Function]:
    """The functions that speak of a draft's layer ids."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, Function):
            text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            if any(key in text for key in SHIFT_KEYS):
                found.append(node)
    return found


def refusals(functions: Iterable[Function]) -> dict[str, tuple[str, ...]]:
    """What functions that read layer ids refuse, by function; as in `Setter.checks`."""
    found: dict[str, tuple[str, ...]] = {}
    for node in functions:
        if "layer_ids" in node.name:
            checks = {check for inner in ast.walk(node) for check in _refused(inner)}
            if checks:
                found[node.name] = tuple(sorted(checks))
    return found


def _refused(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.If) or not any(isinstance(n, ast.Raise) for n in node.body):
        return
    bounds = [n for n in ast.walk(node.test) if isinstance(n, ast.Lt | ast.LtE | ast.Gt | ast.GtE)]
    names = {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)}
    if len(bounds) > 1:
        yield "range"
    if "sorted" in names:
        yield "order"
    if "set" in names:
        yield "dup"


def id_shifts(functions: Iterable[Function]) -> list[IdShift]:
    """Where functions outside of models read a draft's layer ids, and what they add to them."""
    return [shift for node in functions for shift in _function_shifts(node)]


def _function_shifts(node: Function) -> Iterator[IdShift]:
    types = set(_model_types(node))
    held: set[str] = set()
    moved: set[int] = set()
    for inner in own_nodes(node):
        if isinstance(inner, ast.Assign) and any(map(_reads_ids, ast.walk(inner.value))):
            held.update(part.id for part in inner.targets if isinstance(part, ast.Name))
        if isinstance(inner, ast.ListComp) and isinstance(inner.generators[0].target, ast.Name):
            source = inner.generators[0].iter
            offset = linear(inner.elt, {inner.generators[0].target.id: 0})
            reads = [n for n in ast.walk(source) if _reads_ids(n)]
            moved.update(id(n) for n in reads)
            names = {n.id for n in ast.walk(source) if isinstance(n, ast.Name)}
            if offset is None or not (reads or any(n.endswith("layer_ids") for n in names)):
                continue
            key = "config" if reads or names & held else "variable"
            if key == "config" or offset:
                names = types | set(_condition_names(node, inner))
                yield IdShift(node.name, key, offset, inner.lineno, tuple(sorted(names)))
    for inner in own_nodes(node):
        if _reads_ids(inner) and id(inner) not in moved:
            line = inner.lineno  # type: ignore[attr-defined]
            yield IdShift(node.name, "config", 0, line, tuple(sorted(types)))


def _reads_ids(node: ast.AST) -> bool:
    """`config.get("target_layer_ids", ...)`: the keys of a DFlash config are read this way."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "get"
        and bool(node.args)
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value == "target_layer_ids"
    )


def _condition_names(node: Function, inside: ast.AST) -> Iterator[str]:
    """The strings that the conditions around a node ask for."""
    for outer in own_nodes(node):
        if isinstance(outer, ast.If) and any(n is inside for b in outer.body for n in ast.walk(b)):
            for value in ast.walk(outer.test):
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.value


def _model_types(node: Function) -> Iterator[str]:
    for inner in own_nodes(node):
        if isinstance(inner, ast.Compare) and "model_type" in ast.unparse(inner.left):
            for value in inner.comparators:
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.value
