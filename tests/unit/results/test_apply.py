from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix.faults import Fault
from matrix.registry import Expectation
from matrix.results import Cell, Outcome, Reason, apply, canonical, exit_code, unexpected, unmatched

Make = Callable[..., Any]

SILENT, GUESS, LATE, ORDER = (
    Fault.TAP_RANGE_SILENT,
    Fault.TAP_GUESS,
    Fault.TAP_LATE,
    Fault.TAP_ORDER,
)


def row(fault: Fault = SILENT, **fields: Any) -> Expectation:
    given = {
        "engine": "transformers",
        "version": "",
        "clause": "TAP-*",
        "reason": "reads hidden_states[id + 1] unchecked",
        "link": "https://example.org/1",
        "file": "known.toml",
        "position": 1,
    }
    where = {} if "arch" in fields else {"pair": "*"}
    return Expectation(**{**given, **where, "fault": fault, **fields})


def test_a_known_fault_is_xfail_and_names_its_row(make_cell: Make) -> None:
    cell = make_cell(SILENT, detail="accepted -1")
    known = apply(cell, [row()], {})
    assert known.outcome is Outcome.XFAIL
    assert known.fault == SILENT
    assert known.expectation == (
        "known.toml#1: reads hidden_states[id + 1] unchecked (https://example.org/1)"
    )
    assert cell.outcome is Outcome.FAIL, "the cell itself is left as it is"


def test_every_fault_needs_a_row(make_cell: Make) -> None:
    cell = make_cell(SILENT, GUESS)
    assert apply(cell, [row()], {}) == cell
    known = apply(cell, [row(), row(GUESS, position=2)], {})
    assert known.outcome is Outcome.XFAIL
    assert known.expectation is not None
    assert [line.split(":")[0] for line in known.expectation.splitlines()] == [
        "known.toml#1",
        "known.toml#2",
    ]


@pytest.mark.parametrize(
    ("fields", "matches"),
    [
        ({"engine": "vllm"}, False),
        ({"clause": "TAP-RANGE"}, True),
        ({"clause": "tap-range"}, False),
        ({"clause": "AUX-*"}, False),
        ({"pair": "qwen3-*"}, True),
        ({"pair": "llama*"}, False),
        ({"arch": "Qwen3For*"}, True),
        ({"arch": "Llama*"}, False),
        ({"version": ">=0.1,<0.2"}, True),
        ({"version": ">0.1.0"}, False),
        ({"version": "no specifier"}, False),
        ({"outcome": "warn"}, False),
        ({"outcome": "crash"}, False),
    ],
)
def test_what_a_row_matches(make_cell: Make, fields: dict[str, Any], matches: bool) -> None:
    known = apply(make_cell(SILENT), [row(**fields)], {})
    assert (known.outcome is Outcome.XFAIL) is matches


@pytest.mark.parametrize(
    ("version", "specifier", "matches"),
    [
        ("0.24.0rc1", ">=0.23", True),
        ("0.24.0.dev3+gabc", "<0.24.0.dev9", True),
        ("0.23.0+cpu", "<=0.23.0", True),
        ("built-from-source", ">=0.1", False),
        ("built-from-source", "", True),
    ],
)
def test_versions(make_cell: Make, version: str, specifier: str, matches: bool) -> None:
    cell = make_cell(SILENT, engine_version=version)
    known = apply(cell, [row(version=specifier)], {})
    assert (known.outcome is Outcome.XFAIL) is matches


def test_a_missing_guard(make_cell: Make) -> None:
    warned = make_cell(LATE)
    assert warned.outcome is Outcome.WARN
    assert apply(warned, [row(LATE)], {}) == warned, "a row says `fail` unless told otherwise"
    assert apply(warned, [row(LATE, outcome="warn")], {}).outcome is Outcome.XFAIL
    both = make_cell(SILENT, LATE)
    assert both.outcome is Outcome.FAIL
    rows = [row(), row(LATE, outcome="warn", position=2)]
    assert apply(both, rows, {}).outcome is Outcome.XFAIL


@pytest.mark.parametrize("lost", ["crash", "timeout", "oom"])
def test_a_lost_worker(make_cell: Make, lost: str) -> None:
    cell = make_cell(outcome=Outcome(lost))
    assert apply(cell, [row(outcome=lost)], {}).outcome is Outcome.XFAIL
    assert apply(cell, [row()], {}) == cell
    assert apply(make_cell(), [row(outcome=lost)], {}).outcome is Outcome.XPASS


def test_a_row_without_examples_is_gone_when_the_cell_passes(make_cell: Make) -> None:
    gone = apply(make_cell(detail="12 examples"), [row()], {})
    assert gone.outcome is Outcome.XPASS
    assert gone.detail == (
        "expectation known.toml#1 no longer holds (the cell passes); delete the row; 12 examples"
    )
    assert gone.expectation is not None
    assert gone.expectation.startswith("known.toml#1: ")


def test_pinned_examples(make_cell: Make) -> None:
    pinning = row(examples=([-1, 3], {"ids": [8]}))
    failing, passing = make_cell(SILENT), make_cell()
    holds = {canonical([-1, 3]): frozenset({SILENT}), canonical({"ids": [8]}): frozenset({SILENT})}
    assert apply(failing, [pinning], holds).outcome is Outcome.XFAIL
    one_gone = holds | {canonical({"ids": [8]}): frozenset({ORDER})}
    gone = apply(failing, [pinning], one_gone)
    assert gone.outcome is Outcome.XPASS
    assert '{"ids":[8]} gives tap-order, not tap-range-silent' in gone.detail
    assert "known.toml#1" in gone.detail
    all_gone = dict.fromkeys(holds, frozenset[Fault]())
    assert "gives no fault" in apply(passing, [pinning], all_gone).detail
    assert apply(passing, [pinning], {}) == passing, "an example that was not run says nothing"


def test_an_unexpected_failure_is_not_hidden_by_a_row_that_is_gone(make_cell: Make) -> None:
    pinned = {canonical([1]): frozenset[Fault]()}
    rows = [row(examples=([1],))]
    failing = make_cell(GUESS)
    assert apply(failing, rows, pinned) == failing
    crashed = make_cell(outcome=Outcome.CRASH)
    assert apply(crashed, rows, pinned) == crashed


def test_cells_that_were_not_judged_stay(make_cell: Make) -> None:
    for cell in (
        make_cell(outcome=Outcome.SKIP, reason_code=Reason.NEEDS_GPU),
        make_cell(outcome=Outcome.ERROR),
    ):
        assert apply(cell, [row()], {}) is cell


def test_unmatched(make_cell: Make) -> None:
    used, other_label = row(), row(GUESS, position=2)
    elsewhere = row(engine="vllm", position=3)
    unjudged = row(clause="AUX-VALUE", position=4)
    rows = [used, other_label, elsewhere, unjudged]
    skipped = make_cell(clause="AUX-VALUE", outcome=Outcome.SKIP, reason_code=Reason.NEEDS_GPU)
    cells = [apply(make_cell(SILENT), rows, {}), skipped]
    assert unmatched(rows, cells) == [other_label]


def test_a_row_that_a_lost_worker_needed_is_matched(make_cell: Make) -> None:
    rows = [row(outcome="crash"), row(outcome="timeout", position=2)]
    cells = [apply(make_cell(outcome=Outcome.CRASH), rows, {})]
    assert unmatched(rows, cells) == [rows[1]]


def test_an_xpass_row_is_not_listed_twice(make_cell: Make) -> None:
    rows = [row()]
    assert unmatched(rows, [apply(make_cell(), rows, {})]) == []


rows_of_any_kind = st.builds(
    Expectation,
    engine=st.sampled_from(["transformers", "vllm"]),
    version=st.text(max_size=8) | st.sampled_from(["", ">=0.1", "<1", "==0.1.*"]),
    clause=st.sampled_from(["*", "TAP-*", "[", "[!"]) | st.text(max_size=5),
    fault=st.sampled_from(Fault),
    reason=st.text(),
    link=st.text(),
    pair=st.none() | st.sampled_from(["*", "["]) | st.text(max_size=5),
    arch=st.none() | st.text(max_size=5),
    outcome=st.sampled_from(["fail", "warn", "crash", "odd"]),
    examples=st.lists(st.lists(st.integers()) | st.text() | st.floats(), max_size=3).map(tuple),
)
pins = st.dictionaries(
    st.sampled_from(["[]", '""', "0", "[0]"]), st.frozensets(st.sampled_from(Fault), max_size=2)
)


@given(
    outcome=st.sampled_from(Outcome),
    faults=st.lists(st.sampled_from([SILENT, GUESS, LATE, ORDER]), max_size=3),
    version=st.text(max_size=8) | st.sampled_from(["0.1.0", "0.2rc1", "local build"]),
    rows=st.lists(rows_of_any_kind, max_size=4),
    pinned=pins,
)
def test_apply_never_raises_and_keeps_what_was_found(
    make_cell: Make,
    outcome: Outcome,
    faults: list[Fault],
    version: str,
    rows: list[Expectation],
    pinned: dict[str, frozenset[Fault]],
) -> None:
    cell: Cell = make_cell(*faults, outcome=outcome, engine_version=version)
    after = apply(cell, rows, pinned)
    assert after.faults == cell.faults
    assert after.key == cell.key
    assert after.outcome in (cell.outcome, Outcome.XFAIL, Outcome.XPASS)
    assert (after.outcome is cell.outcome) or after.expectation
    assert all(candidate in rows for candidate in unmatched(rows, [after]))


RED = {"fail", "xpass", "error", "crash", "timeout", "oom"}


@pytest.mark.parametrize("outcome", Outcome)
def test_what_is_unexpected(make_cell: Make, outcome: Outcome) -> None:
    cell = make_cell(outcome=outcome)
    assert unexpected(cell) is (outcome.value in RED)
    assert unexpected(cell, strict=True) is (outcome.value in RED | {"warn"})
    assert unexpected(cell, xpass_warn=True) is (outcome.value in RED - {"xpass"})
    assert unexpected(cell, strict=True, xpass_warn=True) is (outcome.value in RED | {"warn"})


def test_exit_codes(make_cell: Make) -> None:
    passed, failed = make_cell(), make_cell(SILENT)
    skipped = make_cell(outcome=Outcome.SKIP, reason_code=Reason.NEEDS_GPU)
    filtered = make_cell(outcome=Outcome.SKIP, reason_code=Reason.FILTERED)
    assert exit_code([passed, skipped]) == 0
    assert exit_code([passed, make_cell(outcome=Outcome.XFAIL)]) == 0
    assert exit_code([passed, failed]) == 1
    assert exit_code([skipped, filtered]) == 3
    assert exit_code([]) == 3
    assert exit_code([passed, make_cell(LATE)]) == 0
    assert exit_code([passed, make_cell(LATE)], strict=True) == 1
    assert exit_code([make_cell(outcome=Outcome.XPASS)], xpass_warn=True) == 0
