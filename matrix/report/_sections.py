"""The sections of scans, preflights and self-checks, as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from matrix.report._inputs import Judged, Preflight
from matrix.report._words import short
from matrix.results import Score, Stray
from matrix.scan import Diff, Finding, ScanResult, grouped, placed_in

__all__ = [
    "ClauseView",
    "FindingView",
    "PreflightView",
    "ScanView",
    "ScoreView",
    "preflight_view",
    "scan_view",
    "score_view",
]

_FIRST: Final = {"fail": 0, "warn": 1, "skip": 2, "pass": 3}


@dataclass(frozen=True)
class FindingView:
    """One finding of a scan, with every architecture that shares it."""

    severity: str
    rule: str
    fault: str
    place: str
    """File and line."""
    archs: tuple[str, ...]
    message: str
    fix: str


@dataclass(frozen=True)
class ScanView:
    """One scan, or what a step between two changed."""

    title: str
    lines: tuple[str, ...]
    """Counts; or what was gained and lost."""
    findings: tuple[FindingView, ...]
    problems: tuple[str, ...]
    """Files that were left out."""

    @property
    def worst(self) -> int:
        """Findings by which a start dies."""
        return sum(finding.severity == "dies" for finding in self.findings)


@dataclass(frozen=True)
class ClauseView:
    """One clause of a preflight."""

    clause: str
    outcome: str
    fault: str
    message: str
    expected: str
    actual: str


@dataclass(frozen=True)
class PreflightView:
    """One pair of configs."""

    title: str
    outcome: str
    """The worst of its clauses'."""
    ids: str
    engines: tuple[tuple[str, str], ...]
    """Engine, and on which releases the pair can start."""
    clauses: tuple[ClauseView, ...]
    """Those that failed first."""


@dataclass(frozen=True)
class ScoreView:
    """The self-check of one engine."""

    title: str
    good: bool
    facts: tuple[tuple[str, str], ...]
    """Name and number."""
    strays: tuple[tuple[str, Stray], ...]
    """`missed`, `misnamed` or `false alarm`, and which clause under which fault."""
    never_red: tuple[str, ...]


def scan_view(file: str, found: ScanResult | Diff) -> ScanView:
    """What one scan found."""
    if isinstance(found, Diff):
        title = f"{found.engine}: {found.old} \N{RIGHTWARDS ARROW} {found.new}"
        lines = [f"lost {c.what}: {c.arch}" for c in found.lost]
        lines += [f"gained {c.what}: {c.arch}" for c in found.gained]
        problems: Iterable[str] = ()
    else:
        title = f"{found.engine} {found.version or found.source}"
        lines = [f"{len(found.architectures)} architectures", *_counts(found)]
        problems = (f"{p.file}: {p.message}" for p in found.errors)
    return ScanView(
        title=short(f"{title} ({file})"),
        lines=tuple(map(short, lines)),
        findings=tuple(_finding(*group) for group in grouped(placed_in(found))),
        problems=tuple(map(short, problems)),
    )


def _counts(found: ScanResult) -> Iterable[str]:
    for algorithm in next((a.hook for a in found.architectures), {}):
        answers = [arch.hook.get(algorithm) for arch in found.architectures]
        counts = (f"{answers.count(word)} {word}" for word in ("offered", "missing", "unknown"))
        yield f"{algorithm}: {', '.join(counts)}"


def _finding(finding: Finding, archs: Iterable[str]) -> FindingView:
    return FindingView(
        severity=short(finding.severity),
        rule=short(finding.rule),
        fault=short(finding.fault),
        place=short(f"{finding.file}:{finding.line}"),
        archs=tuple(map(short, archs)),
        message=short(finding.message),
        fix=short(finding.fix),
    )


def preflight_view(found: Preflight) -> PreflightView:
    """What the configs of one pair agree on."""
    ids = found.ids
    listed = ", ".join(map(str, ids.value or ())) or "none that can be read"
    key = f" (from {ids.key}, {ids.semantics} semantics)" if ids.key else ""
    clauses = sorted(found.clauses, key=lambda clause: _FIRST.get(clause.outcome, 0))
    return PreflightView(
        title=short(f"{found.target} + {found.draft}, layout {found.layout}"),
        outcome=short(clauses[0].outcome) if clauses else "skip",
        ids=short(f"layers {listed}{key}"),
        engines=tuple(
            (short(name), short(f"since {start.first}" if start.first else "no scanned release"))
            for name, start in found.engines.items()
        ),
        clauses=tuple(map(_clause, clauses)),
    )


def _clause(clause: Judged) -> ClauseView:
    right = clause.outcome in ("pass", "skip")
    return ClauseView(
        clause=short(clause.clause),
        outcome=short(clause.outcome),
        fault=short(clause.fault or ""),
        message=short(clause.message),
        expected="" if right else _json(clause.expected),
        actual="" if right else _json(clause.actual),
    )


def score_view(score: Score) -> ScoreView:
    """The score of one engine."""
    planted = len(score.planted)
    return ScoreView(
        title=short(f"{score.engine} {score.engine_version}"),
        good=not score.failed,
        facts=(
            ("caught", f"{len(score.caught)} of {planted}"),
            ("named", f"{len(score.named)} of {planted}"),
            ("missed", str(len(score.missed))),
            ("misnamed", str(len(score.misnamed))),
            ("false alarms", str(len(score.false_alarms))),
            ("harmless changes", str(len(score.harmless))),
        ),
        strays=tuple(
            (word, stray)
            for word, strays in (
                ("missed", score.missed),
                ("misnamed", score.misnamed),
                ("false alarm", score.false_alarms),
            )
            for stray in strays
        ),
        never_red=tuple(map(short, score.never_red)),
    )


def _json(value: Any) -> str:
    return "" if value is None else short(json.dumps(value, ensure_ascii=False))
