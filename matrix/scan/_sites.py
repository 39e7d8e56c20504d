"""Where a body captures: every comparison of a boundary with the ids, placed on its layer loop."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from matrix.scan._facts import Site
from matrix.scan._linear import Indices, constant_part, linear
from matrix.scan._syntax import Function
from matrix.scan._words import CONTAINER, FLAG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["sites_of"]

_DEPTH = re.compile(r"\bend_layer\b|\bnum_(hidden_)?layers\b|\blen\(")
"""How a boundary behind the last layer is named; a loop may stand in another method."""

_NOT_A_LAYER_CALL = ("getattr", "hasattr", "isinstance", "setattr", "len", "type", "id")


def sites_of(node: Function) -> list[Site]:
    """The capture sites of one method, in the order of its lines."""
    reader = _Body()
    reader.block(node.body, in_loop=False, called=False)
    return reader.sites


class _Body:
    """One walk through a method. `called` says whether, on the way here, the layer has run."""

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self.indices: Indices = {}
        self.layers: frozenset[str] = frozenset()
        self.containers: set[str] = set()
        self.looped = False

    def block(self, body: Iterable[ast.stmt], *, in_loop: bool, called: bool) -> bool:
        for node in body:
            called = self.statement(node, in_loop=in_loop, called=called)
        return called

    def statement(self, node: ast.stmt, *, in_loop: bool, called: bool) -> bool:
        if isinstance(node, Function | ast.ClassDef):
            return called
        if isinstance(node, ast.For):
            return self.loop(node, in_loop=in_loop, called=called)
        if isinstance(node, ast.If):
            self.expression(node.test, in_loop=in_loop, called=called)
            ways = [
                self.block(way, in_loop=in_loop, called=called) for way in (node.body, node.orelse)
            ]
            return called or any(ways)
        if isinstance(node, ast.With):
            return self.block(node.body, in_loop=in_loop, called=called)
        if isinstance(node, ast.Try):
            return self.block([*node.body, *node.finalbody], in_loop=in_loop, called=called)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            self.alias(node.targets[0].id, node.value, in_loop=in_loop)
        self.expression(node, in_loop=in_loop, called=called)
        return called or (in_loop and any(map(self.is_layer_call, ast.walk(node))))

    def loop(self, node: ast.For, *, in_loop: bool, called: bool) -> bool:
        index, layers = _loop_names(node)
        if any(isinstance(inner, ast.For) for inner in _nested(node)) and self.runs_within(node):
            return self.block(node.body, in_loop=in_loop, called=called)
        before = self.layers
        self.indices.update(index)
        self.layers |= layers | set(_taken_layers(node, self.indices))
        runs_layers = any(map(self.is_layer_call, ast.walk(node)))
        if not runs_layers:
            self.layers = before
            return self.block(node.body, in_loop=in_loop, called=called)
        self.block(node.body, in_loop=True, called=False)
        self.looped = True
        return called or in_loop

    def runs_within(self, node: ast.For) -> bool:
        """Whether a loop inside this one, and not this one itself, runs the layers."""
        for inner in _nested(node):
            if isinstance(inner, ast.For):
                probe = _Body()
                probe.loop(inner, in_loop=False, called=False)
                if probe.looped:
                    return True
        return False

    def alias(self, name: str, value: ast.expr, *, in_loop: bool) -> None:
        """Local names for the ids, and for the index once something was added to it."""
        holds = any(
            isinstance(inner, ast.Attribute) and CONTAINER.fullmatch(inner.attr)
            for inner in ast.walk(value)
        )
        compared = any(isinstance(inner, ast.Compare | ast.Call) for inner in ast.walk(value))
        if holds and not compared:
            self.containers.add(name)
        if in_loop:
            offset = linear(value, self.indices, self.layers)
            if offset is not None:
                self.indices[name] = offset

    def is_layer_call(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr.startswith("forward"):
            func = func.value
        if isinstance(func, ast.Name) and func.id in self.layers:
            return True
        if isinstance(func, ast.Subscript):
            return linear(func.slice, self.indices) is not None
        name = func.id if isinstance(func, ast.Name) else ""
        given = any(isinstance(arg, ast.Name) and arg.id in self.layers for arg in node.args)
        return given and name not in _NOT_A_LAYER_CALL

    def expression(self, node: ast.AST, *, in_loop: bool, called: bool) -> None:
        near = ("after" if called else "before") if in_loop else "end" if self.looped else "entry"
        for inner in ast.walk(node):
            for container, key in self.tested(inner):
                where = "end" if not in_loop and key and _DEPTH.search(ast.unparse(key)) else near
                offset = self.offset(where, key)
                self.sites.append(Site(where, container, offset, inner.lineno))  # type: ignore[attr-defined]

    def tested(self, node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
        """(container, boundary) of a test; a flag on the layer has no boundary of its own."""
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            container = self.container(node.comparators[0])
            if container:
                yield container, node.left
        elif isinstance(node, ast.Attribute) and FLAG.fullmatch(node.attr):
            if isinstance(node.ctx, ast.Load):
                yield node.attr, None
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if name == "_maybe_add_hidden_state" and len(node.args) > 1:
                yield "aux_hidden_state_layers", node.args[1]
            elif isinstance(node.func, ast.Name) and node.func.id == "getattr":
                flag = node.args[1].value if isinstance(node.args[1], ast.Constant) else ""
                if FLAG.fullmatch(str(flag)):
                    yield str(flag), None

    def container(self, node: ast.expr) -> str:
        if isinstance(node, ast.Attribute) and CONTAINER.fullmatch(node.attr):
            return node.attr
        local = isinstance(node, ast.Name) and node.id in self.containers
        return "*" if local else ""

    def offset(self, where: str, key: ast.expr | None) -> int | None:
        if key is None:
            return 0
        if where in ("before", "after"):
            return linear(key, self.indices, self.layers)
        behind = linear(key, self.indices, self.layers)
        if where == "end" and behind is not None:
            return behind - 1
        return constant_part(key)


def _nested(node: ast.For) -> Iterator[ast.AST]:
    for statement in node.body:
        yield from ast.walk(statement)


def _loop_names(node: ast.For) -> tuple[Indices, frozenset[str]]:
    """(index variables, layer variables) of a loop header."""
    calls = {
        call.func.id
        for call in ast.walk(node.iter)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    }
    names = [part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)]
    if "enumerate" in calls:
        return {names[0]: 0}, frozenset(names[1:])
    if "range" in calls or any(_subscripted(inner, names[0]) for inner in _nested(node)):
        return {names[0]: 0}, frozenset()
    return {}, frozenset(names)


def _subscripted(node: ast.AST, index: str) -> bool:
    """`something[index](...)`: a loop over layer numbers, wherever they come from."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Subscript):
        return False
    return isinstance(node.func.slice, ast.Name) and node.func.slice.id == index


def _taken_layers(node: ast.For, indices: Indices) -> Iterator[str]:
    """Variables that take a layer out of a list by the index: `layer = self.layers[i]`."""
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Assign) or not isinstance(inner.value, ast.Subscript):
            continue
        if isinstance(inner.targets[0], ast.Name) and linear(inner.value.slice, indices) == 0:
            yield inner.targets[0].id
