"""What one definition of a hook does: what it adds to the ids, where it puts them, what it refuses.

Its statements are read once, in order, and nothing runs.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, TypeGuard

from matrix.scan._facts import Effect, Setter
from matrix.scan._linear import Indices, constant_part, linear
from matrix.scan._syntax import Function, targets
from matrix.scan._words import CONTAINER, FLAG, is_hook

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["read_hook"]

_COPIES: Final = ("list", "tuple", "set", "sorted", "frozenset")
_LAST_RANK: Final = re.compile(r"is_last_rank|pp_group|pp_size|get_pp_group")


def read_hook(node: Function) -> Setter:
    """What one definition of a hook does."""
    hook = _Hook(node)
    hook.block(node.body)
    body = [n for n in node.body if not (isinstance(n, ast.Expr) and _is_text(n.value))]
    return Setter(
        node.lineno,
        tuple(_merged(hook.effects)),
        tuple(sorted(hook.checks)),
        hook.silent_pp,
        len(body) == 1 and isinstance(body[0], ast.Raise),
    )


class _Hook:
    """Reads one hook: ids start at offset 0 in its parameter, and are followed from there."""

    def __init__(self, node: Function) -> None:
        params = [arg.arg for arg in node.args.args if arg.arg != "self"]
        self.param = params[0] if params else ""
        self.ids: dict[str, int | None] = {self.param: 0}
        self.items: Indices = {}
        self.paths: dict[str, str] = {"self": ""}
        self.locals: dict[str, ast.expr] = {}
        self.effects: list[Effect] = []
        self.checks: set[str] = set()
        self.silent_pp = 0
        self.branches = 0

    def block(self, body: Iterable[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.If):
                self.branch(node)
            elif isinstance(node, ast.For):
                self.loop(node)
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                for target in targets(node):
                    self.assign(target, node.value)
            elif isinstance(node, ast.Expr | ast.Return) and isinstance(node.value, ast.Call):
                self.call(node.value)
            elif isinstance(node, ast.Assert):
                self.refuse(node.test)
            elif isinstance(node, ast.With | ast.Try):
                self.block(node.body)

    def branch(self, node: ast.If) -> None:
        when_none = self.none_test(node.test)
        raises = any(isinstance(inner, ast.Raise) for inner in node.body)
        returns = isinstance(node.body[-1], ast.Return)
        text = ast.unparse(node.test)
        if _LAST_RANK.search(text) and (raises or returns):
            if raises:
                self.checks.add("pp")
            else:
                self.silent_pp = node.lineno
        elif raises:
            self.refuse(node.test)
        elif when_none is not True:
            self.branch_block(node.body)
        if when_none is not False:
            self.branch_block(node.orelse)

    def branch_block(self, body: list[ast.stmt]) -> None:
        self.branches += 1
        self.block(body)
        self.branches -= 1

    def none_test(self, test: ast.expr) -> bool | None:
        """True for `ids is None`, False for `ids is not None`, None for any other test."""
        if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name):
            return None
        if test.left.id != self.param or not isinstance(test.comparators[0], ast.Constant):
            return None
        return isinstance(test.ops[0], ast.Is)

    def refuse(self, test: ast.expr) -> None:
        """Notes what a test that ends in an exception looks at, local variables included."""
        nodes = list(self.closure(test, set()))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        if self.param not in names and not names & set(self.ids):
            return
        bare = {node.operand for node in nodes if isinstance(node, ast.UnaryOp)}
        if self.none_test(test) is True or any(isinstance(n, ast.Name) for n in bare):
            self.checks.add("none")
        if any(isinstance(node, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for node in nodes):
            self.checks.add("range")
            self.checks.update({"last"} if any(map(_below_last, nodes)) else ())
        self.checks.update({"order"} if "sorted" in names else ())
        self.checks.update({"dup"} if names & {"set", "Counter"} else ())

    def closure(self, node: ast.expr, seen: set[str]) -> Iterator[ast.AST]:
        for inner in ast.walk(node):
            yield inner
            if isinstance(inner, ast.Name) and inner.id in self.locals and inner.id not in seen:
                yield from self.closure(self.locals[inner.id], {*seen, inner.id})

    def loop(self, node: ast.For) -> None:
        source, target = node.iter, node.target
        if _enumerates(source) and isinstance(target, ast.Tuple):
            index, layer = target.elts
            if isinstance(index, ast.Name) and isinstance(layer, ast.Name):
                self.items[index.id] = 0
                self.paths[layer.id] = f"{self.path(source.args[0]) or '?'}[]"
        offset = self.shift(source)
        if isinstance(target, ast.Name) and self.known(source):
            self.items[target.id] = offset
        self.block(node.body)

    def known(self, node: ast.expr) -> bool:
        text = ast.unparse(node)
        return any(isinstance(n, ast.Name) and n.id in self.ids for n in ast.walk(node)) or (
            text in self.ids
        )

    def shift(self, node: ast.expr) -> int | None:
        """What was added to the ids in this expression, `None` when that can't be told."""
        if isinstance(node, ast.Name | ast.Attribute):
            return self.ids.get(ast.unparse(node))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            return self.shift(node.args[0]) if node.func.id in _COPIES else None
        if isinstance(node, ast.BoolOp):
            return self.shift(node.values[0])
        if isinstance(node, ast.IfExp):
            both = self.shift(node.body), self.shift(node.orelse)
            return both[0] if both[0] == both[1] else None
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            return self.comprehension(node)
        return None

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> int | None:
        first = node.generators[0]
        base = self.shift(first.iter)
        if base is None or not isinstance(first.target, ast.Name):
            return None
        return linear(node.elt, {first.target.id: base})

    def path(self, node: ast.expr) -> str | None:
        """`model.language_model` for `self.model.language_model`; local aliases are followed."""
        if isinstance(node, ast.Name):
            return self.paths.get(node.id)
        if isinstance(node, ast.Subscript):
            owner = self.path(node.value)
            return None if owner is None else f"{owner}[]"
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "super":
                return "super"
            owner = self.path(node.func)
            return None if owner is None else f"{owner}()"
        if isinstance(node, ast.Attribute):
            owner = self.path(node.value)
            return None if owner is None else f"{owner}.{node.attr}".lstrip(".")
        return None

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.locals[target.id] = value
            path = self.path(value)
            if target.id in self.paths and self.branches:
                self.paths[target.id] = "?"
            elif path is not None and not CONTAINER.fullmatch(path.rpartition(".")[2]):
                self.paths[target.id] = path
            if self.known(value):
                self.ids[target.id] = self.shift(value)
        elif isinstance(target, ast.Attribute) and CONTAINER.fullmatch(target.attr):
            offset = self.shift(value)
            self.ids[ast.unparse(target)] = offset
            self.effect("store", self.path(target.value), target.attr, offset, target.lineno)
        elif isinstance(target, ast.Attribute) and FLAG.fullmatch(target.attr):
            self.mark(target.value, target.attr, value)

    def mark(self, layer: ast.expr, flag: str, value: ast.expr) -> None:
        """A flag on one layer: chosen by its subscript, or by a comparison of its index."""
        offset: int | None = None
        if isinstance(value, ast.Compare) and isinstance(value.ops[0], ast.In):
            held = self.shift(value.comparators[0])
            moved = linear(value.left, self.items)
            offset = None if held is None or moved is None else held - moved
        elif isinstance(layer, ast.Subscript):
            offset = linear(layer.slice, self.items)
        path = self.path(layer)
        owner = None if path is None else re.sub(r"\.?layers\[\]$", "", path)
        self.effect("mark", owner, flag, offset, layer.lineno)

    def call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if is_hook(name) and isinstance(node.func, ast.Attribute):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            offset = self.shift(given[0]) if given else None
            self.effect("call", self.path(node.func.value), name, offset, node.lineno)
        elif isinstance(node.func, ast.Name) and node.func.id == "setattr":
            flag = node.args[1].value if isinstance(node.args[1], ast.Constant) else ""
            if FLAG.fullmatch(str(flag)):
                self.mark(node.args[0], str(flag), node.args[2])

    def effect(self, kind: str, path: str | None, name: str, offset: int | None, line: int) -> None:
        self.effects.append(Effect(kind, "?" if path is None else path, name, offset, line))


def _enumerates(node: ast.expr) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "enumerate"
    )


def _below_last(node: ast.AST) -> bool:
    """Whether a comparison keeps an id below depth - 1: `id < depth - 1`."""
    if not isinstance(node, ast.Compare):
        return False
    pairs = zip(node.ops, node.comparators, strict=True)
    return any(isinstance(op, ast.Lt) and constant_part(bound) == -1 for op, bound in pairs)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def _merged(effects: list[Effect]) -> Iterator[Effect]:
    """One effect per target: branches that add different amounts leave the offset untold."""
    targets: dict[tuple[str, str, str], list[Effect]] = {}
    for effect in effects:
        targets.setdefault((effect.kind, effect.path, effect.name), []).append(effect)
    for (kind, path, name), same in targets.items():
        offsets = {effect.offset for effect in same}
        offset = same[0].offset if len(offsets) == 1 else None
        yield Effect(kind, path, name, offset, same[-1].line)
