"""Two scans against each other: what a change gained, lost and newly broke."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from matrix.faults import Severity, worst_first
from matrix.scan._result import Finding

if TYPE_CHECKING:
    from matrix.scan._result import Architecture, ScanResult

__all__ = ["Change", "Diff", "compare"]


class Change(msgspec.Struct, frozen=True):
    """One thing gained or lost."""

    arch: str
    what: str


class Placed(msgspec.Struct, frozen=True):
    """A finding with the architecture it is of."""

    arch: str
    finding: Finding


class Diff(msgspec.Struct):
    """What differs between two scans of one engine."""

    engine: str
    old: str
    new: str
    gained: list[Change] = []
    lost: list[Change] = []
    new_findings: list[Placed] = []
    fixed_findings: list[Placed] = []


def compare(old: ScanResult, new: ScanResult) -> Diff:
    """What the step from `old` to `new` gained, lost, newly broke and repaired.

    A finding is new when the old scan has none of its rule and label on its architecture: lines
    and wording may move.
    """
    diff = Diff(new.engine, _named(old), _named(new))
    before = {arch.arch: arch for arch in old.architectures}
    after = {arch.arch: arch for arch in new.architectures}
    for name in sorted(before.keys() | after.keys()):
        there, here = before.get(name), after.get(name)
        diff.gained += [Change(name, what) for what in _won(there, here)]
        diff.lost += [Change(name, what) for what in _won(here, there)]
        diff.new_findings += _only_in(here, there)
        diff.fixed_findings += _only_in(there, here)
    for placed in (diff.new_findings, diff.fixed_findings):
        placed.sort(key=lambda p: (worst_first(Severity(p.finding.severity)), p.arch))
    return diff


def _named(result: ScanResult) -> str:
    return f"{result.source} ({result.version})" if result.version else result.source


def _won(there: Architecture | None, here: Architecture | None) -> list[str]:
    """What `here` has for certain and `there` has for certain not."""
    if here is None:
        return []
    hooks = there.hook if there else {}
    won = [
        f"hook {name}" + ("" if there else ", with the architecture")
        for name, answer in here.hook.items()
        if answer == "offered" and hooks.get(name, "missing") == "missing"
    ]
    if there is not None:
        for part in ("before", "after", "final"):
            had, has = getattr(there.captures, part), getattr(here.captures, part)
            won += [f"capture {part}"] if has and had is False else []
    return won


def _only_in(here: Architecture | None, there: Architecture | None) -> list[Placed]:
    known = {(f.rule, f.fault) for f in there.findings} if there else set()
    found = here.findings if here else []
    return [Placed(here.arch, f) for f in found if here and (f.rule, f.fault) not in known]
