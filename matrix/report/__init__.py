"""The report: one self-contained HTML file, and what a CI job shows, made from journals.

`docs/report.md` explains what stands where.
"""

from __future__ import annotations

from matrix.report._build import Report, make_report, save, write_report
from matrix.report._gather import Known

__all__ = ["Known", "Report", "make_report", "save", "write_report"]
