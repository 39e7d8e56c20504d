"""From a parsed file to its names: what is bound where, and under which condition.

Statements are followed, expressions only as far as they can name a class. Conditions on the
platform are kept, because engines pick whole model files by them; other conditions are kept as
"can't be told".
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from matrix.scan._classes import class_facts, value_attr
from matrix.scan._facts import Binding, FunctionFacts, Guard, ModuleFacts, Ref
from matrix.scan._ids import id_functions, id_shifts, refusals
from matrix.scan._refs import branches, guard_of, local_imports, negated, ref_of
from matrix.scan._syntax import Function, dotted, last_name, statements, targets
from matrix.scan._words import INTEREST, SHIFT_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PLATFORMS", "module_facts"]

PLATFORMS: Final = ("cuda", "rocm", "cpu", "xpu", "npu")
"""Platforms whose twins are compared."""


def module_facts(source: bytes) -> ModuleFacts:
    """The facts of one file.

    Raises:
        SyntaxError: the file doesn't parse; a file that isn't UTF-8 raises it too.
        ValueError: it holds a null byte.
    """
    tree = ast.parse(source)
    text = source.decode("utf-8", errors="replace")
    lines = text.split("\n")
    facts = ModuleFacts(words=[word for word in INTEREST if word in text])
    _block(tree.body, (), facts, lines)
    if any(key in text for key in SHIFT_KEYS):
        functions = id_functions(tree, lines)
        facts.shifts = id_shifts(functions)
        facts.refusals = refusals(functions)
    return facts


def _block(
    body: Iterable[ast.stmt], guards: tuple[Guard, ...], facts: ModuleFacts, lines: list[str]
) -> None:
    for node in body:
        if isinstance(node, ast.ClassDef):
            key = node.name if node.name not in facts.classes else f"{node.name}@{node.lineno}"
            facts.classes[key] = class_facts(node, lines)
            _bind(facts.names, node.name, Binding("class", Ref("name", key), guards))
        elif isinstance(node, Function):
            _function(node, guards, facts, lines)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            _import(node, guards, facts.names, facts.stars)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            _assign(node, guards, facts)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            _statement_call(node.value, facts)
        else:
            for inner, more in branches(node):
                _block(inner, (*guards, *more), facts, lines)


def _bind(names: dict[str, list[Binding]], name: str, binding: Binding) -> None:
    names.setdefault(name, []).append(binding)


def _import(
    node: ast.Import | ast.ImportFrom,
    guards: tuple[Guard, ...],
    names: dict[str, list[Binding]],
    stars: list[Binding],
) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            target = alias.name if alias.asname else alias.name.partition(".")[0]
            ref = Ref("name", f"{target}:")
            _bind(names, alias.asname or target, Binding("import", ref, guards))
        return
    module = "." * node.level + (node.module or "")
    for alias in node.names:
        if alias.name == "*":
            stars.append(Binding("import", Ref("name", f"{module}:*"), guards))
        else:
            ref = Ref("name", f"{module}:{alias.name}")
            _bind(names, alias.asname or alias.name, Binding("import", ref, guards))


def _assign(
    node: ast.Assign | ast.AnnAssign | ast.AugAssign,
    guards: tuple[Guard, ...],
    facts: ModuleFacts,
) -> None:
    if node.value is None:
        return
    for target in [node.target] if isinstance(node, ast.AugAssign) else targets(node):
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            _attach(facts, target.value.id, target.attr, node.value)
        if not isinstance(target, ast.Name):
            continue
        if target.id == "EntryClass":
            _entries(facts, node.value)
        else:
            if isinstance(node.value, ast.Dict):
                _table(facts, target.id, node.value)
            _bind(facts.names, target.id, Binding("value", ref_of(node.value), guards))


def _entries(facts: ModuleFacts, value: ast.expr) -> None:
    if isinstance(value, ast.BinOp):
        _entries(facts, value.left)
        _entries(facts, value.right)
    elif isinstance(value, ast.List | ast.Tuple | ast.Set):
        facts.entries.extend(ref_of(item) for item in value.elts)
    elif not (isinstance(value, ast.Name) and value.id == "EntryClass"):
        facts.entries.append(ref_of(value))


def _table(facts: ModuleFacts, name: str, value: ast.Dict) -> None:
    rows: dict[str, tuple[str, str, int]] = {}
    for key, item in zip(value.keys, value.values, strict=True):
        if key is None:
            facts.tables_of.setdefault(name, []).append(last_name(item))
        elif (
            isinstance(key, ast.Constant)
            and isinstance(item, ast.Tuple)
            and len(item.elts) == 2
            and all(isinstance(part, ast.Constant) for part in item.elts)
        ):
            module, cls = (str(ast.literal_eval(part)) for part in item.elts)
            rows[str(key.value)] = (module, cls, key.lineno)
    if rows:
        facts.tables[name] = rows


def _attach(facts: ModuleFacts, owner: str, name: str, value: ast.expr) -> None:
    """`Class.attribute = value` outside of the class statement."""
    cls = facts.classes.get(owner)
    if cls is not None:
        cls.attrs.setdefault(name, []).append(value_attr(value, guarded=False))


def _statement_call(call: ast.Call, facts: ModuleFacts) -> None:
    name = dotted(call.func)
    if name in ("EntryClass.append", "EntryClass.extend") and call.args:
        _entries(facts, call.args[0])
    elif name == "setattr" and len(call.args) == 3 and isinstance(call.args[1], ast.Constant):
        _attach(facts, dotted(call.args[0]) or "", str(call.args[1].value), call.args[2])


def _function(
    node: Function, guards: tuple[Guard, ...], facts: ModuleFacts, lines: list[str]
) -> None:
    if node.name == "__getattr__":
        _lazy(node.body, node.args.args[0].arg, guards, {}, facts.lazy)
        return
    made = FunctionFacts(tuple(arg.arg for arg in node.args.args))
    params = {name: Ref("param", name) for name in made.params}
    returns: list[Ref] = []
    for inner in statements(node.body):
        if isinstance(inner, ast.ClassDef):
            made.classes[inner.name] = class_facts(inner, lines, params)
        elif isinstance(inner, ast.ImportFrom):
            params.update(local_imports(inner))
        elif isinstance(inner, ast.Return) and inner.value is not None:
            returns.append(ref_of(inner.value, params))
        elif isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Name):
            params[inner.targets[0].id] = ref_of(inner.value, params)
    _bind(facts.names, node.name, Binding("function", Ref("name", node.name), guards))
    if made.classes or any(ref.kind != "unknown" for ref in returns):
        made.returns = tuple(returns)
        facts.functions[node.name] = made


def _lazy(
    body: Iterable[ast.stmt],
    param: str,
    guards: tuple[Guard, ...],
    local: dict[str, str],
    lazy: dict[str, list[Binding]],
) -> None:
    """What a module's `__getattr__` gives; tests of the name itself are taken as true."""
    for node in body:
        if isinstance(node, ast.ImportFrom):
            _import(node, guards, lazy, [])
            module = "." * node.level + (node.module or "")
            dot = "" if module.endswith(".") else "."
            local.update({a.asname or a.name: f"{module}{dot}{a.name}" for a in node.names})
        elif isinstance(node, ast.Return) and node.value is not None:
            _lazy_return(node.value, param, guards, local, lazy)
        elif isinstance(node, ast.If):
            asks_name = any(isinstance(n, ast.Name) and n.id == param for n in ast.walk(node.test))
            guard = () if asks_name else (guard_of(node.test),)
            _lazy(node.body, param, (*guards, *guard), local, lazy)
            rest = (*guards, *map(negated, guard))
            _lazy(node.orelse, param, rest, local, lazy)
            if isinstance(node.body[-1], ast.Return | ast.Raise):
                guards = rest


def _lazy_return(
    value: ast.expr,
    param: str,
    guards: tuple[Guard, ...],
    local: dict[str, str],
    lazy: dict[str, list[Binding]],
) -> None:
    if isinstance(value, ast.Call) and last_name(value.func) == "getattr":
        module, asked = value.args[0], value.args[1]
        if isinstance(asked, ast.Name) and asked.id == param:
            target = local.get(last_name(module))
            if target:
                _bind(lazy, "*", Binding("import", Ref("name", f"{target}:*"), guards))
    elif isinstance(value, ast.Attribute):
        target = local.get(last_name(value.value))
        if target:
            _bind(
                lazy, value.attr, Binding("import", Ref("name", f"{target}:{value.attr}"), guards)
            )
