"""What changed between two records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from packaging.version import InvalidVersion, Version

from matrix.results._cell import Cell, Outcome
from matrix.results._outcomes import RED
from matrix.results._record import Record

__all__ = ["Change", "Diff", "Subject", "diff", "incomparable"]

_GRADES: Final = {Outcome.PASS: 0, Outcome.XPASS: 0, Outcome.WARN: 1, Outcome.SKIP: None}
"""0: the clause holds; 1: a guard is missing; 2 (every other outcome): it doesn't hold."""


class Subject(NamedTuple):
    """What is compared: a cell's key without the engine's version."""

    engine: str
    settings: str
    dtype: str
    pair: str
    clause: str


@dataclass(frozen=True)
class Change:
    """One subject, before and after; each side has its own engine version."""

    subject: Subject
    old: Cell | None
    new: Cell | None


@dataclass
class Diff:
    """What changed. A subject stands in one list at most."""

    fixed: list[Change] = field(default_factory=list)
    """It holds now, or only a guard is missing where it did not hold."""
    broken: list[Change] = field(default_factory=list)
    """It is worse, or red with another outcome or fault than before."""
    new: list[Change] = field(default_factory=list)
    """Judged now, not before."""
    gone: list[Change] = field(default_factory=list)
    """Judged before; skipped or absent now."""
    unstable: list[Change] = field(default_factory=list)
    """Judged several times in one record, with several outcomes or faults."""
    reasons: list[str] = field(default_factory=list)
    """Why the two are not comparable, one sentence each; empty when they are."""

    @property
    def red(self) -> bool:
        """Whether something was lost or broke, or is unstable and red now."""
        unsteady = any(change.new and change.new.outcome in RED for change in self.unstable)
        return bool(self.broken or self.gone) or unsteady


def diff(old: Record, new: Record) -> Diff:
    """What changed from `old` to `new`.

    Versions that both hold are compared with themselves; when they share none of an engine's
    versions, its newest in `old` is compared with its newest in `new`.
    """
    renamed = _versions(old.cells, new.cells)
    before, after = _histories(old.cells, renamed), _histories(new.cells, {})
    found = Diff(reasons=incomparable(old, new))
    for key in before | after:
        past, present = before.get(key, []), after.get(key, [])
        if place := _place(past, present):
            subject, _ = key
            ends = (cells[-1] if cells else None for cells in (past, present))
            getattr(found, place).append(Change(subject, *ends))
    return found


_Key = tuple[Subject, str]


def _histories(
    cells: Iterable[Cell], renamed: Mapping[tuple[str, str], str]
) -> dict[_Key, list[Cell]]:
    """Subject and the version to compare at -> its judged cells, in the order written."""
    histories: dict[_Key, list[Cell]] = defaultdict(list)
    for cell in cells:
        subject = Subject(cell.engine, cell.settings, cell.dtype, cell.pair, cell.clause)
        version = renamed.get((cell.engine, cell.engine_version), cell.engine_version)
        histories[subject, version].append(cell)
    return dict(histories)


def _place(past: list[Cell], present: list[Cell]) -> str | None:
    """The list of `Diff` that a subject belongs to."""
    if _unsteady(past) or _unsteady(present):
        return "unstable"
    old, new = (cells[-1] if cells else None for cells in (past, present))
    before, after = _grade(old), _grade(new)
    if before is None or after is None:
        return None if before == after else "new" if before is None else "gone"
    if before != after:
        return "fixed" if after < before else "broken"
    assert old is not None, "a grade comes from a cell"
    assert new is not None, "a grade comes from a cell"
    changed = (old.outcome, old.fault) != (new.outcome, new.fault)
    return "broken" if changed and after == 2 and new.outcome in RED else None


def _unsteady(cells: list[Cell]) -> bool:
    judged = [cell for cell in cells if cell.outcome is not Outcome.SKIP]
    return len({(cell.outcome, cell.fault) for cell in judged}) > 1


def _grade(cell: Cell | None) -> int | None:
    return None if cell is None else _GRADES.get(cell.outcome, 2)


def _versions(old: Iterable[Cell], new: Iterable[Cell]) -> dict[tuple[str, str], str]:
    """(engine, old version) -> the new version that it is compared with, where they differ."""
    before, after = _by_engine(old), _by_engine(new)
    return {
        (engine, newest(before[engine])): newest(after[engine])
        for engine in before.keys() & after.keys()
        if not before[engine] & after[engine]
    }


def _by_engine(cells: Iterable[Cell]) -> dict[str, set[str]]:
    versions: dict[str, set[str]] = defaultdict(set)
    for cell in cells:
        versions[cell.engine].add(cell.engine_version)
    return versions


def newest(versions: Iterable[str]) -> str:
    """The highest version; one that isn't PEP 440 is lower than any that is."""

    def order(version: str) -> tuple[bool, Version, str]:
        try:
            return True, Version(version), version
        except InvalidVersion:
            return False, Version("0"), version

    return max(versions, key=order)


def incomparable(old: Record, new: Record) -> list[str]:
    """Why the records can't be compared cell by cell: what was run differs, not how it ended."""
    facts: list[tuple[str, Callable[[Record], dict[str, set[str]]]]] = [
        ("device", lambda record: {"": {h.device for h in record.headers}}),
        ("injected file", lambda record: {"": {_injected(h.inject) for h in record.headers}}),
        ("settings", lambda record: _gather(h.settings for h in record.headers)),
        ("stand-ins of", lambda record: _gather(_standins(h.engines) for h in record.headers)),
        ("dtypes of", lambda record: _gather({c.engine: c.dtype} for c in record.cells)),
        ("version of clause", lambda rec: _gather({c.clause: c.clause_version} for c in rec.cells)),
        ("target of", lambda record: _gather({c.pair: c.target} for c in record.cells)),
        ("draft of", lambda record: _gather({c.pair: c.draft} for c in record.cells)),
        ("twin of", lambda rec: _gather({s.pair: s.twin} for s in rec.starts if s.twin)),
    ]
    return [
        f"{what} {name}".strip() + f": {_list(before[name])} before, {_list(after[name])} now"
        for what, of in facts
        for before, after in [(of(old), of(new))]
        for name in sorted(before.keys() & after.keys())
        if before[name] != after[name]
    ]


def _gather(facts: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    gathered: dict[str, set[str]] = defaultdict(set)
    for fact in facts:
        for name, value in fact.items():
            gathered[name].add(_say(value))
    return dict(gathered)


def _say(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {value[name]}" for name in sorted(value)) or "none"
    if isinstance(value, list):
        return ", ".join(sorted(map(str, value))) or "none"
    return str(value)


def _standins(engines: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {name: facts.get("standins", []) for name, facts in engines.items()}


def _injected(inject: Mapping[str, str] | None) -> str:
    return inject.get("sha256", "unknown") if inject else "none"


def _list(values: Iterable[str]) -> str:
    return " / ".join(sorted(values))
