"""Expressions that name classes, and conditions under which names are bound."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from matrix.scan._facts import Guard, Ref
from matrix.scan._syntax import dotted, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NEVER", "UNTOLD", "branches", "guard_of", "local_imports", "negated", "ref_of"]

_TESTS: Final = {
    "cuda": ("cuda",),
    "rocm": ("rocm",),
    "hip": ("rocm",),
    "cuda_alike": ("cuda", "rocm"),
    "cpu": ("cpu",),
    "xpu": ("xpu",),
    "npu": ("npu",),
    "tpu": ("tpu",),
    "hpu": ("hpu",),
    "musa": ("musa",),
    "mps": ("mps",),
}
_TEST: Final = re.compile(rf"_*is_({'|'.join(_TESTS)})$")
NEVER: Final = Guard(())
"""A condition that never holds as a program runs."""
UNTOLD: Final = Guard(None)
"""A condition that source doesn't tell."""


def guard_of(test: ast.expr) -> Guard:
    """The condition, as far as it is one on the platform."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = guard_of(test.operand)
        return Guard(inner.platforms, not inner.positive)
    if isinstance(test, ast.BoolOp):
        return _join(test)
    name = last_name(test.func if isinstance(test, ast.Call) else test)
    if name == "TYPE_CHECKING":
        return NEVER
    match = _TEST.match(name)
    return Guard(_TESTS[match[1]]) if match else UNTOLD


def _join(test: ast.BoolOp) -> Guard:
    guards = [guard_of(value) for value in test.values]
    sets = [set(guard.platforms) for guard in guards if guard.platforms is not None]
    if len(sets) < len(guards) or not all(guard.positive for guard in guards):
        return UNTOLD
    union = isinstance(test.op, ast.Or)
    joined = set.union(*sets) if union else set.intersection(*sets)
    return Guard(tuple(sorted(joined)))


def negated(guard: Guard) -> Guard:
    return Guard(guard.platforms, not guard.positive)


def branches(node: ast.stmt) -> Iterator[tuple[list[ast.stmt], tuple[Guard, ...]]]:
    if isinstance(node, ast.If):
        guard = guard_of(node.test)
        yield node.body, (guard,)
        yield node.orelse, (negated(guard),)
    elif isinstance(node, ast.Try):
        yield node.body, ()
        for handler in node.handlers:
            yield handler.body, (UNTOLD,)
        yield node.orelse + node.finalbody, ()
    elif isinstance(node, ast.With):
        yield node.body, ()
    elif isinstance(node, ast.For | ast.While):
        yield node.body, (UNTOLD,)


def ref_of(node: ast.expr, local: dict[str, Ref] | None = None) -> Ref:
    """The class that an expression names; `local` holds parameters and local variables."""
    local = local or {}
    if isinstance(node, ast.Subscript):
        return ref_of(node.value, local)
    if isinstance(node, ast.Constant) and node.value is None:
        return Ref("none", "")
    if isinstance(node, ast.IfExp):
        return Ref("choice", "", (ref_of(node.body, local), ref_of(node.orelse, local)))
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return Ref("choice", "", tuple(ref_of(value, local) for value in node.values))
    if isinstance(node, ast.Call):
        return _call_ref(node, local)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
        own = last_name(node.value.func) == "type"
        return Ref("self", node.attr) if own else Ref("unknown", "attribute of a call")
    name = dotted(node)
    if name is None:
        return Ref("unknown", f"a {type(node).__name__} expression")
    root, _, rest = name.partition(".")
    if root in local and not rest:
        return local[root]
    if root in ("self", "cls"):
        return Ref("self", rest) if rest and "." not in rest else Ref("unknown", name)
    return Ref("name", name)


def _call_ref(node: ast.Call, local: dict[str, Ref]) -> Ref:
    if isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 3:
        bases = node.args[1]
        made = bases.elts if isinstance(bases, ast.Tuple) else [bases]
        return Ref("type", "", tuple(ref_of(base, local) for base in made))
    func = ref_of(node.func, local)
    if func.kind == "self":
        return Ref("method", func.name)
    if func.kind != "name":
        return Ref("unknown", "a call of something computed")
    return Ref("call", func.name, tuple(ref_of(arg, local) for arg in node.args))


def local_imports(node: ast.ImportFrom) -> Iterator[tuple[str, Ref]]:
    module = "." * node.level + (node.module or "")
    for alias in node.names:
        yield alias.asname or alias.name, Ref("import", f"{module}:{alias.name}")
