from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from matrix.faults import Fault, Severity, severity_of
from matrix.results import Cell, Found, Outcome, RunHeader

CELL = Cell(
    run_id="r1",
    time="2026-01-05T10:00:00Z",
    engine="transformers",
    engine_version="0.1.0",
    settings="main",
    dtype="float32",
    pair="qwen3-4b-dflash-b16",
    pair_kind="real",
    target="Qwen/Qwen3-4B",
    draft="z-lab/Qwen3-4B-DFlash-b16",
    arch="Qwen3ForCausalLM",
    tier="cpu",
    clause="TAP-RANGE",
    clause_version=1,
    outcome=Outcome.PASS,
)

HEADER = RunHeader(
    schema=1,
    run_id="r1",
    time="2026-01-05T10:00:00Z",
    engines={"transformers": {"version": "0.1.0", "standins": []}},
    harness="0.1.0",
    commit=None,
    device="cpu",
    driver=None,
    seed=0,
    settings={"main": {"runner": "embedded"}},
)


@pytest.fixture(scope="session")
def make_cell() -> Callable[..., Cell]:
    def make(*faults: Fault, **fields: Any) -> Cell:
        """A cell; with `faults` it is `fail`, or `warn` when all of them are missing guards."""
        clause = fields.get("clause", CELL.clause)
        found = [Found(fault, severity_of(clause, fault)) for fault in faults]
        if found:
            guards = all(one.severity is Severity.GUARD for one in found)
            outcome = Outcome.WARN if guards else Outcome.FAIL
            fields = {"outcome": outcome, "fault": faults[0], "faults": found} | fields
        return msgspec.structs.replace(CELL, **fields)

    return make


@pytest.fixture(scope="session")
def make_header() -> Callable[..., RunHeader]:
    return lambda **fields: msgspec.structs.replace(HEADER, **fields)
