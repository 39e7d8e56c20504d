"""Results: cells, the journal they are written to, expectations applied, diff, terminal table."""

from __future__ import annotations

from matrix.results._apply import apply, unmatched
from matrix.results._baseline import read_baseline, relevant, update_baseline
from matrix.results._cell import SCHEMA, Cell, Found, Outcome, Reason, RunHeader, StartLine
from matrix.results._diff import Change, Diff, Subject, diff, incomparable
from matrix.results._journal import Journal
from matrix.results._json import canonical
from matrix.results._outcomes import LETTERS, LOST, RED, exit_code, unexpected
from matrix.results._record import Record, latest, merge, read
from matrix.results._score import Score, Stray
from matrix.results._table import family, table, verdict
from matrix.results._text import one_line, plain, redactor

__all__ = [
    "LETTERS",
    "LOST",
    "RED",
    "SCHEMA",
    "Cell",
    "Change",
    "Diff",
    "Found",
    "Journal",
    "Outcome",
    "Reason",
    "Record",
    "RunHeader",
    "Score",
    "StartLine",
    "Stray",
    "Subject",
    "apply",
    "canonical",
    "diff",
    "exit_code",
    "family",
    "incomparable",
    "latest",
    "merge",
    "one_line",
    "plain",
    "read",
    "read_baseline",
    "redactor",
    "relevant",
    "table",
    "unexpected",
    "unmatched",
    "update_baseline",
    "verdict",
]
