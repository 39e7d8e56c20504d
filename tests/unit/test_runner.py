"""One row: whatever the engine does becomes a cell, and the row goes on."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from running import PAIR, QUICK, Ran, injected, plan

from matrix import _examples
from matrix.contract import CLAUSES
from matrix.engines import Deadlines
from matrix.errors import MissingDependency, ReferenceFailed, TwinError
from matrix.faults import Fault
from matrix.registry import Expectation
from matrix.results import Outcome, Reason

if TYPE_CHECKING:
    from pathlib import Path

P = Outcome.PASS
DRAFTS = "drafting=lambda m: {}"


def once(where: str, what: str) -> str:
    """A seam's body: `what`, where the condition holds."""
    return f"({what}) if {where} else None"


def expectation(**values: Any) -> Expectation:
    common = {
        "engine": "transformers",
        "version": ">=0",
        "pair": "fake",
        "reason": "it is known",
        "link": "https://example.org/1",
        "file": "rows.toml",
        "position": 1,
    }
    return Expectation(**{**common, **values})


CANARY = {key for key in CLAUSES if key.startswith("CANARY-")}
"""Judged on trained pairs alone."""
ASKED = [
    key
    for key, clause in CLAUSES.items()
    if clause.settings[-1] in ("plain", "main") and key not in CANARY
]
"""The clauses whose starts every row asks for."""


# --- healthy -----------------------------------------------------------------------------------


def test_a_healthy_engine_passes_every_clause_in_one_start_a_setting(tmp_path: Path) -> None:
    asking = replace(PAIR, starts=("public", "tp2", "pp2"))
    ran = Ran(replace(plan(tmp_path, max_examples=3), pairs=(asking,)))
    assert {key: said for key, said in ran.judged.items() if key not in CANARY} == dict.fromkeys(
        CLAUSES.keys() - CANARY, P
    )
    assert {ran.cells[clause].reason_code for clause in CANARY} == {Reason.NOT_APPLICABLE}
    assert ran.starts == [(name, P) for name in ("plain", "main", "public", "tp2", "pp2")]


def test_a_start_that_the_row_does_not_ask_for_is_not_made(tmp_path: Path) -> None:
    ran = Ran(plan(tmp_path, "AUX-TP", "START-SPEC"))
    assert ran.cells["AUX-TP"].reason_code is Reason.NOT_APPLICABLE
    assert ran.cells["AUX-TP"].detail == "the row asks for no start `tp2`"
    assert ran.starts == [("main", P)]


def test_without_a_clause_that_needs_it_there_is_no_plain_start(tmp_path: Path) -> None:
    ran = Ran(plan(tmp_path, "START-LOAD", "START-SPEC"))
    assert ran.starts == [("main", P)]
    assert ran.judged == {"START-LOAD": P, "START-SPEC": P}


def test_clauses_left_out_are_skipped_as_filtered(tmp_path: Path) -> None:
    ran = Ran(plan(tmp_path, "START-LOAD"))
    left = {key: cell for key, cell in ran.cells.items() if key != "START-LOAD"}
    assert left.keys() == CLAUSES.keys() - {"START-LOAD"}
    assert {(cell.outcome, cell.reason_code) for cell in left.values()} == {
        (Outcome.SKIP, Reason.FILTERED)
    }


def test_what_the_engine_lacks_is_not_applicable_with_its_reason(tmp_path: Path) -> None:
    lacking = injected(tmp_path, "lacks={'batch': 'one at a time', 'hook': 'it has none'}")
    ran = Ran(plan(tmp_path, "AUX-BATCH", "HOOK-PRESENT", "START-SPEC", inject=lacking))
    assert ran.cells["AUX-BATCH"].reason_code is Reason.NOT_APPLICABLE
    assert ran.cells["AUX-BATCH"].detail == "no batch: one at a time"
    assert ran.cells["HOOK-PRESENT"].detail == "no hook: it has none"
    assert ran.judged["START-SPEC"] is P


def test_a_cell_says_what_it_is_of(tmp_path: Path) -> None:
    cell = Ran(plan(tmp_path, "START-SPEC", seed=7)).cells["START-SPEC"]
    assert cell.key == "transformers@1.0[main]:float32/fake/START-SPEC"
    assert (cell.target, cell.draft, cell.arch) == (
        "fake/target",
        "fake/target-dflash",
        "FakeForCausalLM",
    )
    assert cell.metrics["drafted"] > 0
    assert cell.seconds > 0
    assert cell.log == "w.log"
    assert cell.log_line == 1
    assert "--seed 7" in cell.repro


def test_the_start_line_measures_the_start(tmp_path: Path) -> None:
    slow = injected(tmp_path, "starting=lambda spec: time.sleep(0.5)")
    ran = Ran(plan(tmp_path, "START-LOAD", inject=slow))
    assert ran.cells["START-LOAD"].metrics["seconds"] >= 0.5
    assert ran.cells["START-LOAD"].metrics["rss_mb"] > 10


# --- faults ------------------------------------------------------------------------------------


def test_a_fault_makes_a_fail_with_its_label_and_severity(tmp_path: Path) -> None:
    silent = injected(tmp_path, "drafts=lambda drafted, m: []")
    cell = Ran(plan(tmp_path, "START-SPEC", inject=silent)).cells["START-SPEC"]
    assert (cell.outcome, cell.fault) == (Outcome.FAIL, Fault.SPEC_INACTIVE)
    assert [(f.label, f.severity) for f in cell.faults] == [(Fault.SPEC_INACTIVE, "wrong")]
    assert cell.detail == cell.faults[0].evidence


def test_a_missing_guard_alone_makes_a_warn(tmp_path: Path) -> None:
    leaky = injected(tmp_path, "set_ids=lambda old, new: sorted({*old, *new})")
    cell = Ran(plan(tmp_path, "TAP-RECONF", inject=leaky)).cells["TAP-RECONF"]
    assert (cell.outcome, cell.fault) == (Outcome.WARN, Fault.TAP_LEAK)


def test_the_worst_fault_comes_first(tmp_path: Path) -> None:
    body = """
def resolve(ids):
    if 8 in ids:
        raise EngineError("AssertionError", "")
    return list(ids)
"""
    mixed = injected(tmp_path, "resolve=resolve", body)
    cell = Ran(plan(tmp_path, "TAP-RANGE", inject=mixed)).cells["TAP-RANGE"]
    assert cell.fault is Fault.TAP_RANGE_SILENT
    assert [f.severity for f in cell.faults] == ["wrong", "guard"]


def test_an_engine_that_raises_in_a_clause_is_named_by_its_last_words(tmp_path: Path) -> None:
    words = "EngineError('ValueError', 'too many values to unpack (expected 2)')"
    dying = injected(
        tmp_path, "drafting=die", f"def die(m):\n    if len(m.tokens) == 10:\n        raise {words}"
    )
    ran = Ran(plan(tmp_path, *QUICK, inject=dying))
    cell = ran.cells["START-DECODE"]
    assert (cell.outcome, cell.fault) == (Outcome.FAIL, Fault.UNPACK_MISMATCH)
    assert ran.starts == [("plain", P), ("main", P)], "an exception costs no worker"


# --- a refused start ---------------------------------------------------------------------------


def refusing(tmp_path: Path, error: str, draft: str = "is not None") -> Path:
    body = f"def refuse(spec):\n    if spec.draft {draft}:\n        raise {error}"
    return injected(tmp_path, "starting=refuse", body)


def test_a_refused_start_is_a_fault_and_the_rest_of_the_row_is_skipped(tmp_path: Path) -> None:
    error = "EngineError('ValueError', 'the fc has 2 planes')"
    ran = Ran(plan(tmp_path, inject=refusing(tmp_path, error)))
    load = ran.cells["START-LOAD"]
    assert (load.outcome, load.fault) == (Outcome.FAIL, Fault.START_REFUSED)
    assert load.detail == "ValueError: the fc has 2 planes"
    assert ran.cells["START-PLAIN"].outcome is P
    rest = [ran.cells[key] for key in ASKED if key not in ("START-LOAD", "START-PLAIN")]
    assert {(cell.outcome, cell.reason_code) for cell in rest} == {
        (Outcome.SKIP, Reason.START_FAILED)
    }
    assert all("the fc has 2 planes" in cell.detail for cell in rest)
    assert ran.starts == [("plain", P), ("main", Outcome.FAIL)]


def test_a_refusal_for_want_of_a_hook_is_named(tmp_path: Path) -> None:
    error = "EngineError('ValueError', 'Model X implements neither set_dspark_layers_to_capture')"
    load = Ran(plan(tmp_path, "START-LOAD", inject=refusing(tmp_path, error))).cells["START-LOAD"]
    assert load.fault is Fault.HOOK_MISSING


def test_a_refused_plain_start_leaves_the_pair_to_be_judged(tmp_path: Path) -> None:
    error = "EngineError('ValueError', 'no plain mode')"
    ran = Ran(plan(tmp_path, *START, inject=refusing(tmp_path, error, "is None")))
    assert ran.cells["START-PLAIN"].fault is Fault.START_REFUSED
    assert ran.cells["START-PURE"].reason_code is Reason.START_FAILED
    assert "no plain mode" in ran.cells["START-PURE"].detail
    assert ran.judged["START-SPEC"] is P


START = ("START-PLAIN", "START-LOAD", "START-SPEC", "START-PURE")


def test_a_method_refused_on_the_whole_platform_needs_a_gpu(tmp_path: Path) -> None:
    error = "PlatformRefused('RuntimeError', 'DFLASH is not supported on cpu')"
    ran = Ran(plan(tmp_path, *START, inject=refusing(tmp_path, error)))
    assert ran.judged["START-PLAIN"] is P
    for key in ("START-LOAD", "START-SPEC", "START-PURE"):
        assert ran.cells[key].outcome is Outcome.SKIP
        assert ran.cells[key].reason_code is Reason.NEEDS_GPU
        assert ran.cells[key].detail == "DFLASH is not supported on cpu"
    assert ran.starts == [("plain", P), ("main", Outcome.SKIP)]


def test_a_start_without_the_draft_for_want_of_a_gpu_judges_the_rest(tmp_path: Path) -> None:
    said = "DFLASH is not supported on cpu"
    without = injected(tmp_path, f"needs_gpu={{'draft': {said!r}, 'inject': {said!r}}}")
    ran = Ran(plan(tmp_path, *START, "OUTPUT-FORCED", "AUX-VALUE", inject=without))
    assert ran.judged["START-PLAIN"] is P
    assert ran.judged["AUX-VALUE"] is P
    for key in ("START-LOAD", "START-SPEC", "START-PURE", "OUTPUT-FORCED"):
        assert ran.cells[key].reason_code is Reason.NEEDS_GPU
        assert ran.cells[key].detail == said
    assert ran.starts == [("plain", P), ("main", P)]


def test_a_platform_refused_from_the_plain_start_on_is_started_once(tmp_path: Path) -> None:
    error = "PlatformRefused('RuntimeError', 'no CPU backend')"
    ran = Ran(plan(tmp_path, *START, inject=refusing(tmp_path, error, "!= 0")))
    assert {cell.reason_code for key, cell in ran.cells.items() if key in START} == {
        Reason.NEEDS_GPU
    }
    assert ran.starts == [("plain", Outcome.SKIP)]


@pytest.mark.parametrize(
    ("body", "outcome", "how"),
    [
        ("os._exit(3)", Outcome.CRASH, "exit status 3 in start"),
        ("time.sleep(600)", Outcome.TIMEOUT, "no answer to start within 2 s"),
    ],
)
def test_a_worker_lost_at_start_is_the_start_clauses_outcome(
    tmp_path: Path, body: str, outcome: Outcome, how: str
) -> None:
    lost = injected(tmp_path, f"starting=lambda spec: {body}")
    ran = Ran(plan(tmp_path, "START-LOAD", "START-SPEC", inject=lost, deadlines=Deadlines(start=2)))
    load = ran.cells["START-LOAD"]
    assert (load.outcome, load.fault, load.detail) == (outcome, None, how)
    assert ran.cells["START-SPEC"].reason_code is Reason.START_FAILED
    assert ran.starts == [("main", outcome)]


# --- a worker that is lost later ---------------------------------------------------------------

DIES_IN_SPEC = "len(m.request.prompt) == 12 and m.engine.speculative"
"""Holds in START-SPEC alone, of the quick clauses: their prompts have other lengths."""


@pytest.mark.parametrize(
    ("what", "outcome"),
    [
        ("os._exit(3)", Outcome.CRASH),
        ("os.kill(os.getpid(), signal.SIGKILL)", Outcome.CRASH),
        ("ctypes.string_at(0)", Outcome.CRASH),
        ("time.sleep(600)", Outcome.TIMEOUT),
        ("[bytearray(b'x') * (600 << 20), time.sleep(600)]", Outcome.OOM),
    ],
)
def test_a_worker_lost_in_a_clause_costs_that_cell_and_a_start(
    tmp_path: Path, what: str, outcome: Outcome
) -> None:
    dying = injected(tmp_path, DRAFTS.format(once(DIES_IN_SPEC, what)))
    deadlines = Deadlines(call=20.0 if outcome is Outcome.OOM else 2.5)
    ran = Ran(plan(tmp_path, *QUICK, inject=dying, deadlines=deadlines, memory_mb=400.0))
    assert ran.judged == {
        "START-DECODE": P,
        "START-SPEC": outcome,
        "OUTPUT-LOSSLESS": P,
        "OUTPUT-COUNTERS": P,
    }
    lost = ran.cells["START-SPEC"]
    assert (lost.fault, lost.faults) == (None, [])
    assert " in generate" in lost.detail or "to generate" in lost.detail
    assert ran.starts == [("plain", P), ("main", P), ("main", P)]


def test_after_three_more_starts_the_rest_is_engine_gone(tmp_path: Path) -> None:
    dying = injected(tmp_path, DRAFTS.format("os._exit(3)"))
    chosen = ("START-DECODE", "START-SPEC", "AUX-COUNT", "AUX-SHAPE", "AUX-VALUE", "AUX-LONG")
    ran = Ran(plan(tmp_path, *chosen, inject=dying))
    assert [ran.judged[key] for key in chosen[:4]] == [Outcome.CRASH] * 4
    for key in chosen[4:]:
        assert ran.cells[key].reason_code is Reason.ENGINE_GONE
        assert "died 4 times" in ran.cells[key].detail
    assert ran.starts == [("main", P)] * 4


def test_a_row_whose_time_is_up_ends(tmp_path: Path) -> None:
    slow = injected(tmp_path, DRAFTS.format("time.sleep(600)"))
    ran = Ran(plan(tmp_path, *QUICK[:3], inject=slow, deadlines=Deadlines(row=3.0)))
    assert ran.judged["START-DECODE"] is Outcome.TIMEOUT
    assert ran.cells["START-SPEC"].reason_code is Reason.ENGINE_GONE
    assert "time is up" in ran.cells["START-SPEC"].detail


def test_a_clause_whose_time_is_up_is_ended_not_its_row(tmp_path: Path) -> None:
    slow = injected(tmp_path, DRAFTS.format(once(DIES_IN_SPEC, "time.sleep(600)")))
    ran = Ran(plan(tmp_path, *QUICK[:3], inject=slow, deadlines=Deadlines(clause=2.0)))
    assert ran.judged["START-SPEC"] is Outcome.TIMEOUT
    assert ran.judged["OUTPUT-LOSSLESS"] is P


def test_a_flood_of_output_is_a_fault_of_the_clause_that_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matrix.engines import _process

    monkeypatch.setattr(_process, "LOG_CEILING", 1 << 16)
    flooding = injected(tmp_path, DRAFTS.format(once(DIES_IN_SPEC, "os.write(2, b'x' * 200_000)")))
    ran = Ran(plan(tmp_path, *QUICK, inject=flooding))
    flood = ran.cells["START-SPEC"]
    assert (flood.outcome, flood.fault) == (Outcome.FAIL, Fault.LOG_FLOOD)
    assert flood.faults[0].severity == "dies"
    others = {key: outcome for key, outcome in ran.judged.items() if key != "START-SPEC"}
    assert set(others.values()) == {P}
    assert ran.starts == [("plain", P), ("main", P)]


# --- failures of ours --------------------------------------------------------------------------


def test_a_private_name_that_is_gone_is_one_error(tmp_path: Path) -> None:
    body = "def gone(m):\n    raise AdapterError('adapter: runner.drafter is gone')"
    ran = Ran(plan(tmp_path, inject=injected(tmp_path, "drafting=gone", body)))
    cells = ran.cells
    assert cells["START-PLAIN"].outcome is P
    assert cells["START-DECODE"].outcome is Outcome.ERROR
    assert cells["START-DECODE"].detail == "adapter: runner.drafter is gone"
    rest = ASKED[ASKED.index("START-DECODE") + 1 :]
    assert {cells[key].reason_code for key in rest} == {Reason.ENGINE_GONE}
    assert [cell.outcome for cell in cells.values()].count(Outcome.ERROR) == 1
    assert ran.starts == [("plain", P), ("main", P)]


def test_an_adapter_that_fails_at_start_is_one_error(tmp_path: Path) -> None:
    body = "def gone(spec):\n    raise AdapterError('adapter: no config')"
    ran = Ran(plan(tmp_path, *START, inject=injected(tmp_path, "starting=gone", body)))
    assert [ran.cells[key].outcome for key in START].count(Outcome.ERROR) == 1
    assert [ran.cells[key].reason_code for key in START].count(Reason.ENGINE_GONE) == 3
    assert ran.starts == [("plain", Outcome.ERROR)]


def test_a_clause_that_sees_nothing_is_an_error_and_the_row_goes_on(tmp_path: Path) -> None:
    ran = Ran(plan(tmp_path, "AUX-REUSE", "OUTPUT-K", inject=injected(tmp_path, "caching=False")))
    assert ran.judged == {"AUX-REUSE": Outcome.ERROR, "OUTPUT-K": P}
    assert "the clause saw no reuse" in ran.cells["AUX-REUSE"].detail


class Broken:
    """A reference that can't say."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def twin(self, *_: Any) -> Any:
        raise self.error

    def states(self, *_: Any, **__: Any) -> Any:
        raise self.error

    def greedy(self, *_: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (TwinError("layers 3 and 4 are too close"), Outcome.ERROR, None),
        (ReferenceFailed("reference: twin: killed"), Outcome.ERROR, None),
        (
            MissingDependency("transformers 5.2 doesn't know X"),
            Outcome.SKIP,
            Reason.MISSING_DEPENDENCY,
        ),
    ],
)
def test_a_row_without_a_twin_starts_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    outcome: Outcome,
    reason: Reason | None,
) -> None:
    import running

    monkeypatch.setattr(running, "FakeReference", lambda: Broken(error))
    ran = Ran(plan(tmp_path, *START))
    assert set(ran.judged.values()) == {outcome}
    assert {ran.cells[key].reason_code for key in START} == {reason}
    assert {ran.cells[key].detail for key in START} == {str(error)}
    assert ran.starts == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"speculative_method": "eagle3"}, "the authors' code drafts with dflash and dflash2, "),
        ({"layout": "in-checkpoint"}, "no twin for a draft inside the target's checkpoint"),
    ],
)
def test_a_row_that_can_have_no_twin_is_skipped_with_the_reason(
    tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    made = plan(tmp_path, *START)
    ran = Ran(replace(made, pairs=tuple(replace(pair, **change) for pair in made.pairs)))
    assert {ran.cells[key].reason_code for key in START} == {Reason.MISSING_DEPENDENCY}
    assert all(ran.cells[key].detail.startswith(why) for key in START)
    assert ran.starts == []


def test_a_reference_that_fails_later_costs_one_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import running
    from fake_engine import TWIN

    broken = Broken(ReferenceFailed("reference: states: killed by SIGKILL"))
    monkeypatch.setattr(broken, "twin", lambda *_: TWIN)
    monkeypatch.setattr(running, "FakeReference", lambda: broken)
    ran = Ran(plan(tmp_path, "AUX-VALUE", "START-SPEC"))
    assert ran.judged == {"START-SPEC": P, "AUX-VALUE": Outcome.ERROR}
    assert ran.cells["AUX-VALUE"].detail == "reference: states: killed by SIGKILL"


# --- expectations ------------------------------------------------------------------------------

SORTED = "resolve=lambda ids: sorted(fake_engine.strict(ids))"


def test_an_expected_fault_is_xfail_with_its_row(tmp_path: Path) -> None:
    row = expectation(clause="TAP-ORDER", fault=Fault.TAP_ORDER)
    ran = Ran(plan(tmp_path, "TAP-ORDER", inject=injected(tmp_path, SORTED), expectations=(row,)))
    cell = ran.cells["TAP-ORDER"]
    assert (cell.outcome, cell.fault) == (Outcome.XFAIL, Fault.TAP_ORDER)
    assert cell.expectation is not None
    assert "rows.toml#1" in cell.expectation


def test_another_fault_beside_the_expected_one_fails(tmp_path: Path) -> None:
    row = expectation(clause="TAP-*", fault=Fault.TAP_LATE, outcome="warn")
    ran = Ran(plan(tmp_path, "TAP-ORDER", inject=injected(tmp_path, SORTED), expectations=(row,)))
    assert ran.judged["TAP-ORDER"] is Outcome.FAIL


def test_an_expected_fault_that_is_gone_is_xpass(tmp_path: Path) -> None:
    pinned = {"ids": [5, 3, 1], "prompt": [1, 2, 3]}
    row = expectation(clause="TAP-ORDER", fault=Fault.TAP_ORDER, examples=(pinned,))
    ran = Ran(plan(tmp_path, "TAP-ORDER", expectations=(row,)))
    cell = ran.cells["TAP-ORDER"]
    assert cell.outcome is Outcome.XPASS
    assert "rows.toml#1" in cell.detail


def test_an_expected_crash_is_xfail(tmp_path: Path) -> None:
    row = expectation(clause="START-SPEC", fault=Fault.UNKNOWN, outcome="crash")
    dying = injected(tmp_path, DRAFTS.format(once(DIES_IN_SPEC, "os._exit(3)")))
    ran = Ran(plan(tmp_path, "START-SPEC", inject=dying, expectations=(row,)))
    assert ran.judged["START-SPEC"] is Outcome.XFAIL


# --- examples ----------------------------------------------------------------------------------


def test_an_example_replays_that_input_alone(tmp_path: Path) -> None:
    example = {"ids": [5, 1], "prompt": [1, 2, 3, 4]}
    ran = Ran(plan(tmp_path, "TAP-ORDER", inject=injected(tmp_path, SORTED), example=example))
    cell = ran.cells["TAP-ORDER"]
    assert (cell.outcome, cell.example) == (Outcome.FAIL, example)
    assert cell.metrics["examples"] == 1


def test_a_shrunk_example_is_saved_and_replayed_first(tmp_path: Path) -> None:
    body = """
def resolve(ids):
    ids = fake_engine.strict(ids)
    return [n - 1 for n in ids] if 6 in ids and len(ids) < 5 else ids
"""
    wrong = injected(tmp_path, "resolve=resolve", body)
    first = Ran(plan(tmp_path, "TAP-VALID", inject=wrong, max_examples=60)).cells["TAP-VALID"]
    assert first.fault is Fault.TAP_SHIFT_BEFORE
    saved = _examples.load("transformers", "fake", "TAP-VALID")
    assert saved[0] == first.example
    again = Ran(plan(tmp_path, "TAP-VALID", inject=wrong, max_examples=1)).cells["TAP-VALID"]
    assert again.example == first.example


def test_the_repro_line_replays_the_cell_and_is_safe_in_a_shell(tmp_path: Path) -> None:
    odd = tmp_path / "a folder; it's odd"
    odd.mkdir()
    wrong = injected(odd, SORTED)
    cell = Ran(plan(odd, "TAP-ORDER", inject=wrong, seed=3, max_examples=5)).cells["TAP-ORDER"]
    words = shlex.split(cell.repro)
    assert words[:3] == ["dflash-matrix", "run", "fake"]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert options["--inject"] == str(wrong)
    assert (options["--clause"], options["--seed"]) == ("TAP-ORDER", "3")
    assert json.loads(options["--example"]) == cell.example
    replay = json.loads(options["--example"])
    again = Ran(plan(odd, "TAP-ORDER", inject=wrong, seed=3, example=replay)).cells["TAP-ORDER"]
    assert (again.outcome, again.fault, again.example) == (cell.outcome, cell.fault, cell.example)
