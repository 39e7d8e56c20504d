"""From a class statement to its facts: attributes, what its methods do, what its instances hold."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from matrix.scan._facts import Attr, ClassFacts, Ref
from matrix.scan._flow import add_method
from matrix.scan._refs import NEVER, branches, local_imports, ref_of
from matrix.scan._syntax import Function, dotted, last_name, statements, targets
from matrix.scan._words import HOOKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["class_facts", "value_attr"]

_BUILDER: Final = re.compile(
    r"_?(init|build|create|make|get|load)_|(language_)?model$|llm$|backbone$|transformer$|decoder$"
)
_LONGEST_BUILDER: Final = 4000
"""Characters; what is longer runs modules and makes none."""


def class_facts(
    node: ast.ClassDef, lines: list[str], params: dict[str, Ref] | None = None
) -> ClassFacts:
    """The facts of one class statement; `params` are those of a function around it."""
    facts = ClassFacts(
        node.name,
        node.lineno,
        tuple(ref_of(base, params) for base in node.bases),
        tuple(ref_of(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list),
    )
    _class_block(node.body, facts, lines, guarded=False)
    return facts


def _class_block(
    body: Iterable[ast.stmt], facts: ClassFacts, lines: list[str], *, guarded: bool
) -> None:
    for node in body:
        if isinstance(node, Function):
            _method(node, facts, lines, guarded=guarded)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in targets(node):
                if isinstance(target, ast.Name):
                    declared = Attr("declared", node.lineno)
                    value = node.value
                    attr = declared if value is None else value_attr(value, guarded=guarded)
                    facts.attrs.setdefault(target.id, []).append(attr)
        elif isinstance(node, ast.ClassDef):
            nested = Attr("value", node.lineno, None, guarded)
            facts.attrs.setdefault(node.name, []).append(nested)
        else:
            for inner, guards in branches(node):
                if NEVER not in guards:
                    _class_block(inner, facts, lines, guarded=guarded or bool(guards))


def _method(node: Function, facts: ClassFacts, lines: list[str], *, guarded: bool) -> None:
    text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
    source = ast.unparse(node) if node.name in HOOKS else ""
    facts.attrs.setdefault(node.name, []).append(Attr("def", node.lineno, None, guarded, source))
    add_method(facts, node, text)
    if node.name == "__init__" or _may_build(node, text):
        _builders(facts, node)


def value_attr(value: ast.expr, *, guarded: bool) -> Attr:
    if isinstance(value, ast.Constant):
        return Attr("none" if value.value is None else "value", value.lineno, None, guarded)
    return Attr("value", value.lineno, ref_of(value), guarded)


def _may_build(node: Function, text: str) -> bool:
    """Whether a method may be one that makes a module, or a property that holds one."""
    named = _BUILDER.match(node.name) is not None
    return named and "return" in text and len(text) < _LONGEST_BUILDER


def _builders(facts: ClassFacts, node: Function) -> None:
    """Notes which classes a method builds, and with which class-valued arguments."""
    args = [*node.args.args, *node.args.kwonlyargs]
    defaults = dict(_defaults(node.args))
    local = {a.arg: Ref("param", a.arg, defaults.get(a.arg, ())) for a in args[1:]}
    built: dict[str, Ref] = {}
    if node.name == "__init__":
        facts.init_params = tuple(a.arg for a in args[1:])
    for statement in statements(node.body):
        if isinstance(statement, ast.ImportFrom):
            local.update(local_imports(statement))
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            for target in targets(statement):
                _built(facts, target, statement.value, local, built)
        elif isinstance(statement, ast.Return) and statement.value is not None:
            made = _built_by(statement.value, local, built)
            if made is not None:
                facts.returned[node.name] = made
        elif (
            node.name == "__init__"
            and isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Call)
            and last_name(statement.value.func) == "__init__"
        ):
            _init_args(facts, statement.value, local)


def _defaults(args: ast.arguments) -> Iterator[tuple[str, tuple[Ref, ...]]]:
    plain = args.args[len(args.args) - len(args.defaults) :]
    for arg, default in zip(plain, args.defaults, strict=True):
        yield arg.arg, (ref_of(default),)
    for arg, value in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if value is not None:
            yield arg.arg, (ref_of(value),)


def _built(
    facts: ClassFacts,
    target: ast.expr,
    value: ast.expr,
    local: dict[str, Ref],
    built: dict[str, Ref],
) -> None:
    made = _built_by(value, local, built)
    if isinstance(target, ast.Name):
        if made is not None:
            built[target.id] = made
        known = ref_of(value, local)
        before = local.get(target.id)
        several = before is not None and before != known and before.kind != "none"
        local[target.id] = Ref("choice", "", (before, known)) if several and before else known
    elif made is not None and (dotted(target) or "").count(".") == 1:
        owner, _, name = (dotted(target) or "").partition(".")
        if owner == "self":
            facts.children.setdefault(name, []).append(made)


def _built_by(value: ast.expr, local: dict[str, Ref], built: dict[str, Ref]) -> Ref | None:
    """The class whose instance the expression is, `None` when it builds nothing of its own."""
    if isinstance(value, ast.Name):
        return built.get(value.id)
    if isinstance(value, ast.IfExp):
        made = [_built_by(part, local, built) for part in (value.body, value.orelse)]
        known = tuple(ref for ref in made if ref is not None)
        return Ref("choice", "", known) if known else None
    name = dotted(value)
    if name is not None and name.startswith("self.") and name.count(".") in (1, 2):
        return Ref("child", name[5:])
    if not isinstance(value, ast.Call):
        return None
    if last_name(value.func) == "init_vllm_registered_model":
        return _registered(value)
    func = ref_of(value.func, local)
    return Ref("method", func.name) if func.kind == "self" else func


def _registered(call: ast.Call) -> Ref:
    for keyword in call.keywords:
        if keyword.arg == "architectures" and isinstance(keyword.value, ast.List):
            names = [item.value for item in keyword.value.elts if isinstance(item, ast.Constant)]
            return Ref("choice", "", tuple(Ref("arch", str(name)) for name in names))
    return Ref("unknown", "the config names the language model at load")


def _init_args(facts: ClassFacts, call: ast.Call, local: dict[str, Ref]) -> None:
    explicit = isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)
    pairs = [(f"#{i}", arg) for i, arg in enumerate(call.args[1 if explicit else 0 :])]
    pairs += [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg]
    for name, value in pairs:
        ref = ref_of(value, local)
        last = ref.name.rpartition(".")[2]
        if ref.kind == "param" or (ref.kind in ("name", "self") and last[:1].isupper()):
            facts.init_args[name] = ref
