"""Faults planted in a real SGLang, which lives in an environment of its own.

`DFLASH_MATRIX_PYTHON_SGLANG` names its interpreter; `nox -s sglang` sets it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from matrix.contract import CLAUSES
from matrix.faults import GIVES
from matrix.reference import Reference
from matrix.results import read
from matrix.selfcheck import drill, planted, red, subject, table

from .test_planted import OUTCOMES

ENGINE = "sglang"
SGLANG = subject(ENGINE)

FAULTS = [file for file in planted("planted", ENGINE) if file.stem != "worker_killed"]
"""The other one has a test of its own."""

with_sglang = pytest.mark.skipif(
    SGLANG.python is None, reason="DFLASH_MATRIX_PYTHON_SGLANG names no interpreter"
)


@with_sglang
@pytest.mark.parametrize("file", FAULTS, ids=lambda file: file.stem)
def test_a_planted_fault_is_caught_and_named(
    file: Path, reference: Reference, tmp_path: Path
) -> None:
    cells = drill(SGLANG, file, reference, tmp_path)
    assert red(cells) == table()[ENGINE][file.stem]


@with_sglang
@pytest.mark.parametrize("file", planted("harmless", ENGINE), ids=lambda file: file.stem)
def test_a_harmless_change_turns_nothing_red(
    file: Path, reference: Reference, tmp_path: Path
) -> None:
    cells = drill(SGLANG, file, reference, tmp_path)
    assert red(cells) == {}
    assert sum(cell.outcome == "pass" for cell in cells) == SGLANG.passes


@with_sglang
def test_sglang_that_kills_its_process_tree_leaves_the_driver_and_a_whole_journal(
    reference: Reference, tmp_path: Path
) -> None:
    (file,) = [f for f in planted("planted", ENGINE) if f.stem == "worker_killed"]
    cells = drill(SGLANG, file, reference, tmp_path)
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
