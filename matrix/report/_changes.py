"""What changed since the baseline: one line for what changed alike, with the cells behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from matrix.report._entry import Entry
from matrix.report._gather import Gathered, lists
from matrix.report._words import short
from matrix.results import Cell, Change, verdict

__all__ = ["ChangeList", "Group", "Item", "change_lists"]

_MEANING: Final = {
    "broken": "worse than in the baseline, or red in another way",
    "gone": "judged in the baseline; skipped or absent now",
    "unstable": "judged several times, with different outcomes",
    "fixed": "better than in the baseline",
    "new": "judged now, not in the baseline",
}


@dataclass(frozen=True)
class Item:
    """One cell that changed."""

    key: str
    pair: str
    clause: str
    entry: Entry | None
    """`None` when the report has no such cell."""


@dataclass(frozen=True)
class Group:
    """Cells of one engine that say the same now, and said something else before."""

    engine: str
    before: str
    """All that they said before."""
    after: str
    outcome: str
    evidence: str
    """What the first of them says."""
    repro: str
    """The line that reproduces it."""
    items: tuple[Item, ...]

    @property
    def red(self) -> int:
        """Cells that are unexpected now."""
        return sum(item.entry is not None and item.entry.red for item in self.items)


@dataclass(frozen=True)
class ChangeList:
    """One list of the diff."""

    name: str
    meaning: str
    total: int
    groups: tuple[Group, ...]

    @property
    def red(self) -> int:
        """Cells of the list that are unexpected now."""
        return sum(group.red for group in self.groups)


def change_lists(gathered: Gathered, entries: Mapping[str, Entry]) -> list[ChangeList] | None:
    """The lists in the order in which they are shown; `None` without a baseline."""
    if gathered.changes is None:
        return None
    return [
        ChangeList(name, _MEANING[name], len(changes), tuple(_groups(changes, entries)))
        for name, changes in lists(gathered.changes).items()
    ]


def _groups(changes: Iterable[Change], entries: Mapping[str, Entry]) -> list[Group]:
    alike: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        alike.setdefault(_likeness(change), []).append(change)
    groups = [_group(*names, found, entries) for names, found in alike.items()]
    return sorted(groups, key=lambda group: (not group.red, -len(group.items)))


def _likeness(change: Change) -> tuple[str, str]:
    versions = dict.fromkeys(cell.engine_version for cell in (change.old, change.new) if cell)
    version = " \N{RIGHTWARDS ARROW} ".join(versions)
    return short(f"{change.subject.engine} {version}, {change.subject.dtype}"), _said(change.new)


def _said(cell: Cell | None) -> str:
    return verdict(cell) if cell else "absent"


def _group(engine: str, after: str, changes: list[Change], entries: Mapping[str, Entry]) -> Group:
    items = tuple(_item(change, entries) for change in changes)
    first = next((item.entry for item in items if item.entry), None)
    said = (first.faults[0].evidence if first.faults else first.detail) if first else ""
    return Group(
        engine=engine,
        before=short(", ".join(dict.fromkeys(_said(change.old) for change in changes))),
        after=after,
        outcome=first.outcome if first else "",
        evidence=short(said),
        repro=first.repro if first else "",
        items=items,
    )


def _item(change: Change, entries: Mapping[str, Entry]) -> Item:
    present = change.new or change.old
    assert present is not None, "a change has at least one side"
    entry = entries.get(change.new.key) if change.new else None
    return Item(short(present.key), short(present.pair), short(present.clause), entry)
