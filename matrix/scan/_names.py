"""From a parsed file to its names: what is bound where, and under which condition.

Statements are followed, expressions only as far as they can name a class. Conditions on the
platform are kept, because engines pick whole model files by them; other conditions are kept as
"can't be told".
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from matrix.scan._facts import Attr, Binding, ClassFacts, FunctionFacts, Guard, ModuleFacts, Ref
from matrix.scan._flow import add_method, id_functions, id_shifts, refusals, statements, targets
from matrix.scan._words import HOOKS, INTEREST, SHIFT_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["PLATFORMS", "module_facts"]

Function = ast.FunctionDef | ast.AsyncFunctionDef

PLATFORMS: Final = ("cuda", "rocm", "cpu", "xpu", "npu")
"""Platforms whose twins are compared."""

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
_LONGEST_BUILDER: Final = 4000
_NEVER: Final = Guard(())
_UNTOLD: Final = Guard(None)


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


def guard_of(test: ast.expr) -> Guard:
    """The condition, as far as it is one on the platform."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = guard_of(test.operand)
        return Guard(inner.platforms, not inner.positive)
    if isinstance(test, ast.BoolOp):
        return _join(test)
    name = _last_name(test.func if isinstance(test, ast.Call) else test)
    if name == "TYPE_CHECKING":
        return _NEVER
    match = _TEST.match(name)
    return Guard(_TESTS[match[1]]) if match else _UNTOLD


def _join(test: ast.BoolOp) -> Guard:
    guards = [guard_of(value) for value in test.values]
    sets = [set(guard.platforms) for guard in guards if guard.platforms is not None]
    if len(sets) < len(guards) or not all(guard.positive for guard in guards):
        return _UNTOLD
    union = isinstance(test.op, ast.Or)
    joined = set.union(*sets) if union else set.intersection(*sets)
    return Guard(tuple(sorted(joined)))


def _not(guard: Guard) -> Guard:
    return Guard(guard.platforms, not guard.positive)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def dotted(node: ast.expr) -> str | None:
    """`a.b.c` as a string, `None` for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


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
        own = _last_name(node.value.func) == "type"
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
            for inner, more in _branches(node):
                _block(inner, (*guards, *more), facts, lines)


def _branches(node: ast.stmt) -> Iterator[tuple[list[ast.stmt], tuple[Guard, ...]]]:
    if isinstance(node, ast.If):
        guard = guard_of(node.test)
        yield node.body, (guard,)
        yield node.orelse, (_not(guard),)
    elif isinstance(node, ast.Try):
        yield node.body, ()
        for handler in node.handlers:
            yield handler.body, (_UNTOLD,)
        yield node.orelse + node.finalbody, ()
    elif isinstance(node, ast.With):
        yield node.body, ()
    elif isinstance(node, ast.For | ast.While):
        yield node.body, (_UNTOLD,)


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
            facts.tables_of.setdefault(name, []).append(_last_name(item))
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
        cls.attrs.setdefault(name, []).append(_value_attr(value, guarded=False))


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
            params.update(_local_imports(inner))
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
            rest = (*guards, *map(_not, guard))
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
    if isinstance(value, ast.Call) and _last_name(value.func) == "getattr":
        module, asked = value.args[0], value.args[1]
        if isinstance(asked, ast.Name) and asked.id == param:
            target = local.get(_last_name(module))
            if target:
                _bind(lazy, "*", Binding("import", Ref("name", f"{target}:*"), guards))
    elif isinstance(value, ast.Attribute):
        target = local.get(_last_name(value.value))
        if target:
            _bind(
                lazy, value.attr, Binding("import", Ref("name", f"{target}:{value.attr}"), guards)
            )


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
                    attr = declared if value is None else _value_attr(value, guarded=guarded)
                    facts.attrs.setdefault(target.id, []).append(attr)
        elif isinstance(node, ast.ClassDef):
            nested = Attr("value", node.lineno, None, guarded)
            facts.attrs.setdefault(node.name, []).append(nested)
        else:
            for inner, guards in _branches(node):
                if _NEVER not in guards:
                    _class_block(inner, facts, lines, guarded=guarded or bool(guards))


def _method(node: Function, facts: ClassFacts, lines: list[str], *, guarded: bool) -> None:
    text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
    source = ast.unparse(node) if node.name in HOOKS else ""
    facts.attrs.setdefault(node.name, []).append(Attr("def", node.lineno, None, guarded, source))
    add_method(facts, node, text)
    if node.name == "__init__" or _may_build(node, text):
        _builders(facts, node)


def _value_attr(value: ast.expr, *, guarded: bool) -> Attr:
    if isinstance(value, ast.Constant):
        return Attr("none" if value.value is None else "value", value.lineno, None, guarded)
    return Attr("value", value.lineno, ref_of(value), guarded)


def _may_build(node: Function, text: str) -> bool:
    """Whether a method may be one that makes a module; those that run one are long and many."""
    runs = "forward" in node.name or "load_weights" in node.name
    return "return" in text and not runs and len(text) < _LONGEST_BUILDER


def _local_imports(node: ast.ImportFrom) -> Iterator[tuple[str, Ref]]:
    module = "." * node.level + (node.module or "")
    for alias in node.names:
        yield alias.asname or alias.name, Ref("import", f"{module}:{alias.name}")


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
            local.update(_local_imports(statement))
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
            and _last_name(statement.value.func) == "__init__"
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
    if _last_name(value.func) == "init_vllm_registered_model":
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
