"""A cell: what one clause says of one pair on one engine."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from matrix.faults import Fault, Phase, Severity

__all__ = ["SCHEMA", "Cell", "Found", "Outcome", "Reason", "RunHeader", "StartLine"]

SCHEMA = 1
"""Version of the journal's format; a reader refuses a higher one."""


class Outcome(StrEnum):
    """How a cell ended."""

    PASS = "pass"  # noqa: S105 - an outcome, no password
    FAIL = "fail"
    XFAIL = "xfail"
    XPASS = "xpass"
    WARN = "warn"
    SKIP = "skip"
    ERROR = "error"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OOM = "oom"


class Reason(StrEnum):
    """Why a cell was skipped."""

    NOT_APPLICABLE = "not-applicable"
    ENGINE_GONE = "engine-gone"
    START_FAILED = "start-failed"
    MISSING_DEPENDENCY = "missing-dependency"
    NEEDS_GPU = "needs-gpu"
    FILTERED = "filtered"


class Found(msgspec.Struct, frozen=True):
    """One fault that a clause found, with what shows it."""

    label: Fault
    severity: Severity
    phase: Phase = Phase.ALL
    example: Any = None
    """The input that shows it, as data; replayed by `--example`."""
    evidence: str = ""


class Cell(msgspec.Struct, kw_only=True, tag_field="kind", tag="cell"):
    """One line of the journal. `fault` is the first of `faults`, worst first."""

    run_id: str
    time: str
    engine: str
    engine_version: str
    settings: str
    dtype: str
    pair: str
    pair_kind: str
    target: str
    draft: str
    arch: str
    tier: str
    clause: str
    clause_version: int
    outcome: Outcome
    reason_code: Reason | None = None
    fault: Fault | None = None
    faults: list[Found] = []
    detail: str = ""
    expected: Any = None
    actual: Any = None
    tolerance: float | None = None
    margin: float | None = None
    example: Any = None
    metrics: dict[str, Any] = {}
    seconds: float = 0.0
    log: str | None = None
    log_line: int | None = None
    expectation: str | None = None
    standins: list[str] = []
    repro: str = ""

    @property
    def key(self) -> str:
        """`engine@version[settings]:dtype/pair/clause`, the unit of result."""
        engine = f"{self.engine}@{self.engine_version}[{self.settings}]:{self.dtype}"
        return f"{engine}/{self.pair}/{self.clause}"


class StartLine(msgspec.Struct, kw_only=True, tag_field="kind", tag="start"):
    """One engine start."""

    run_id: str
    engine: str
    engine_version: str
    pair: str
    settings: str
    seconds: float
    outcome: Outcome
    rss_mb: float
    twin: str | None = None
    """Fingerprint of the twin that was started; equal means the same bytes."""


class RunHeader(msgspec.Struct, kw_only=True, tag_field="kind", tag="run"):
    """The first line of a journal: the run's properties."""

    schema: int
    run_id: str
    time: str
    engines: dict[str, dict[str, Any]]
    harness: str
    commit: str | None
    device: str
    driver: str | None
    seed: int
    settings: dict[str, dict[str, Any]]
    inject: dict[str, str] | None = None
