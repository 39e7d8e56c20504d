"""What the command line and pytest show of a run: table, report, exit code, diff."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from matrix.contract import CLAUSES
from matrix.registry import gaps
from matrix.report import Known, write_report
from matrix.results import Reason, diff, exit_code, one_line, read, table, unmatched, verdict
from matrix.session import INSTALL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matrix.registry import Expectation, Pair
    from matrix.session import Session

__all__ = ["finish", "known", "show_diff"]


def known(
    pairs: Iterable[Pair],
    expectations: Sequence[Expectation],
    *,
    strict: bool = False,
    xpass_warn: bool = False,
) -> Known:
    """What a report can't read from journals."""
    return Known(
        sentences={clause.id: clause.sentence for clause in CLAUSES.values()},
        expectations=expectations,
        gaps={pair.key: gaps(pair) for pair in pairs},
        engines=tuple(INSTALL),
        strict=strict,
        xpass_warn=xpass_warn,
    )


def finish(session: Session, *, strict: bool, xpass_warn: bool, as_json: bool) -> int:
    """Show what a run found, write its report, and say how the process should end.

    Works on a run that was interrupted too: whatever is in the journal is shown.
    """
    plan, cells = session.plan, session.cells
    journal = plan.out / "journal.jsonl"
    if not cells:  # broken off before anything was known
        return 2
    report = write_report(
        [journal],
        plan.out / "report.html",
        known=known(plan.pairs, plan.expectations, strict=strict, xpass_warn=xpass_warn),
    )
    code = exit_code(cells, strict=strict, xpass_warn=xpass_warn)
    stale = unmatched(plan.expectations, cells)
    if as_json:
        out = {
            "journal": str(journal),
            "report": str(report),
            "exit_code": code,
            "cells": [msgspec.to_builtins(cell) for cell in cells],
            "unmatched": [row.name for row in stale],
        }
        print(json.dumps(out, indent=1))
        return code
    print(table(cells))
    missing = [cell.detail for cell in cells if cell.reason_code is Reason.MISSING_DEPENDENCY]
    for why in dict.fromkeys(missing):
        print(one_line(why), file=sys.stderr)
    for row in stale:
        print(f"unmatched expectation {row.name}: {one_line(row.reason)}", file=sys.stderr)
    print(f"journal {journal}\nreport  {report}")
    return code


def show_diff(old: Path, new: Path, *, as_json: bool) -> int:
    """What changed between two journals; 1 when something broke or was lost."""
    found = diff(read(old), read(new))
    if as_json:
        print(json.dumps(msgspec.to_builtins(dataclasses.asdict(found)), indent=1))
        return int(found.red)
    for why in found.reasons:
        print(f"not comparable: {one_line(why)}")
    for place in ("broken", "gone", "unstable", "new", "fixed"):
        for change in getattr(found, place):
            engine, settings, dtype, pair, clause = change.subject
            before, after = (verdict(cell) if cell else "-" for cell in (change.old, change.new))
            print(f"{place:<9} {engine}[{settings}]:{dtype}/{pair}/{clause}  {before} -> {after}")
    return int(found.red)
