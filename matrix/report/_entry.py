"""One cell as the report shows it: everything made safe and short enough, nothing left to judge."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from matrix.report._canary import Profile, profile_of
from matrix.report._gather import Gathered, lists, subject_of
from matrix.report._logs import Log, LogReader
from matrix.report._planes import PlaneView, planes_of
from matrix.report._words import LONGEST, cut, short
from matrix.results import Cell, StartLine, plain, verdict

__all__ = [
    "Dot",
    "Entry",
    "FaultView",
    "Text",
    "engine_of",
    "entries_of",
    "id_of",
    "pasted",
    "text_of",
]

_URL: Final = re.compile(r"https?://[^\s<>\"')]+")
_PASTED: Final = re.compile(
    r"dflash-matrix run(?: (?:[\w@%+=:,./-]+|'[^'\x00-\x1f]*'(?:\"'\"'[^'\x00-\x1f]*')*))*",
    re.ASCII,
)
"""A line as `shlex.join` writes it: no shell finds a second command in it."""
_ENCODE: Final = json.JSONEncoder(ensure_ascii=False).encode
_DRAWN: Final = frozenset({"planes", "profile", "steps", "counts", "book", "verdict"})
"""Metrics that are drawn, where they can be."""


class Text(msgspec.Struct, frozen=True):
    """A text, and the http or https address that it holds, if any."""

    text: str
    link: str | None = None


class FaultView(msgspec.Struct, frozen=True):
    """One fault of a cell."""

    label: str
    severity: str
    phase: str
    evidence: str
    example: str | None


class Dot(msgspec.Struct, frozen=True):
    """The cell in one of the runs."""

    time: str
    version: str
    outcome: str
    verdict: str


class Entry(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One cell. This is what the page's script reads, so names are those of its fields."""

    id: str
    """Stable over reports, so that a link to the cell stays good."""
    key: str
    engine: str
    pair: str
    clause: str
    outcome: str
    verdict: str
    target: str
    draft: str
    arch: str
    settings: str
    dtype: str
    red: bool = False
    severity: str = ""
    """The worst of its faults'."""
    change: str = ""
    """The list of the diff in which it stands."""
    before: str = ""
    """What it was in the baseline, where that differs."""
    detail: str = ""
    faults: list[FaultView] = []
    expected: str = ""
    actual: str = ""
    tolerance: float | None = None
    margin: float | None = None
    seconds: float | None = None
    acceptance: float | None = None
    """Accepted / drafted."""
    example: str = ""
    facts: list[tuple[str, str]] = []
    """What else was measured: name and value."""
    planes: list[PlaneView] = []
    profile: Profile | None = None
    known: list[Text] = []
    """The expectations that were applied."""
    start: tuple[float, float] | None = None
    """Seconds and resident megabytes of the engine's start."""
    history: list[Dot] = []
    """The cell in every run that has it, at whatever version; empty where that is one."""
    repro: str = ""
    log: Log | None = None


@dataclass(frozen=True)
class _Change:
    place: str
    before: str


def entries_of(gathered: Gathered, beside: Path) -> dict[str, Entry]:
    """Cell key -> its entry, in the order of the journals.

    Args:
        gathered: what is shown.
        beside: the report's folder, to which links to logs are relative.
    """
    changes = _changes(gathered)
    times = {header.run_id: short(header.time) for header in gathered.record.headers}
    logs = LogReader(gathered.record.folders, beside)
    # Logs of what needs looking at first: there is an end to what one file can hold.
    order = sorted(gathered.cells, key=lambda key: not gathered.red(gathered.cells[key]))
    read = {key: logs.read(gathered.cells[key], gathered.ends[key]) for key in order}
    found = {}
    for key, cell in gathered.cells.items():
        start = gathered.starts.get((cell.run_id, cell.engine, cell.pair, cell.settings))
        entry = found[key] = _entry(cell, start)
        entry.red = gathered.red(cell)
        entry.log = read[key]
        if change := changes.get(key):
            entry.change, entry.before = change.place, change.before
        history = gathered.histories[subject_of(cell)]
        if len(history) > 1:
            entry.history = [
                Dot(times.get(c.run_id, ""), short(c.engine_version), c.outcome, verdict(c))
                for c in history
            ]
    return found


def id_of(key: str) -> str:
    """The id of the cell with this key."""
    return blake2b(key.encode("utf-8", "replace"), digest_size=6).hexdigest()


def engine_of(cell: Cell) -> str:
    """What one grid of the report shows: an engine's version at one dtype."""
    return short(f"{cell.engine} {cell.engine_version}, {cell.dtype}")


def text_of(text: str) -> Text:
    """`text` on one line, with the first http or https address in it."""
    line = short(text)
    found = _URL.search(line)
    return Text(line, found.group() if found and _has_host(found.group()) else None)


def pasted(repro: str) -> str:
    """The line to reproduce a cell; empty where pasting it could do anything else."""
    return repro if len(repro) <= LONGEST and _PASTED.fullmatch(repro) else ""


def _changes(gathered: Gathered) -> Mapping[str, _Change]:
    if gathered.changes is None:
        return {}
    return {
        change.new.key: _Change(name, verdict(change.old) if change.old else "")
        for name, changes in lists(gathered.changes).items()
        for change in changes
        if change.new is not None
    }


def _entry(cell: Cell, start: StartLine | None) -> Entry:
    profile = profile_of(cell.metrics)
    return Entry(
        id=id_of(cell.key),
        key=short(cell.key),
        engine=engine_of(cell),
        pair=short(cell.pair),
        clause=short(cell.clause),
        outcome=cell.outcome.value,
        verdict=verdict(cell),
        target=short(cell.target),
        draft=short(cell.draft),
        arch=short(cell.arch),
        settings=short(cell.settings),
        dtype=short(cell.dtype),
        severity=cell.faults[0].severity.value if cell.faults else "",
        detail=plain(cut(cell.detail)),
        faults=[
            FaultView(
                found.label.value,
                found.severity.value,
                found.phase.value,
                plain(cut(found.evidence)),
                None if found.example is None else _json(found.example),
            )
            for found in cell.faults
        ],
        expected=_value(cell.expected),
        actual=_value(cell.actual),
        tolerance=cell.tolerance,
        margin=cell.margin,
        seconds=round(cell.seconds, 2) if cell.seconds else None,
        acceptance=_acceptance(cell.metrics),
        example="" if cell.example is None else _json(cell.example),
        facts=[
            (short(name), _value(value))
            for name, value in cell.metrics.items()
            if name != "planes" and not (profile and name in _DRAWN)
        ]
        + ([("stand-ins", short(", ".join(cell.standins)))] if cell.standins else []),
        planes=planes_of(cell.metrics),
        profile=profile,
        known=[text_of(line) for line in (cell.expectation or "").splitlines()],
        start=None if start is None else (round(start.seconds, 1), round(start.rss_mb)),
        repro=pasted(cell.repro),
    )


def _acceptance(metrics: Mapping[str, Any]) -> float | None:
    drafted, accepted = metrics.get("drafted"), metrics.get("accepted")
    if isinstance(drafted, int) and isinstance(accepted, int) and drafted > 0:
        return round(accepted / drafted, 4)
    return None


def _has_host(address: str) -> bool:
    try:
        return bool(urlsplit(address).netloc)
    except ValueError:  # not an address at all, such as `https://[x`
        return False


def _value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return plain(cut(value))
    return f"{value:.6g}" if isinstance(value, float) else _json(value)


def _json(value: Any) -> str:
    return str(value) if type(value) is int else plain(cut(_ENCODE(value)))
