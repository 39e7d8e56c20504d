from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from matrix.faults import Fault, Severity
from matrix.results import Cell, Found, Journal, Outcome, RunHeader

HEADER = RunHeader(
    schema=1,
    run_id="r1",
    time="2026-01-05T10:00:00Z",
    engines={"transformers": {"version": "0.1.0", "torch": "2.13.0", "standins": []}},
    harness="0.1.0",
    commit="abc1234",
    device="cpu",
    driver=None,
    seed=0,
    settings={"main": {"runner": "embedded"}},
)
CELL = Cell(
    run_id="r1",
    time="2026-01-05T10:00:01Z",
    engine="transformers",
    engine_version="0.1.0",
    settings="main",
    dtype="float32",
    pair="qwen3-4b",
    pair_kind="real",
    target="Qwen/Qwen3-4B",
    draft="z-lab/Qwen3-4B-DFlash-b16",
    arch="Qwen3ForCausalLM",
    tier="cpu",
    clause="AUX-VALUE",
    clause_version=1,
    outcome=Outcome.PASS,
    repro="dflash-matrix run qwen3-4b --engine transformers --clause AUX-VALUE",
)


@pytest.fixture(scope="session")
def cells_of() -> Callable[[str], list[dict[str, Any]]]:
    """The cells that a report's script draws, as it unpacks them."""

    def unpack(html: str) -> list[dict[str, Any]]:
        (packed,) = re.findall(r'id="data">([^<]*)</script>', html)
        cells: list[dict[str, Any]] = json.loads(gzip.decompress(base64.b64decode(packed)))["cells"]
        return cells

    return unpack


@pytest.fixture(scope="session")
def make_cell() -> Callable[..., Cell]:
    return lambda **fields: msgspec.structs.replace(CELL, **fields)


@pytest.fixture(scope="session")
def shifted() -> Cell:
    """A cell whose plane 1 is the layer before the one asked for."""
    distances = [1.0, 0.8, 2e-7, 0.5, 0.9]
    return msgspec.structs.replace(
        CELL,
        pair="llama-8b",
        outcome=Outcome.FAIL,
        fault=Fault.TAP_SHIFT_BEFORE,
        faults=[
            Found(
                Fault.TAP_SHIFT_BEFORE,
                Severity.WRONG,
                example=[1, 3],
                evidence="plane 1 is layer 2's output, expected layer 3",
            )
        ],
        detail="1 of 2 planes is wrong",
        expected={"layer": 3},
        actual={"layer": 2},
        tolerance=1e-4,
        margin=0.0002,
        example="1",
        metrics={"planes": [{"asked": 3, "matched": 2, "distances": distances}], "rows": 57},
        log="logs/llama-8b.log",
        log_line=101,
        repro="dflash-matrix run llama-8b --engine transformers --clause AUX-VALUE",
    )


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str, *cells: Cell, **header: Any) -> Path:
        with Journal(tmp_path / name) as journal:
            journal.write(msgspec.structs.replace(HEADER, **header))
            for cell in cells:
                journal.write(cell)
        return tmp_path / name

    return write
