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

from matrix.report._logs import Log, log_of
from matrix.report._plot import Plot, plots
from matrix.results import LETTERS, Cell, one_line, plain, unexpected, verdict

__all__ = ["Entry", "FaultView", "Frame", "Text", "entry", "text_of"]

_LONGEST: Final = 20_000
"""Characters of one value that are shown; the journal has the rest."""

_SUMMARY: Final = 240
_URL: Final = re.compile(r"https?://[^\s<>\"')]+")


@dataclass(frozen=True)
class Frame:
    """What the entries of one report have in common."""

    folders: Mapping[str, Path]
    """Run id -> the journal's folder."""
    changes: Mapping[str, str]
    """Cell key -> the list of the diff in which it stands."""
    sentences: Mapping[str, str]
    """Clause id -> what must hold."""
    beside: Path
    """The report's folder."""
    strict: bool
    xpass_warn: bool


@dataclass(frozen=True)
class Text:
    """A text, and the http or https address that it holds, if any."""

    text: str
    link: str | None


@dataclass(frozen=True)
class FaultView:
    """One fault of a cell."""

    label: str
    severity: str
    phase: str
    evidence: str
    example: str | None


@dataclass(frozen=True)
class Entry:
    """One cell."""

    id: str
    """Stable over reports, so that a link to the cell stays good."""
    key: str
    outcome: str
    letter: str
    verdict: str
    red: bool
    change: str | None
    sentence: str
    summary: str
    detail: str
    faults: tuple[FaultView, ...]
    facts: tuple[tuple[str, str], ...]
    """What was measured: name and value."""
    plots: tuple[Plot, ...]
    expectations: tuple[Text, ...]
    repro: str
    log: Log | None


def entry(cell: Cell, log_end: int | None, frame: Frame) -> Entry:
    """The entry of `cell`, whose part of its log ends before line `log_end`."""
    return Entry(
        id=blake2b(cell.key.encode("utf-8", "replace"), digest_size=6).hexdigest(),
        key=one_line(cell.key),
        outcome=cell.outcome.value,
        letter=LETTERS[cell.outcome],
        verdict=verdict(cell),
        red=unexpected(cell, frame.strict, frame.xpass_warn),
        change=frame.changes.get(cell.key),
        sentence=one_line(frame.sentences.get(cell.clause, "")),
        summary=_cut(one_line(cell.detail), _SUMMARY),
        detail=_cut(plain(cell.detail)),
        faults=tuple(
            FaultView(
                label=found.label,
                severity=found.severity,
                phase=found.phase,
                evidence=_cut(plain(found.evidence)),
                example=None if found.example is None else _json(found.example),
            )
            for found in cell.faults
        ),
        facts=tuple(_facts(cell)),
        plots=tuple(plots(cell.metrics)),
        expectations=tuple(text_of(line) for line in (cell.expectation or "").splitlines()),
        repro=one_line(cell.repro),
        log=log_of(cell, log_end, frame.folders.get(cell.run_id), frame.beside),
    )


def text_of(text: str) -> Text:
    """`text` on one line, with the first http or https address in it."""
    line = _cut(one_line(text))
    found = _URL.search(line)
    return Text(line, found.group() if found and _has_host(found.group()) else None)


def _has_host(address: str) -> bool:
    try:
        return bool(urlsplit(address).netloc)
    except ValueError:  # not an address at all, such as `https://[x`
        return False


def _facts(cell: Cell) -> list[tuple[str, str]]:
    measured = {name: value for name, value in cell.metrics.items() if name != "planes"}
    named: dict[str, Any] = {
        "expected": cell.expected,
        "actual": cell.actual,
        "tolerance": cell.tolerance,
        "margin": cell.margin,
        "example": None if cell.example is None else _json(cell.example),
        **{one_line(name): value for name, value in measured.items()},
        "target": cell.target,
        "draft": cell.draft,
        "architecture": cell.arch,
        "stand-ins": ", ".join(cell.standins) or None,
        "seconds": f"{cell.seconds:.2f}" if cell.seconds else None,
    }
    return [(name, _value(value)) for name, value in named.items() if value is not None]


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _cut(plain(value))
    return f"{value:.6g}" if isinstance(value, float) else _json(value)


def _json(value: Any) -> str:
    return _cut(plain(json.dumps(value, ensure_ascii=False)))


def _cut(text: str, longest: int = _LONGEST) -> str:
    left_out = len(text) - longest
    return text if left_out <= 0 else f"{text[:longest]}... ({left_out} more characters)"
