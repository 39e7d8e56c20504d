"""Every clause finds the faults planted for it, by name, and leaves a healthy engine alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import plant_hook
import plant_start
import plant_states
import plant_tap
import pytest
from fake_engine import DEPTH, FakeEngine, Floats, Moment, Planes, bench, strict
from planted import Planted, in_verify, ruling

from matrix.contract import CLAUSES, Examples, Skip, Verdict
from matrix.engines import Hook, Probed
from matrix.errors import EngineError, HarnessError
from matrix.faults import Fault, Severity

PLANTED = (*plant_hook.PLANTED, *plant_start.PLANTED, *plant_states.PLANTED, *plant_tap.PLANTED)
REFUSED = EngineError("ValueError", "layer ids are to be unique and increasing")

# Later releases and other tools give these; no clause of this release does.
NOT_OF_CLAUSES = {
    Fault.HOOK_SHADOWED,
    Fault.TWIN_GAP,
    Fault.DRAFT_DIFFERS,
    Fault.CONFIG_INVALID,
    Fault.CONFIG_MISMATCH,
}
# The runner gives it, whatever clause ran.
OF_THE_RUNNER = {Fault.LOG_FLOOD}
CANARY = {clause for clause in CLAUSES if clause.startswith("CANARY-")}
"""Judged on trained pairs: test_canary_clauses.py."""


def verdict(clause: str, engine: FakeEngine, **changes: Any) -> Verdict:
    ruled = ruling(clause, bench(engine, **changes))
    assert isinstance(ruled, Verdict)
    return ruled


def started(clause: str, **seams: Any) -> FakeEngine:
    return FakeEngine(speculative=CLAUSES[clause].settings[-1] != "plain", **seams)


# --- faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_a_planted_fault_is_found_and_named(planted: Planted) -> None:
    found = verdict(planted.clause, FakeEngine(**planted.seams()), **planted.bench).findings
    assert {finding.label for finding in found} == planted.labels
    assert {finding.phase for finding in found} == {planted.phase}
    assert all(finding.evidence for finding in found)
    assert planted.labels <= CLAUSES[planted.clause].gives.keys()


# Those that search; two configurations, or a fault with a memory, are no single input.
SEARCHED = [
    planted
    for planted in PLANTED
    if planted.clause.startswith(("TAP", "OUTPUT-FORCED", "AUX-DECODE"))
    and planted.clause != "TAP-RECONF"
    and planted.name not in ("stale", "rows moved")
]


@pytest.mark.parametrize("planted", SEARCHED, ids=str)
def test_the_example_of_a_finding_shows_it_again(planted: Planted) -> None:
    engine = FakeEngine(**planted.seams())
    for finding in verdict(planted.clause, engine, **planted.bench).findings:
        only = Examples(only=finding.example)
        again = verdict(
            planted.clause, FakeEngine(**planted.seams()), **planted.bench, examples=only
        )
        assert finding.label in {each.label for each in again.findings}


def test_every_clause_has_a_planted_fault() -> None:
    assert {planted.clause for planted in PLANTED} == set(CLAUSES) - CANARY


def test_every_label_is_proved_by_a_planted_fault() -> None:
    proved = {label for planted in PLANTED for label in planted.labels}
    assert proved == set(Fault) - NOT_OF_CLAUSES - OF_THE_RUNNER


@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_guards_alone_warn(planted: Planted) -> None:
    guards = {Fault.TAP_LATE, Fault.TAP_UNCLEAR, Fault.TAP_LEAK, Fault.PP_SILENT}
    severities = {CLAUSES[planted.clause].severity_of(label) for label in planted.labels}
    assert (severities == {Severity.GUARD}) == (planted.labels <= guards)


# --- healthy engines ---------------------------------------------------------------------------


@pytest.mark.parametrize("clause", sorted(CLAUSES.keys() - CANARY))
def test_a_healthy_engine_passes(clause: str) -> None:
    ruled = verdict(clause, started(clause))
    assert ruled.findings == ()
    assert ruled.expected is not None
    assert ruled.actual is not None


def padded(planes: Planes, m: Moment) -> Planes:
    """Rows behind the computed ones hold anything."""
    return [np.vstack([plane, np.full((3, plane.shape[1]), 9.0, np.float32)]) for plane in planes]


def rejected_garbage(planes: Planes, m: Moment) -> Planes:
    """Rows of rejected drafts hold anything: which ones they are, the target's logits say."""
    chosen = m.states.logits[m.at].argmax(-1)[:-1]
    drafted = np.array(m.tokens[m.position + 1 :])
    right = int(np.argmin([*(chosen == drafted), False]))
    for plane in planes:
        plane[right + 1 :] = np.nan
    return planes


def noisy(values: Any, m: Moment) -> Any:
    if isinstance(values, list):
        return [noisy(plane, m) for plane in values]
    return None if values is None else values * np.float32(1 + 1e-6)


def one_chunk_more(whole: Floats | None, m: Moment) -> Floats | None:
    """The draft is called after the last chunk of a prefill only."""
    last = len(m.tokens) >= len(m.request.prompt)
    return whole if last else None


def plain_steps(drafted: list[int], m: Moment) -> list[int]:
    """Every third step is a plain one: such steps are legal."""
    return [] if m.step % 3 == 2 else drafted


HARMLESS: dict[str, dict[str, Any]] = {
    "padded rows": {"handed": padded},
    "garbage in rejected rows": {
        "handed": lambda p, m: rejected_garbage(p, m) if in_verify(m) else p
    },
    "noise": {"handed": noisy, "received": noisy, "logits": noisy},
    "one array of all planes": {"joined": True},
    "small chunks": {"chunk": 17},
    "one chunk of two given on": {"received": one_chunk_more},
}
AUX = [clause for clause in CLAUSES if clause.startswith(("AUX", "HOOK", "TAP", "OUTPUT"))]


@pytest.mark.parametrize("clause", AUX)
@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_change_turns_nothing_red(name: str, clause: str) -> None:
    assert verdict(clause, FakeEngine(**HARMLESS[name])).findings == ()


@pytest.mark.parametrize(
    "clause", ["OUTPUT-LOSSLESS", "OUTPUT-COUNTERS", "START-DECODE", "AUX-INERT"]
)
def test_steps_without_drafts_are_legal(clause: str) -> None:
    assert verdict(clause, FakeEngine(drafts=plain_steps)).findings == ()


@pytest.mark.parametrize("clause", ["TAP-ORDER", "TAP-DUP"])
def test_odd_orders_and_duplicates_may_be_refused(clause: str) -> None:
    def resolve(ids: Any) -> list[int]:
        if ids != sorted(set(ids)):
            raise REFUSED
        return strict(ids)

    assert verdict(clause, FakeEngine(resolve=resolve)).findings == ()


def test_odd_types_may_be_read_as_the_integers_they_stand_for() -> None:
    def resolve(ids: Any) -> list[int]:
        if any(value is None or isinstance(value, list) for value in ids):
            raise EngineError("TypeError", f"layer id {ids}")
        if any(float(value) != int(float(value)) for value in ids):
            raise EngineError("ValueError", f"layer id {ids}")
        return strict([int(float(value)) for value in ids])

    ruled = verdict("TAP-TYPE", FakeEngine(resolve=resolve))
    assert ruled.findings == ()
    assert ruled.metrics["rows"] > 0


@pytest.mark.parametrize("form", ["raw", "normed"])
def test_a_last_layer_of_unknown_form_is_reported_and_never_fails(form: str) -> None:
    ruled = verdict("TAP-LAST", FakeEngine(final=form), final_tap="unknown")
    assert ruled.findings == ()
    assert ruled.actual == f"delivered: {form}"


@pytest.mark.parametrize("form", ["raw", "normed"])
def test_a_last_layer_in_the_form_of_the_row_passes(form: str) -> None:
    assert verdict("TAP-LAST", FakeEngine(final=form), final_tap=form).findings == ()
    twin = plant_states.ENDING_LAST
    assert verdict("AUX-VALUE", FakeEngine(final=form), final_tap=form, **twin).findings == ()


# --- clauses that see nothing, and clauses that can't be judged ---------------------------------


def unseen(planes: Planes, m: Moment) -> Planes:
    return []


BLIND: dict[str, dict[str, Any]] = {
    "AUX-REUSE": {"caching": False},
    "AUX-CHUNK": {"chunk": 4096},
    "AUX-INERT": {"answer": lambda generations: [strip_logits(g) for g in generations]},
    "AUX-PUBLIC": {"public": unseen},
}


def strip_logits(generation: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(generation, logits=[])


@pytest.mark.parametrize("clause", BLIND)
def test_a_clause_that_saw_nothing_is_an_error_of_ours(clause: str) -> None:
    with pytest.raises(HarnessError):
        ruling(clause, bench(FakeEngine(**BLIND[clause])))


def test_one_zero_plane_among_real_ones_is_no_hollow_hook() -> None:
    engine = FakeEngine(handed=lambda planes, m: [planes[0] * 0, *planes[1:]])
    assert verdict("HOOK-REACH", engine).findings == ()


def test_pure_needs_both_starts() -> None:
    for missing in ("plain", "main"):
        prepared = bench(refused={missing: plant_start.OTHER})
        prepared = replace(
            prepared, started={k: v for k, v in prepared.started.items() if k != missing}
        )
        ruled = ruling("START-PURE", prepared)
        assert isinstance(ruled, Skip)
        assert ruled.code == "start-failed"
        assert plant_start.OTHER.text in ruled.reason


def test_a_row_of_one_layer_id_is_judged_too() -> None:
    import msgspec
    from fake_engine import TWIN

    for ids in ((0,), (DEPTH - 1,)):
        twin = msgspec.structs.replace(TWIN, layer_ids=ids)
        for clause in ("AUX-VALUE", "TAP-ORDER", "TAP-DUP", "TAP-RANGE", "TAP-LAST", "TAP-TYPE"):
            assert verdict(clause, FakeEngine(), twin=twin).findings == (), (clause, ids)


# --- hooks that can't be tried -------------------------------------------------------------------

TRIED = ("HOOK-SHIFT", "HOOK-NONE", "HOOK-PP")
ABSENT = Hook(offered=False, body_captures=True, detail="FakeForCausalLM offers none")


@pytest.mark.parametrize("clause", TRIED)
def test_a_hook_that_is_not_offered_is_not_tried(clause: str) -> None:
    engine = FakeEngine(hooked=ABSENT, tried=lambda *_: pytest.fail("there is none"))
    ruled = ruling(clause, bench(engine))
    assert isinstance(ruled, Skip)
    assert "FakeForCausalLM offers none" in ruled.reason


@pytest.mark.parametrize("clause", TRIED)
def test_a_hook_that_needs_a_loaded_model_is_undecided(clause: str) -> None:
    undecided = Probed(None, True, "FakeModel", undecided="no attribute 'experts'")
    ruled = ruling(clause, bench(FakeEngine(tried=lambda *_: undecided)))
    assert isinstance(ruled, Skip)
    assert ruled.reason == "undecided: no attribute 'experts'"


def test_numbers_mean_nothing_where_the_body_s_captures_are_untold() -> None:
    untold = Probed([2, 4, 6], None, "FakeModel")
    ruled = ruling("HOOK-SHIFT", bench(FakeEngine(tried=lambda *_: untold)))
    assert isinstance(ruled, Skip)
    assert "[2, 4, 6]" in ruled.reason


def test_a_body_that_captures_behind_its_layers_takes_the_ids_as_they_are() -> None:
    behind = Probed([1, 3, 5], False, "FakeModel")
    assert verdict("HOOK-SHIFT", FakeEngine(tried=lambda *_: behind)).findings == ()
