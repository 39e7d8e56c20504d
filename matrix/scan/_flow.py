"""What a method says of capturing: a hook, a body's sites, how planes are handed over."""

from __future__ import annotations

import ast
from typing import Final, TypeGuard

from matrix.scan._facts import ClassFacts, Forward
from matrix.scan._hook import read_hook
from matrix.scan._sites import sites_of
from matrix.scan._syntax import Function, statements
from matrix.scan._words import PLANES, is_hook

__all__ = ["add_method"]

_CAPTURE: Final = ("_to_capture", "aux_hidden_state_layers", "_maybe_add_hidden_state")


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
