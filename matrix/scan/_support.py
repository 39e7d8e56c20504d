"""Which release supports an architecture: a question to the committed scans of all releases."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from packaging.version import Version

from matrix.errors import HarnessError, UsageError
from matrix.shipped import shipped

if TYPE_CHECKING:
    from matrix.scan._result import ScanResult

__all__ = ["Answer", "Fault", "Release", "Table", "load_table", "release_of", "support", "text"]

_DEFERRED: Final = ("SRC-LAST-LAYER",)
"""Findings that harm only drafts which ask for the last layer: support they don't take away."""


class Fault(msgspec.Struct, frozen=True, array_like=True):
    """A finding without its line, as it is kept in a table."""

    rule: str
    fault: str
    severity: str
    file: str
    message: str

    @property
    def breaks(self) -> bool:
        """Whether a pair on this architecture can't run right."""
        return self.severity != "guard" and self.rule not in _DEFERRED


class Entry(msgspec.Struct, array_like=True):
    """One architecture in one release."""

    hook: str
    """First letters of the answers for dflash, dspark and eagle3."""
    faults: list[int]
    """Places in the table's `faults`."""
    undecided: int = 0
    """How many questions stayed open."""


class Release(msgspec.Struct):
    """One scanned release."""

    version: str
    source: str
    architectures: dict[str, Entry]


class Table(msgspec.Struct):
    """The scans of all releases of one engine, oldest first."""

    engine: str
    faults: list[Fault] = []
    releases: list[Release] = []


class Row(msgspec.Struct):
    """An architecture in one release."""

    version: str
    hook: str
    """`offered`, `missing`, `unknown`, or `not registered`."""
    supported: bool
    faults: list[Fault]


class Answer(msgspec.Struct):
    """What is known of one architecture on one engine."""

    arch: str
    engine: str
    first: str | None
    """The first release that supports it."""
    supported: bool
    """Whether the newest scanned release does."""
    releases: list[Row]


def folder() -> Path:
    """Where the tables lie."""
    return shipped("fixtures") / "scan"


def load_table(engine: str, where: Path | None = None) -> Table:
    """The committed table of an engine; an empty one when there is none yet.

    Raises:
        HarnessError: the file isn't a table.
    """
    file = (where or folder()) / f"{engine}.json"
    if not file.is_file():
        return Table(engine)
    try:
        return msgspec.json.decode(file.read_bytes(), type=Table)
    except msgspec.MsgspecError as error:
        raise HarnessError(f"{file}: not a table of scans ({error})") from None


def release_of(table: Table, result: ScanResult) -> Release:
    """A scan as a row of the table; faults that the table lacks are added to it."""
    places = {fault: i for i, fault in enumerate(table.faults)}
    entries = {}
    for arch in result.architectures:
        held = []
        for finding in arch.findings:
            fault = Fault(
                finding.rule, finding.fault, finding.severity, finding.file, finding.message
            )
            if fault not in places:
                places[fault] = len(table.faults)
                table.faults.append(fault)
            held.append(places[fault])
        hook = "".join(answer[0] for answer in arch.hook.values())
        entries[arch.arch] = Entry(hook, held, len(arch.unknown))
    assert result.version is not None, f"{result.source}: a release has a version"
    return Release(result.version, result.source, entries)


def support(arch: str, engines: list[str]) -> list[Answer]:
    """What the committed scans say of an architecture, per engine.

    Raises:
        UsageError: no release of any of the engines registers it.
    """
    tables = [load_table(engine) for engine in engines]
    known = {name for table in tables for r in table.releases for name in r.architectures}
    if arch not in known:
        close = difflib.get_close_matches(arch, known, 3) or ["nothing like it"]
        raise UsageError(f"{arch}: no release of {', '.join(engines)} has it; {', '.join(close)}?")
    return [_answer(arch, table) for table in tables if table.releases]


def _answer(arch: str, table: Table) -> Answer:
    words = {"o": "offered", "m": "missing", "u": "unknown"}
    rows = []
    for release in sorted(table.releases, key=lambda r: Version(r.version)):
        entry = release.architectures.get(arch)
        if entry is None:
            rows.append(Row(release.version, "not registered", False, []))
            continue
        faults = [table.faults[i] for i in entry.faults]
        offered = entry.hook.startswith("o")
        supported = offered and not any(fault.breaks for fault in faults)
        rows.append(Row(release.version, words[entry.hook[0]], supported, faults))
    first = next((row.version for row in rows if row.supported), None)
    return Answer(arch, table.engine, first, rows[-1].supported, rows)


def text(answer: Answer) -> str:
    """An answer for people: releases that say the same are one line."""
    newest = answer.releases[-1].version
    if answer.first is None:
        lines = [f"{answer.engine}: no release up to {newest} supports {answer.arch}"]
    else:
        still = "" if answer.supported else f", but {newest} does not"
        lines = [f"{answer.engine}: {answer.arch} since {answer.first}{still}"]
    for first, last, row in _runs(answer.releases):
        span = first if first == last else f"{first} - {last}"
        rules = ", ".join(sorted({f"{f.rule} ({f.severity})" for f in row.faults}))
        lines.append(f"  {span:<22} {row.hook:<15} {rules}".rstrip())
    worst = [fault for fault in answer.releases[-1].faults if fault.severity != "guard"]
    lines += [f"  {newest}: {fault.rule}: {fault.message}" for fault in worst]
    return "\n".join(lines)


def _runs(rows: list[Row]) -> list[tuple[str, str, Row]]:
    runs: list[tuple[str, str, Row]] = []
    for row in rows:
        key = (row.hook, {f.rule for f in row.faults})
        if runs and key == (runs[-1][2].hook, {f.rule for f in runs[-1][2].faults}):
            runs[-1] = (runs[-1][0], row.version, runs[-1][2])
        else:
            runs.append((row.version, row.version, row))
    return runs
