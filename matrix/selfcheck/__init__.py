"""Does the matrix bite: planted faults on one engine, against the table of what they must turn red.

The files and the table are those of `tests/meta`, which ships in the wheel as `matrix/_meta`.
"""

from __future__ import annotations

from matrix.selfcheck._drill import ROW, ROWS, Drilled, Subject, drill, red, subject
from matrix.selfcheck._faults import META, in_ci, planted, table
from matrix.selfcheck._score import score, score_text

__all__ = [
    "META",
    "ROW",
    "ROWS",
    "Drilled",
    "Subject",
    "drill",
    "in_ci",
    "planted",
    "red",
    "score",
    "score_text",
    "subject",
    "table",
]
