"""One scan: every architecture of a source, judged; nothing imported."""

from __future__ import annotations

import hashlib
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import msgspec

from matrix.cache import root
from matrix.errors import SourceError
from matrix.scan import _sglang, _vllm
from matrix.scan._judge import Judge
from matrix.scan._read import Reader, keep, own_digest
from matrix.scan._resolve import Cls, Owner, Tree, absolute
from matrix.scan._result import (
    Problem,
    ScanResult,
    load_result,
)
from matrix.scan._trace import BODY_PATHS
from matrix.scan._words import HOOKS

if TYPE_CHECKING:
    from pathlib import Path

    from matrix.scan._engine import Engine, Registered
    from matrix.scan._facts import ModuleFacts, Ref
    from matrix.scan._source import Source

__all__ = ["scan"]

_ENGINES: Final[dict[str, Engine]] = {"vllm": _vllm, "sglang": _sglang}
_BODIES: Final = {part for path in BODY_PATHS for part in path.split(".")}
_HOOK_WORDS: Final = tuple(name.encode() for name in sorted(HOOKS))


def scan(source: Source, arch: str = "*", *, cache: bool = True) -> ScanResult:
    """Scans an engine's sources.

    Args:
        source: an open source.
        arch: a glob over architectures.
        cache: whether results and facts of files may be kept between scans.

    Raises:
        SourceError: the tree registers no architecture.
    """
    file = _result_file(source) if cache else None
    result = _kept(file) if file else None
    if result is None:
        result = _scan(source, cache=cache)
        if file:
            keep(file, msgspec.json.encode(result))
    result.source = source.label
    result.architectures = [a for a in result.architectures if fnmatchcase(a.arch, arch)]
    return result


def _result_file(source: Source) -> Path:
    every = hashlib.blake2b(digest_size=16, key=own_digest())
    every.update(f"{source.engine} {source.version} {source.platform}\n".encode())
    for path in sorted(source.files):
        every.update(f"{path} {source.stamp(path)}\n".encode("utf-8", "surrogateescape"))
    for problem in source.errors:
        every.update(repr(problem).encode("utf-8", "surrogateescape"))
    return root() / "scan" / "results" / f"{every.hexdigest()}.json"


def _kept(file: Path) -> ScanResult | None:
    try:
        return load_result(file)
    except SourceError:
        return None


def _scan(source: Source, *, cache: bool) -> ScanResult:
    engine = _ENGINES[source.engine]
    reader = Reader(source, keep=cache)
    tree = Tree(reader, source.platform, {})
    _load(engine, tree)
    rows = engine.architectures(tree)
    tree.registered.update({row.arch: (row.module, row.name) for row in rows})
    if not rows:
        raise SourceError(f"{source.label}: its registry names no architecture; is it complete?")
    judge = Judge(engine, reader, tree)
    architectures = [judge.architecture(row) for row in rows]
    errors = [Problem(*pair) for pair in dict.fromkeys(source.errors)]
    unregistered = _unregistered(engine, tree, rows)
    return ScanResult(
        source.engine, source.version, source.label, architectures, unregistered, errors
    )


def _load(engine: Engine, tree: Tree) -> None:
    """Reads the models in waves: the registry, what speaks of hooks, then what those build on."""
    reader = tree.reader
    homes = engine.packages()
    models = [path for path in reader.source.files if path.startswith(homes)]
    wave = {path for path in models if path.endswith("/registry.py")}
    reader.load(wave)
    wave = {path for path in models if _speaks_of_hooks(reader, path)}
    if engine is _sglang:
        wave |= {path for path in models if "/" not in path.removeprefix(homes[0])}
    wave |= engine.runners(reader)
    wave |= {_file(tree, row.module) for row in engine.architectures(tree)} - {""}
    seen: set[str] = set()
    while wave:
        reader.load(wave)
        seen |= wave
        needed = {name for path in wave for name in _needed(tree, path)}
        wave = {path for path in needed if path.startswith(homes)} - seen


def _speaks_of_hooks(reader: Reader, path: str) -> bool:
    data = reader.data(path)
    return any(word in data for word in _HOOK_WORDS)


def _file(tree: Tree, module: str) -> str:
    return tree.reader.source.module_file(module) or ""


def _needed(tree: Tree, path: str) -> set[str]:
    """The files that hold bases, bodies and re-exported classes of one file."""
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    facts = tree.reader.facts(path)
    names = _names_used(facts)
    if path.endswith("/__init__.py"):
        names |= set(facts.names) | set(facts.lazy)
    files: set[str] = set()
    for name in names:
        for binding in [*facts.names.get(name, ()), *facts.lazy.get(name, ())]:
            if binding.kind == "import":
                target, _, attribute = binding.ref.name.partition(":")
                target = absolute(tree, module, target)
                files |= {_file(tree, f"{target}.{attribute}") or _file(tree, target)}
    for star in facts.stars:
        files.add(_file(tree, absolute(tree, module, star.ref.name.partition(":")[0])))
    return files - {""}


def _names_used(facts: ModuleFacts) -> set[str]:
    refs: list[Ref] = list(facts.entries)
    for cls in facts.classes.values():
        refs += cls.bases
        refs += [ref for name in _BODIES for ref in cls.children.get(name, ())]
        refs += cls.init_args.values()
        refs += [attr.ref for many in cls.attrs.values() for attr in many if attr.ref]
    names: set[str] = set()
    while refs:
        ref = refs.pop()
        refs += ref.args
        if ref.kind in ("name", "call"):
            names.add(ref.name.partition(".")[0])
    return names


def _unregistered(engine: Engine, tree: Tree, rows: list[Registered]) -> list[str]:
    """Classes that define a hook and that no architecture is, inherits from or builds."""
    used: set[str] = set()
    for row in rows:
        for found in tree.find(row.module, row.name):
            if isinstance(found, Cls):
                used |= _reached(tree.owner(found))
    hooks = set(engine.HOOKS.values())
    orphans = set()
    for path in tree.reader.source.files:
        if path.startswith(engine.packages()) and _speaks_of_hooks(tree.reader, path):
            module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            for key, cls in tree.reader.facts(path).classes.items():
                if hooks & set(cls.attrs) and f"{module}:{key}" not in used:
                    orphans.add(f"{module}:{cls.name}")
    return sorted(orphans)


def _reached(owner: Owner) -> set[str]:
    """The class, what it inherits from, and the bodies it may build."""
    bodies = [found for path in BODY_PATHS for found in owner.at(path)]
    owners = [owner, *(owner.tree.owner(found) for found in bodies if isinstance(found, Cls))]
    return {f"{cls.module}:{cls.key}" for one in owners for cls in one.classes()}
