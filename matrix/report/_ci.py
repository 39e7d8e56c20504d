"""The report for machines: JUnit XML, SARIF, and annotations of a workflow's job."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from xml.etree import ElementTree as ET

from matrix import __version__
from matrix.report._entry import Entry
from matrix.report._gather import Gathered
from matrix.report._page import Page
from matrix.results import Cell, Outcome
from matrix.scan import RULES, annotation, placed_in, sarif_log, sarif_results, workflow_commands

__all__ = ["junit", "notes", "sarif"]

_LEVELS: Final = {"dies": "error", "wrong": "error", "guard": "warning"}
_ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 can't hold, even escaped."""


def notes(page: Page, gathered: Gathered) -> str:
    """One workflow command a line: a fault with all its cells, and each place a scan found."""
    lines = [
        annotation(
            "error",
            f"{row.label} ({len(row.cells)} cell{'s' * (len(row.cells) > 1)})",
            f"{row.cells[0].key}: {row.evidence}\nReproduce: {row.cells[0].repro or 'see the report'}",
        )
        for row in page.faults
        if row.red
    ]
    lines += [workflow_commands(placed_in(found)) for _, found in gathered.inputs.scans]
    return "\n".join(filter(None, lines))


def junit(page: Page) -> str:
    """JUnit XML: a suite for each engine version and dtype, a case for each cell."""
    root = ET.Element("testsuites", name="dflash-matrix")
    for grid in page.grids:
        entries = [e for _, places in grid.rows for cells in places for e in cells]
        root.append(_suite(grid.title, entries))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(title: str, entries: Iterable[Entry]) -> ET.Element:
    cases = [_case(entry) for entry in entries]
    suite = ET.Element("testsuite", name=_xml(title), tests=str(len(cases)))
    for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(count, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("time", f"{sum(float(case.get('time', 0)) for case in cases):.2f}")
    suite.extend(cases)
    return suite


def _case(entry: Entry) -> ET.Element:
    case = ET.Element("testcase", classname=_xml(entry.pair), time=f"{entry.seconds or 0:.2f}")
    case.set("name", _xml(f"{entry.clause}[{entry.settings}]"))
    said = f"{entry.verdict}: {entry.detail}" if entry.detail else entry.verdict
    if entry.red:
        failed = entry.outcome in (Outcome.FAIL, Outcome.XPASS, Outcome.WARN)
        child = ET.SubElement(case, "failure" if failed else "error", message=_xml(said[:1000]))
        child.set("type", entry.faults[0].label if entry.faults else entry.outcome)
        child.text = _xml("\n".join(_lines(entry)))
    elif entry.outcome in (Outcome.SKIP, Outcome.XFAIL):
        ET.SubElement(case, "skipped", message=_xml(said[:1000]), type=entry.outcome)
    elif entry.outcome != Outcome.PASS:
        ET.SubElement(case, "system-out").text = _xml(said)
    return case


def _lines(entry: Entry) -> Iterator[str]:
    yield entry.detail
    yield from (f"{f.label} ({f.severity}, {f.phase}): {f.evidence}" for f in entry.faults)
    yield f"expected: {entry.expected}"
    yield f"actual: {entry.actual}"
    yield f"reproduce: {entry.repro}"


def _xml(text: str) -> str:
    return _ILLEGAL.sub("", text)


def sarif(page: Page, gathered: Gathered) -> str:
    """SARIF 2.1.0: what scans found, at its file and line; unexpected cells, at their log's."""
    results: list[dict[str, Any]] = []
    for _, found in gathered.inputs.scans:
        results += sarif_results(placed_in(found))
    results += [_result(page.entries[k], gathered, k) for k, e in page.entries.items() if e.red]
    rules: Mapping[str, str] = {**RULES, **page.sentences}
    named = {found["ruleId"]: "" for found in results} | dict(rules)
    return sarif_log(named, results, __version__)


def _result(entry: Entry, gathered: Gathered, key: str) -> dict[str, Any]:
    cell = gathered.cells[key]
    said = entry.faults[0].evidence if entry.faults else entry.detail
    return {
        "ruleId": entry.clause,
        "level": _LEVELS.get(entry.severity, "error"),
        "message": {"text": f"{entry.key}: {entry.verdict}: {said}. Reproduce: {entry.repro}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _place(cell, gathered)},
                    "region": {"startLine": max(cell.log_line or 1, 1)},
                },
                "logicalLocations": [{"fullyQualifiedName": entry.key, "kind": "member"}],
            }
        ],
        "partialFingerprints": {"cell/v1": entry.id},
        "properties": {"fault": cell.fault, "pair": entry.pair, "engine": entry.engine},
    }


def _place(cell: Cell, gathered: Gathered) -> str:
    """The cell's log, or its journal, from the folder in which this runs."""
    folder = gathered.record.folders.get(cell.run_id, Path())
    return quote(Path(os.path.relpath(folder / (cell.log or "journal.jsonl"))).as_posix())
