"""The table of clauses: ids are addresses, and every id says what it can give."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys

import pytest

from matrix.contract import CLAUSES, Bench, Clause, Verdict
from matrix.contract._clause import clause
from matrix.engines import CAPABILITIES
from matrix.faults import GIVES, Fault, Severity

MODULES = {
    "START": "start",
    "HOOK": "hook",
    "AUX": "states",
    "TAP": "tap",
    "OUTPUT": "output",
    "CANARY": "canary",
}
PUBLIC_REPORT = re.compile(r"([\w.-]+/)?[\w.-]+#\d+\Z")
# Labels that some clause gives, whatever engine call it makes.
EVERYWHERE = {Fault.UNKNOWN, Fault.LOG_FLOOD}
# Of the scan, of preflight, or of clauses of later releases.
NOT_YET = {
    Fault.HOOK_SHADOWED,
    Fault.TWIN_GAP,
    Fault.CONFIG_INVALID,
    Fault.CONFIG_MISMATCH,
}


@pytest.mark.parametrize("id", CLAUSES)
def test_the_id_is_the_address(id: str) -> None:
    module = importlib.import_module(f"matrix.contract.{MODULES[id.split('-')[0]]}")
    name = id.lower().replace("-", "_")
    assert CLAUSES[id].check is getattr(module, name)
    assert name in module.__all__


def test_every_clause_has_its_labels_and_every_labelled_clause_exists() -> None:
    assert set(CLAUSES) == {key for key in GIVES if not key.startswith(("SRC-", "CFG-"))}
    assert all(set(GIVES[key]) >= EVERYWHERE for key in CLAUSES)


def test_every_label_can_be_given_by_some_clause() -> None:
    given = {label for key in CLAUSES for label in GIVES[key]}
    assert given == set(Fault) - NOT_YET


@pytest.mark.parametrize("made", CLAUSES.values(), ids=lambda made: made.id)
def test_a_clause_says_what_a_reader_needs(made: Clause) -> None:
    assert made.sentence.endswith(".")
    assert made.sentence[0].isupper()
    assert made.tier in ("cpu", "gpu")
    assert made.version >= 1
    assert made.check.__doc__
    assert made.catches, "what it would have caught"
    assert all(PUBLIC_REPORT.match(report) for report in made.catches), made.catches
    assert len(set(made.catches)) == len(made.catches)
    assert set(made.needs) <= CAPABILITIES.keys()
    assert set(made.settings) <= {"plain", "main", "public", "tp2", "pp2"}


def test_the_planes_come_first_and_what_reconfigures_the_engine_last() -> None:
    families = [key.split("-")[0] for key in CLAUSES]
    assert list(dict.fromkeys(families)) == ["START", "HOOK", "AUX", "OUTPUT", "CANARY", "TAP"]


def test_guards_are_the_severity_of_missing_guards_alone() -> None:
    assert CLAUSES["TAP-RECONF"].severity_of(Fault.TAP_LEAK) is Severity.GUARD
    for key in ("TAP-DUP", "TAP-RANGE", "TAP-EMPTY", "TAP-TYPE"):
        for label in (Fault.TAP_LATE, Fault.TAP_UNCLEAR):
            assert CLAUSES[key].severity_of(label) is Severity.GUARD
        assert CLAUSES[key].severity_of(Fault.TAP_RANGE_SILENT) is Severity.WRONG
    assert CLAUSES["START-LOAD"].severity is Severity.DIES


def test_a_label_outside_the_table_has_no_severity() -> None:
    with pytest.raises(KeyError):
        CLAUSES["START-PURE"].severity_of(Fault.PLANE_ZERO)


def test_a_function_under_another_name_is_no_clause() -> None:
    before = dict(CLAUSES)
    with pytest.raises(AssertionError, match="the id is the address"):

        @clause("TAP-NOWHERE", "Never.")
        def somewhere_else(bench: Bench) -> Verdict:
            return Verdict()

    assert before == CLAUSES


def test_the_contract_imports_neither_torch_nor_an_engine() -> None:
    code = (
        "import sys, matrix.contract, matrix.runner, matrix.session\n"
        "bad = [m for m in sys.modules if m.split('.')[0] in "
        "('torch', 'transformers', 'dflash', 'vllm', 'sglang')]\n"
        "assert not bad, bad"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
