"""Faults planted in a real SGLang, which lives in an environment of its own.

`DFLASH_MATRIX_PYTHON_SGLANG` names its interpreter; `nox -s sglang` sets it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from matrix.contract import CLAUSES
from matrix.engines import Deadlines
from matrix.faults import GIVES
from matrix.reference import Reference
from matrix.results import Cell, read

from ._drill import Subject, drill, planted, red, table
from .test_planted import OUTCOMES, own_cache, reference

__all__ = ["own_cache", "reference"]

ENGINE = "sglang"
JUDGED = frozenset(
    {
        "HOOK-PRESENT",
        "HOOK-REACH",
        "HOOK-SHIFT",
        "HOOK-NONE",
        "HOOK-PP",
        "AUX-COUNT",
        "AUX-VALUE",
        "AUX-DECODE",
        "AUX-CHUNK",
        "AUX-INERT",
        "TAP-RANGE",
        "TAP-RECONF",
    }
)
"""The clauses of a drill: one of each kind, so that it takes seconds."""
PYTHON = os.environ.get("DFLASH_MATRIX_PYTHON_SGLANG", "")

FAULTS = [file for file in planted("planted", ENGINE) if file.stem != "worker_killed"]
"""The other one has a test of its own."""

with_sglang = pytest.mark.skipif(
    not PYTHON, reason="DFLASH_MATRIX_PYTHON_SGLANG names no interpreter"
)


def drilled(
    file: Path, reference: Reference, out: Path, clauses: frozenset[str] = JUDGED
) -> list[Cell]:
    slow = Deadlines(call=120.0, clause=600.0)
    subject = Subject(ENGINE, PYTHON, slow, memory_mb=2500.0, passes=11)
    return drill(subject, file, reference, out, clauses=clauses, max_examples=1)


@with_sglang
@pytest.mark.parametrize("file", FAULTS, ids=lambda file: file.stem)
def test_a_planted_fault_is_caught_and_named(
    file: Path, reference: Reference, tmp_path: Path
) -> None:
    cells = drilled(file, reference, tmp_path)
    assert red(cells) == table()[ENGINE][file.stem]


@with_sglang
@pytest.mark.parametrize("file", planted("harmless", ENGINE), ids=lambda file: file.stem)
def test_a_harmless_change_turns_nothing_red(
    file: Path, reference: Reference, tmp_path: Path
) -> None:
    cells = drilled(file, reference, tmp_path)
    assert red(cells) == {}
    assert sum(cell.outcome == "pass" for cell in cells) == 11


@with_sglang
def test_sglang_that_kills_its_process_tree_leaves_the_driver_and_a_whole_journal(
    reference: Reference, tmp_path: Path
) -> None:
    (file,) = [f for f in planted("planted", ENGINE) if f.stem == "worker_killed"]
    cells = drilled(file, reference, tmp_path, frozenset(CLAUSES))
    journal = read(tmp_path)
    assert [cell.clause for cell in journal.cells] == [cell.clause for cell in cells]
    assert {cell.clause for cell in cells} == set(CLAUSES)
    assert red(cells) == table()[ENGINE][file.stem]
    dead = cells[[cell.clause for cell in cells].index("AUX-LONG")]
    assert dead.outcome == "crash"
    after = [cell for cell in cells if cell.clause.startswith("TAP-")]
    assert sum(cell.outcome in ("pass", "xfail") for cell in after) >= 6


def test_the_table_and_the_files_agree() -> None:
    assert set(table()[ENGINE]) == {file.stem for file in planted("planted", ENGINE)}


def test_the_table_names_labels_that_its_clauses_can_give() -> None:
    for name, consequences in table()[ENGINE].items():
        assert consequences, f"{name} turns nothing red: it is no fault, or no clause sees it"
        for clause, label in consequences.items():
            assert label in OUTCOMES or label in GIVES[clause], f"{name}: {clause}: {label}"
