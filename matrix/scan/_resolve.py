"""Names to classes across files: imports, aliases, star imports, factories, inheritance.

Python's own rules, applied to facts instead of to running modules. Where a rule needs something
that only a running program knows, the answer is `Untold` with the reason, never a guess.
"""

from __future__ import annotations

import builtins
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from matrix.scan._facts import Attr, Binding, ClassFacts, FunctionFacts, Guard, ModuleFacts, Ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from matrix.scan._read import Reader

__all__ = ["Cls", "External", "Found", "Tree", "Untold"]

_DEEPEST: Final = 30
_MOST_LINES_OF_DESCENT: Final = 16


@dataclass(frozen=True)
class External:
    """A name from outside of the tree (torch, transformers): it can hold no hook of the engine."""

    name: str


@dataclass(frozen=True)
class Untold:
    """Something that can't be decided from source."""

    reason: str


@dataclass(frozen=True)
class Cls:
    """One class of the tree; `env` binds the parameters of a factory around it."""

    module: str
    key: str
    facts: ClassFacts = field(compare=False, repr=False)
    env: Env = ()

    @property
    def name(self) -> str:
        """The class's own name."""
        return self.facts.name


@dataclass(frozen=True)
class _Module:
    name: str


@dataclass(frozen=True)
class _Function:
    module: str
    facts: FunctionFacts = field(compare=False)
    name: str = ""


Found = Cls | External | Untold
Env = tuple[tuple[str, tuple[Found, ...]], ...]
"""What the parameters of a factory are bound to."""
Target = Found | _Module | _Function
Mro = tuple[Found, ...]


class Tree:
    """An engine's modules, on one platform.

    Args:
        reader: gives the facts of files.
        platform: which side of a condition on the platform is taken.
        registered: architecture -> (module, class); may be filled in later.
    """

    def __init__(
        self,
        reader: Reader,
        platform: str,
        registered: dict[str, tuple[str, str]],
    ) -> None:
        self.reader, self.platform, self.registered = reader, platform, registered
        self._mros: dict[Cls, list[Mro]] = {}
        self._owners: dict[Cls, Owner] = {}
        self._names: dict[tuple[str, str], tuple[Target, ...]] = {}
        self.split = False
        """Whether anything resolved so far depended on the platform."""

    def facts(self, module: str) -> ModuleFacts | None:
        """The facts of a module, `None` when the tree has no such module."""
        path = self.reader.source.module_file(module)
        return None if path is None else self.reader.facts(path)

    def file(self, cls: Cls) -> str:
        """The file a class stands in."""
        return self.reader.source.module_file(cls.module) or ""

    def find(self, module: str, name: str) -> tuple[Found, ...]:
        """The classes that a dotted name can mean in a module."""
        return tuple(_found(target) for target in self._lookup(module, name, 0))

    def resolve(self, module: str, ref: Ref, owner: Owner | None = None) -> tuple[Found, ...]:
        """The classes that an expression can mean; `owner` is whose attributes `self` has."""
        return _preferred(_found(target) for target in self._resolve(module, ref, owner, 0))

    # names

    def _lookup(self, module: str, name: str, depth: int) -> tuple[Target, ...]:
        if depth > _DEEPEST:
            return (Untold(f"{name}: imported in a circle"),)
        root, _, rest = name.partition(".")
        targets = self._root(module, root, depth)
        while rest:
            part, _, rest = rest.partition(".")
            targets = tuple(t for target in targets for t in self._member(target, part, depth))
        return targets

    def _root(self, module: str, name: str, depth: int) -> tuple[Target, ...]:
        known = self._names.get((module, name))
        if known is None:
            known = self._bound(module, name, depth)
            self._names[module, name] = known
        return known

    def _bound(self, module: str, name: str, depth: int) -> tuple[Target, ...]:
        facts = self.facts(module)
        if facts is None:
            return (External(f"{module}.{name}"),)
        live = self._live(facts.names.get(name, ())) or self._live(facts.lazy.get(name, ()))
        if not live:
            taken = self._live(facts.lazy.get("*", ()))
            live = [_taking(binding, name) for binding in taken]
        found = [t for binding in live for t in self._binding(module, facts, binding, depth)]
        if not live:
            found = list(self._from_stars(module, facts, name, depth))
        if not found and self.reader.source.module_file(f"{module}.{name}"):
            return (_Module(f"{module}.{name}"),)
        return _preferred(found) if found else (self._unbound(module, facts, name),)

    def _unbound(self, module: str, facts: ModuleFacts, name: str) -> Found:
        """A name that no statement binds: built in, from outside by a star, or made as it runs."""
        outside = any(
            self.facts(absolute(self, module, star.ref.name.partition(":")[0])) is None
            for star in facts.stars
        )
        return External(name) if outside or hasattr(builtins, name) else Untold(f"what {name} is")

    def _from_stars(
        self, module: str, facts: ModuleFacts, name: str, depth: int
    ) -> Iterator[Target]:
        for star in reversed(self._live(facts.stars)):
            source = absolute(self, module, star.ref.name.partition(":")[0])
            target = self.facts(source)
            if target is not None and depth < _DEEPEST:
                found = self._bound(source, name, depth + 1)
                if not all(isinstance(t, External) for t in found):
                    yield from found
                    return

    def _live(self, bindings: Iterable[Binding]) -> list[Binding]:
        """What a name can be bound to in the end: the last certain binding and all later ones."""
        live: list[Binding] = []
        for binding in bindings:
            holds = [self._holds(guard) for guard in binding.guards]
            if False in holds:
                continue
            live = [*live, binding] if None in holds else [binding]
        return live

    def _holds(self, guard: Guard) -> bool | None:
        if guard.platforms is None:
            return None
        self.split = self.split or bool(guard.platforms)
        return (self.platform in guard.platforms) == guard.positive

    def _binding(
        self, module: str, facts: ModuleFacts, binding: Binding, depth: int
    ) -> tuple[Target, ...]:
        if binding.kind == "class":
            cls = Cls(module, binding.ref.name, facts.classes[binding.ref.name])
            return self._decorated(cls, depth)
        if binding.kind == "function":
            made = facts.functions.get(binding.ref.name, FunctionFacts())
            return (_Function(module, made, binding.ref.name),)
        if binding.kind == "import":
            return self._imported(module, binding.ref.name, depth)
        return self._resolve(module, binding.ref, None, depth + 1)

    def _imported(self, module: str, target: str, depth: int) -> tuple[Target, ...]:
        source, _, name = target.partition(":")
        source = absolute(self, module, source)
        if not name:
            return (_Module(source),)
        return self._member(_Module(source), name, depth)

    def _decorated(self, cls: Cls, depth: int) -> tuple[Target, ...]:
        """The class as its decorators leave it: another one where a decorator makes a subclass."""
        found: tuple[Target, ...] = (cls,)
        for ref in reversed(cls.facts.decorators):
            if ref.kind != "name" or "." in ref.name:
                continue
            for target in self._lookup(cls.module, ref.name, depth + 1):
                if isinstance(target, _Function) and target.facts.classes:
                    made = self._call(target, (_found_all(found),), depth + 1)
                    found = made if any(isinstance(t, Cls) for t in made) else found
        return found

    def _member(self, target: Target, name: str, depth: int) -> tuple[Target, ...]:
        if isinstance(target, _Module):
            if self.reader.source.module_file(target.name):
                return self._lookup(target.name, name, depth + 1)
            inner = f"{target.name}.{name}"
            inside = self.reader.source.module_file(inner) or self.reader.source.has_folder(inner)
            return (_Module(inner),) if inside else (External(inner),)
        if isinstance(target, Cls):
            return self.class_value(self.owner(target), name)
        if isinstance(target, External):
            return (External(f"{target.name}.{name}"),)
        return (Untold(f"{name}: an attribute of something computed"),)

    # expressions

    def _resolve(
        self, module: str, ref: Ref, owner: Owner | None, depth: int, env: Env = ()
    ) -> tuple[Target, ...]:
        if depth > _DEEPEST:
            return (Untold(f"{ref.name}: refers to itself"),)
        if ref.kind == "param" and ref.name in dict(env):
            return dict(env)[ref.name]
        if ref.kind in ("self", "method", "param", "child") and owner is not None:
            return owner.resolve(module, ref, depth + 1)
        if ref.kind in ("choice", "call"):
            parts = [self._resolve(module, part, owner, depth + 1, env) for part in ref.args]
            if ref.kind == "choice":
                return _preferred(itertools.chain.from_iterable(parts))
            args = tuple(map(_found_all, parts))
            called = self._lookup(module, ref.name, depth + 1)
            return tuple(t for func in called for t in self._call(func, args, depth + 1))
        return self._named(module, ref, depth)

    def _named(self, module: str, ref: Ref, depth: int) -> tuple[Target, ...]:
        if ref.kind == "name":
            return self._lookup(module, ref.name, depth + 1)
        if ref.kind == "import":
            return self._imported(module, ref.name, depth + 1)
        if ref.kind == "arch" and ref.name in self.registered:
            return self._lookup(*self.registered[ref.name], depth + 1)
        if ref.kind == "type":
            made = ClassFacts("type(...)", 0, ref.args)
            return (Cls(module, f"type({', '.join(arg.name for arg in ref.args)})", made),)
        if ref.kind == "none":
            return (External("None"),)
        return (Untold(ref.name or ref.kind),)

    def _call(
        self, func: Target, args: tuple[tuple[Found, ...], ...], depth: int
    ) -> tuple[Target, ...]:
        if isinstance(func, Cls):
            return (func,)
        if isinstance(func, External):
            given = [found for arg in args for found in arg if not isinstance(found, External)]
            if func.name.endswith("partial") and args:
                return args[0]
            return (Untold(f"what {func.name}() makes of it"),) if given else (External(func.name),)
        if not isinstance(func, _Function) or depth > _DEEPEST:
            return (Untold("a call that can't be followed"),)
        env = tuple(zip(func.facts.params, args, strict=False))
        return tuple(self._returned(func, env, depth)) or (Untold(f"what {func.name}() returns"),)

    def _returned(self, func: _Function, env: Env, depth: int) -> Iterator[Target]:
        for ref in func.facts.returns:
            local = func.facts.classes.get(ref.name)
            if ref.kind == "name" and local is not None:
                yield Cls(func.module, f"{func.name}.{ref.name}", local, env)
            else:
                yield from self._resolve(func.module, ref, None, depth + 1, env)

    # inheritance

    def mros(self, cls: Cls) -> list[Mro]:
        """The orders in which attributes are looked up: several when bases can't be told apart."""
        if cls not in self._mros:
            self._mros[cls] = [(cls,)]
            self._mros[cls] = list(self._linearized(cls))
        return self._mros[cls]

    def _linearized(self, cls: Cls) -> Iterator[Mro]:
        choices = []
        for ref in cls.facts.bases:
            found = self._resolve(cls.module, ref, None, 0, cls.env)
            choices.append(_preferred(map(_found, found)) or (Untold("a base"),))
        ways = itertools.islice(itertools.product(*choices), _MOST_LINES_OF_DESCENT)
        for bases in ways:
            lines = [self.mros(b) if isinstance(b, Cls) else [(b,)] for b in bases]
            for line in itertools.islice(itertools.product(*lines), _MOST_LINES_OF_DESCENT):
                yield (cls, *_merge([*line, bases]))

    def owner(self, cls: Cls) -> Owner:
        """A class with its first order of lookup."""
        if cls not in self._owners:
            self._owners[cls] = Owner(self, cls)
        return self._owners[cls]

    def class_value(self, owner: Owner, name: str) -> tuple[Found, ...]:
        """The classes that a class attribute holds."""
        for cls, attr in owner.attrs(name):
            if attr.ref is not None:
                return self.resolve(cls.module, attr.ref, owner)
            return (Untold(f"{cls.name}.{name} is no class"),)
        return (Untold(f"{owner.cls.name}.{name} isn't set in the class"),)


class Owner:
    """A class with one order of lookup: what its instances have and build."""

    def __init__(self, tree: Tree, cls: Cls, mro: Mro | None = None) -> None:
        self.tree, self.cls = tree, cls
        self.mro = mro or tree.mros(cls)[0]
        self._children: dict[str, tuple[Found, ...]] = {}

    def classes(self) -> Iterator[Cls]:
        """Its classes of the tree, nearest first."""
        return (entry for entry in self.mro if isinstance(entry, Cls))

    def untold(self) -> list[str]:
        """Bases that can't be told."""
        return [entry.reason for entry in self.mro if isinstance(entry, Untold)]

    def attrs(self, name: str) -> Iterator[tuple[Cls, Attr]]:
        """Each class's winning definition of an attribute, nearest class first."""
        for cls in self.classes():
            bound = [attr for attr in cls.facts.attrs.get(name, ()) if attr.kind != "declared"]
            if bound:
                yield cls, bound[-1]

    def children(self, name: str) -> tuple[Found, ...]:
        """The classes of the object that instances hold under an attribute."""
        if name not in self._children:
            self._children[name] = ()  # what an attribute that refers to itself finds
            self._children[name] = self._held(name)
        return self._children[name]

    def _held(self, name: str) -> tuple[Found, ...]:
        for cls in self.classes():
            refs = cls.facts.children.get(name)
            if refs:
                found = [f for ref in refs for f in self.tree.resolve(cls.module, ref, self)]
                return _preferred(f for f in found if not _placeholder(f))
            attr = cls.facts.attrs.get(name)
            if attr and name in cls.facts.returned:
                return self.tree.resolve(cls.module, cls.facts.returned[name], self)
        return ()

    def at(self, path: str) -> tuple[Found, ...]:
        """The classes of the object at a dotted path from an instance; `()` for no such path."""
        found: tuple[Found, ...] = (self.cls,)
        for i, part in enumerate(path.split(".") if path else ()):
            owners = [self if i == 0 else self.tree.owner(f) for f in found if isinstance(f, Cls)]
            name = part.removesuffix("()")
            found = tuple(dict.fromkeys(f for owner in owners for f in owner.children(name)))
        return found

    def resolve(self, module: str, ref: Ref, depth: int) -> tuple[Target, ...]:
        """Expressions that need the instance: its attributes, methods, parameters, children."""
        if ref.kind == "child":
            return self.at(ref.name) or (Untold(f"what self.{ref.name} is"),)
        if ref.kind == "param":
            return self._argument(module, ref, depth)
        for cls, attr in self.attrs(ref.name):
            if ref.kind == "method" and ref.name in cls.facts.returned:
                return self.tree._resolve(cls.module, cls.facts.returned[ref.name], self, depth)
            if attr.ref is not None:
                return self.tree._resolve(cls.module, attr.ref, self, depth)
            break
        return (Untold(f"what {self.cls.name}.{ref.name} is"),)

    def _argument(self, module: str, ref: Ref, depth: int) -> tuple[Target, ...]:
        """A parameter of `__init__`: what subclasses pass up, nearest first, else its default."""
        chain = [cls for cls in self.classes() if cls.facts.init_params]
        holders = [i for i, cls in enumerate(chain) if ref.name in cls.facts.init_params]
        at = max((i for i in holders if chain[i].module == module), default=0)
        while at > 0:
            passed = self._passed(chain[at - 1], chain[at], ref.name)
            if passed is None:
                break
            at, ref = at - 1, passed
            if ref.kind != "param":
                return self.tree._resolve(chain[at].module, ref, self, depth)
        if ref.args:
            return self.tree._resolve(chain[at].module, ref.args[0], self, depth)
        return (Untold(f"parameter {ref.name}"),)

    @staticmethod
    def _passed(below: Cls, above: Cls, name: str) -> Ref | None:
        if name not in above.facts.init_params:
            return None
        args = below.facts.init_args
        return args.get(name) or args.get(f"#{above.facts.init_params.index(name)}")


def absolute(tree: Tree, module: str, target: str) -> str:
    """The absolute name of a module as another one imports it."""
    level = len(target) - len(target.lstrip("."))
    if not level:
        return target
    path = tree.reader.source.module_file(module) or ""
    parts = module.split(".")
    package = parts if path.endswith("/__init__.py") else parts[:-1]
    base = package[: len(package) - level + 1]
    return ".".join([*base, target[level:]] if target[level:] else base)


def _taking(binding: Binding, name: str) -> Binding:
    """A module's `__getattr__` that takes whatever it is asked for, asked for one name."""
    source = binding.ref.name.removesuffix("*")
    return Binding(binding.kind, Ref("name", f"{source}{name}"), binding.guards)


def _found(target: Target) -> Found:
    if isinstance(target, _Module | _Function):
        return Untold(f"{target.name} is no class")
    return target


def _found_all(targets: Iterable[Target]) -> tuple[Found, ...]:
    return tuple(_found(target) for target in targets)


def _placeholder(found: Found) -> bool:
    """Stand-ins that a pipeline rank or an encoder-only start puts where a module would be."""
    name = found.name if isinstance(found, Cls | External) else ""
    return name.endswith(("PPMissingLayer", "StageMissingLayer", "Identity", "None"))


def _preferred(targets: Iterable[Target]) -> tuple:  # type: ignore[type-arg]
    """Without names from outside where the tree has one: those are fallbacks without a hook."""
    every = tuple(dict.fromkeys(targets))
    inside = tuple(t for t in every if not isinstance(t, External))
    return inside or every


def _merge(lines: list[tuple[Found, ...]]) -> list[Found]:
    """The C3 merge; where Python would refuse, the first base goes first."""
    merged: list[Found] = []
    rest = [list(line) for line in lines if line]
    while rest:
        heads = [line[0] for line in rest]
        tails = {entry for line in rest for entry in line[1:]}
        head = next((h for h in heads if h not in tails), heads[0])
        merged.append(head)
        rest = [[e for e in line if e != head] for line in rest]
        rest = [line for line in rest if line]
    return merged
