"""An engine's own table of pairs, read without running it, beside our rows.

vLLM keeps `_SPECULATIVE_DECODING_EXAMPLE_MODELS` in tests/models/registry.py: the name of a draft's
class to `_HfExamplesInfo(target, speculative_model=..., ...)`. Its table has neither depth nor ids,
so a pair that is new there still needs a row of ours (`dflash-matrix new TARGET DRAFT`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from matrix.errors import SourceError
from matrix.registry._pair import Pair
from matrix.registry._select import Registry

__all__ = ["Change", "Entry", "Imported", "import_vllm", "imported_lines"]

TABLE: Final = "_SPECULATIVE_DECODING_EXAMPLE_MODELS"
_INFO: Final = "_HfExamplesInfo"
# In the order in which they are looked for: a DFlash2 class has DFlash in its name too.
_METHODS: Final = ("dflash2", "dflash", "dspark", "eagle3")
_RENAMED: Final = {"default": "target"}
_HUB_IDS: Final = ("target", "speculative_model")
_KNOWN: Final = {f.name for f in fields(Pair)} - {"key", "arch", "target_layer_ids"}


@dataclass(frozen=True)
class Entry:
    """One entry of the table that a draft of ours may be behind."""

    draft_class: str
    line: int
    facts: Mapping[str, Any]
    """Fields of a `Pair` -> what the entry says."""
    unknown: Mapping[str, Any]
    """The entry's fields that a `Pair` doesn't have."""
    unreadable: tuple[str, ...]
    """Fields whose value is no literal, so that it can't be known without running the file."""

    @property
    def draft(self) -> str:
        """The draft's hub id; an entry that names none has the draft in its target's checkpoint."""
        return str(self.facts.get("speculative_model", self.facts.get("target")))


@dataclass(frozen=True)
class Change:
    """A fact that a row and the table state differently."""

    key: str
    """The row."""
    field: str
    ours: Any
    theirs: Any
    line: int


@dataclass(frozen=True)
class Imported:
    """The table beside our rows."""

    path: str
    entries: tuple[Entry, ...]
    others: tuple[str, ...]
    """Classes of other methods in the table."""
    new: tuple[Entry, ...] = field(default=())
    """Entries whose draft no row has."""
    changed: tuple[Change, ...] = field(default=())
    lost: tuple[str, ...] = field(default=())
    """Keys of rows that name the table as their source, and whose draft it no longer has."""

    def as_json(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return asdict(self)


def import_vllm(path: Path, registry: Registry) -> Imported:
    """Read vLLM's table and compare it with the rows of `registry`.

    Raises:
        SourceError: the file can't be read or parsed, or has no such table.
    """
    entries = list(_entries(path))
    ours = tuple(entry for entry in entries if "speculative_method" in entry.facts)
    by_draft: dict[str, list[Pair]] = {}
    for pair in registry.pairs.values():
        by_draft.setdefault(pair.speculative_model.lower(), []).append(pair)
    there = {entry.draft.lower() for entry in ours}
    known = [(entry, by_draft.get(entry.draft.lower())) for entry in ours]
    return Imported(
        path=str(path),
        entries=ours,
        others=tuple(e.draft_class for e in entries if "speculative_method" not in e.facts),
        new=tuple(entry for entry, pairs in known if pairs is None),
        changed=tuple(
            change
            for entry, pairs in known
            for pair in pairs or ()
            for change in _changes(pair, entry)
        ),
        lost=tuple(
            pair.key
            for pair in registry.pairs.values()
            if "tests/models/registry.py" in pair.source
            and pair.speculative_model.lower() not in there
        ),
    )


def _changes(pair: Pair, entry: Entry) -> Iterator[Change]:
    for name, theirs in entry.facts.items():
        ours = getattr(pair, name)
        same_id = name in _HUB_IDS and str(ours).lower() == str(theirs).lower()
        if ours != theirs and not same_id:
            yield Change(pair.key, name, ours, theirs, entry.line)


def _entries(path: Path) -> Iterator[Entry]:
    tree = _parse(path)
    order = _positional(tree)
    table = next((value for name, value in _assigned(tree) if name == TABLE), None)
    if not isinstance(table, ast.Dict):
        raise SourceError(f"{path}: no table {TABLE}; want vLLM's tests/models/registry.py")
    for key, value in zip(table.keys, table.values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            line = value.lineno
            raise SourceError(f"{path}: line {line}: {TABLE} should have class names as keys")
        if not (isinstance(value, ast.Call) and getattr(value.func, "id", None) == _INFO):
            raise SourceError(f"{path}: line {value.lineno}: {key.value} should be {_INFO}(...)")
        yield _entry(key.value, value, order)


def _entry(name: str, call: ast.Call, order: list[str]) -> Entry:
    given = dict(zip(order, call.args, strict=False))
    given |= {word.arg: word.value for word in call.keywords if word.arg is not None}
    facts: dict[str, Any] = {"draft_class": name}
    unknown: dict[str, Any] = {}
    unreadable = ["**"] if any(word.arg is None for word in call.keywords) else []
    for written, node in given.items():
        place = _RENAMED.get(written, written)
        try:
            value = ast.literal_eval(node)
        except ValueError:
            unreadable.append(written)
            continue
        (facts if place in _KNOWN else unknown)[place] = value
    method = _method(name, facts.get("speculative_method"))
    facts.pop("speculative_method", None)
    if method is not None:
        facts["speculative_method"] = method
    if facts.get("tokenizer") == facts.get("target"):
        facts.pop("tokenizer", None)  # as ours, where a blank means the target's
    if isinstance(reason := facts.get("transformers_version_reason"), dict):
        facts["transformers_version_reason"] = "; ".join(f"{k}: {v}" for k, v in reason.items())
    return Entry(name, call.lineno, facts, unknown, tuple(unreadable))


def _method(name: str, stated: Any) -> str | None:
    """Our word for the entry's method: its class tells DFlash2, which vLLM runs as dflash."""
    return next((m for m in _METHODS if m in name.lower()), stated if stated in _METHODS else None)


def _positional(tree: ast.Module) -> list[str]:
    """The fields of the entries' class, in order; its first is `default` where it isn't defined."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == _INFO:
            return [
                item.target.id
                for item in node.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            ]
    return ["default"]


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr | None]]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else ()
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, getattr(node, "value", None)


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), str(path))
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"line {line}: " if line else ""
        raise SourceError(f"{path}: {where}is not Python: {getattr(error, 'msg', error)}") from None


def imported_lines(found: Imported) -> Iterator[str]:
    """What is new, changed and lost, and what the table says that a row can't hold."""
    for entry in found.new:
        target = entry.facts.get("target")
        yield f"new      line {entry.line}: {entry.draft_class}: {target} with {entry.draft}"
    for change in found.changed:
        yield (
            f"changed  line {change.line}: {change.key}: {change.field}: "
            f"ours {change.ours!r}, theirs {change.theirs!r}"
        )
    for key in found.lost:
        yield f"lost     {key}"
    for entry in found.entries:
        for name, value in entry.unknown.items():
            yield f"unknown  line {entry.line}: {entry.draft_class}: {name} = {value!r}"
        for name in entry.unreadable:
            yield f"unread   line {entry.line}: {entry.draft_class}: {name} is no literal"
    counts = f"{len(found.new)} new, {len(found.changed)} changed, {len(found.lost)} lost"
    yield f"{len(found.entries)} pairs in {found.path}, {counts}; {len(found.others)} of other methods"
