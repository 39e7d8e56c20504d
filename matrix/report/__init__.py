"""The report: one self-contained HTML file made from journals."""

from __future__ import annotations

from matrix.report._build import write_report

__all__ = ["write_report"]
