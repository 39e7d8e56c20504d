"""What methods do with layer ids and planes.

Three small readings of a method's statements, each in one pass and without running anything:

* a *hook*: what it adds to the ids, where it puts them, what it refuses;
* a *body*: where it compares a boundary with the ids it holds, seen from the loop over its layers;
* the *hand-over*: how many values come back with the planes, and how many are taken apart.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, TypeGuard

from matrix.scan._facts import ClassFacts, Effect, Forward, IdShift, Setter
from matrix.scan._linear import Indices, constant_part, linear
from matrix.scan._sites import sites_of
from matrix.scan._words import CONTAINER, FLAG, PLANES, SHIFT_KEYS, is_hook

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["add_method", "id_functions", "id_shifts", "refusals", "statements", "targets"]

Function = ast.FunctionDef | ast.AsyncFunctionDef

_CAPTURE: Final = ("_to_capture", "aux_hidden_state_layers", "_maybe_add_hidden_state")
_COPIES: Final = ("list", "tuple", "set", "sorted", "frozenset")
_LAST_RANK: Final = re.compile(r"is_last_rank|pp_group|pp_size|get_pp_group")


def add_method(facts: ClassFacts, node: Function, text: str) -> None:
    """Adds what one method says to the facts of its class; `text` is its source."""
    if is_hook(node.name):
        facts.setters.setdefault(node.name, []).append(read_hook(node))
    elif node.name != "_maybe_add_hidden_state":
        facts.sites.pop(node.name, None)
        sites = sites_of(node) if any(word in text for word in _CAPTURE) else []
        facts.sites.update({node.name: sites} if sites else {})
    if f"super().{node.name}(" in text:
        facts.inherits = (*facts.inherits, node.name)
    if node.name == "forward" or "aux" in text:
        facts.forwards[node.name] = _hand_over(node)
    if node.name == "forward" and "is_last_rank" in text:
        facts.early_pp = _early_return(node)


def _early_return(node: Function) -> int:
    for inner in statements(node.body):
        if isinstance(inner, ast.If) and "is_last_rank" in ast.unparse(inner.test):
            for statement in inner.body:
                if isinstance(statement, ast.Return):
                    return statement.lineno
    return 0


def statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement of a function, nested blocks included, nested functions and classes not."""
    for node in body:
        yield node
        if isinstance(node, Function | ast.ClassDef):
            continue
        for block in ("body", "orelse", "finalbody"):
            yield from statements(getattr(node, block, ()))
        for handler in getattr(node, "handlers", ()):
            yield from statements(handler.body)


def targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    """What an assignment assigns to."""
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of functions and classes inside it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, Function | ast.ClassDef | ast.Lambda):
            yield from _own_nodes(child)


def _hand_over(node: Function) -> Forward:
    returns: list[tuple[int, int]] = []
    unpacks: list[tuple[int, int]] = []
    from_module: set[str] = set()
    drops = 0
    for inner in statements(node.body):
        if isinstance(inner, ast.Assign):
            target, value = inner.targets[0], inner.value
            if isinstance(target, ast.Name) and _calls_module(value):
                from_module.add(target.id)
            if not isinstance(target, ast.Tuple):
                continue
            if not isinstance(value, ast.Name | ast.Call | ast.Attribute):
                continue
            if any(_is_planes(part) for part in target.elts):
                unpacks.append((len(target.elts), inner.lineno))
            elif isinstance(value, ast.Name) and value.id in from_module:
                drops = inner.lineno
        elif isinstance(inner, ast.Return) and _holds_planes(inner.value):
            returns.append((len(inner.value.elts), inner.lineno))
    return Forward(tuple(returns), tuple(unpacks), drops)


def _holds_planes(node: ast.expr | None) -> TypeGuard[ast.Tuple]:
    return isinstance(node, ast.Tuple) and any(_is_planes(part) for part in node.elts)


def _is_planes(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return isinstance(node, ast.Name) and PLANES.fullmatch(node.id) is not None


def _calls_module(node: ast.expr) -> bool:
    """`self.model(...)`, `self.model.forward(...)` or `super().forward(...)`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value
    if isinstance(owner, ast.Name):
        return owner.id == "self"
    if isinstance(owner, ast.Call):
        return isinstance(owner.func, ast.Name) and owner.func.id == "super"
    return isinstance(owner, ast.Attribute) and node.func.attr == "forward"


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
    for inner in _own_nodes(node):
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
    for inner in _own_nodes(node):
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
    for outer in _own_nodes(node):
        if isinstance(outer, ast.If) and any(n is inside for b in outer.body for n in ast.walk(b)):
            for value in ast.walk(outer.test):
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.value


def _model_types(node: Function) -> Iterator[str]:
    for inner in _own_nodes(node):
        if isinstance(inner, ast.Compare) and "model_type" in ast.unparse(inner.left):
            for value in inner.comparators:
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.value
