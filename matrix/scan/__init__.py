"""Reads an engine's sources and says for every architecture whether the capture contract holds.

No torch, no GPU, no engine: nothing is imported, only parsed. `docs/scan.md` explains the rules.
"""

from __future__ import annotations

from matrix.scan._cli import register
from matrix.scan._diff import Change, Diff, compare
from matrix.scan._output import (
    RULES,
    annotation,
    grouped,
    placed_in,
    sarif_log,
    sarif_results,
    workflow_commands,
)
from matrix.scan._result import Architecture, Captures, Finding, Problem, ScanResult, load_result
from matrix.scan._scan import scan
from matrix.scan._source import Source, installed, open_source, release
from matrix.scan._support import Answer, Release, Table, load_table, support
from matrix.scan._unpack import NotInstalled, not_installed

__all__ = [
    "RULES",
    "Answer",
    "Architecture",
    "Captures",
    "Change",
    "Diff",
    "Finding",
    "NotInstalled",
    "Problem",
    "Release",
    "ScanResult",
    "Source",
    "Table",
    "annotation",
    "compare",
    "grouped",
    "installed",
    "load_result",
    "load_table",
    "not_installed",
    "open_source",
    "placed_in",
    "register",
    "release",
    "sarif_log",
    "sarif_results",
    "scan",
    "support",
    "workflow_commands",
]
