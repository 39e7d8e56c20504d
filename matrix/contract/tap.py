"""TAP-*: every legal layer configuration works, every illegal one is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from matrix import strategies
from matrix.contract._bench import Bench, Run, dying
from matrix.contract._clause import Finding, Verdict, clause
from matrix.contract._compare import relative
from matrix.contract._earlier import split
from matrix.contract._fuzz import fuzz
from matrix.contract._planes import Final, Judged, judge, merge
from matrix.contract._probe import Probe, probe, refusal, tapped
from matrix.faults import GIVES, Fault

__all__ = [
    "tap_dup",
    "tap_empty",
    "tap_last",
    "tap_order",
    "tap_range",
    "tap_reconf",
    "tap_type",
    "tap_valid",
]

Check = Callable[[Probe], list[Finding]]


def _search(
    bench: Bench,
    ids: st.SearchStrategy[Any],
    always: Sequence[Any],
    check: Callable[[Bench, Probe, Judged], list[Finding]],
    expected: str,
) -> Verdict:
    """Fuzz ids through the engine; `always` are tried whatever the seed."""
    worst = Judged()
    prompt = bench.prompts(6, salt="tap")[0]

    def one(example: dict[str, Any]) -> list[Finding]:
        done = probe(bench, example["ids"], example.get("prompt", prompt))
        return check(bench, done, worst)

    first = [{"ids": value, "prompt": prompt} for value in always]
    search = fuzz(bench, tapped(bench, ids), one, always=first)
    margin = bench.tolerance / worst.worst if worst.worst else None
    return Verdict(
        search.causes,
        expected=expected,
        actual=f"{len(search.tried)} configurations tried, {worst.rows} rows compared",
        tolerance=bench.tolerance,
        margin=margin,
        metrics={
            "examples": len(search.tried),
            "worst": worst.worst,
            "rows": worst.rows,
            "planes": worst.planes,
        },
    )


def _right(bench: Bench, done: Probe, worst: Judged, clause_id: str) -> list[Finding]:
    """Planes of the ids asked for, in that order; a refusal or a death is a finding."""
    found = _delivered(bench, done, list(done.ids), worst)
    if found or done.error is None:
        return found
    otherwise = Fault.UNKNOWN if done.late else Fault.START_REFUSED
    if otherwise not in GIVES[clause_id]:
        otherwise = Fault.UNKNOWN
    return [dying(done.error, GIVES[clause_id], otherwise=otherwise)]


def _delivered(
    bench: Bench, done: Probe, ids: list[int], worst: Judged, final: Final = "either"
) -> list[Finding]:
    """What is wrong with the planes that were delivered, before the engine raised if it did."""
    if done.run is None:
        return []
    judged = judge(bench, [done.run], ids, final=final)
    worst.take(judged)
    return _leaked(bench, done.run, ids) or judged.findings


def _leaked(bench: Bench, run: Run, ids: Sequence[int]) -> list[Finding]:
    """Planes of other layers beside all those asked for: an earlier configuration still acts."""
    for forward in run.generation.forwards:
        planes, _ = split(forward.handed, bench.twin.width) or ((), "")
        if len(planes) <= len(ids):
            continue
        states = bench.states(run.sequence)
        known = np.concatenate([states.embedding[None], states.layers])
        rows = min(len(plane) for plane in planes)
        right = known[:, forward.position :][:, :rows]
        if not 0 < rows <= right.shape[1]:
            continue
        far = [[relative(plane[:rows], state).max() for state in right] for plane in planes]
        layers = [int(np.argmin(each)) - 1 for each in far]
        exact = all(min(each) <= bench.tolerance for each in far)
        if exact and set(ids) < set(layers):
            text = f"{len(planes)} planes for layer ids {list(ids)}, of layers {layers}"
            return [Finding(Fault.TAP_LEAK, f"{text}: ids set before still act")]
    return []


def _refused(bench: Bench, done: Probe) -> list[Finding]:
    """Illegal ids must be refused, at start and by name; using them is worse than a late word."""
    return refusal(done) if done.error else _used(bench, done, Fault.TAP_RANGE_SILENT, "accepted")


def _used(bench: Bench, done: Probe, label: Fault, how: str) -> list[Finding]:
    """Ids that were not refused were used, unless nothing was drafted at all."""
    assert done.run is not None, "ids that were not refused have an answer"
    if not bench.has("draft"):
        return [Finding(label, f"{done.ids}: {how}, and used to capture")]
    if not any(step.drafted for step in done.run.generation.steps):
        return [Finding(Fault.SPEC_INACTIVE, f"{done.ids}: not refused, and nothing was drafted")]
    return [Finding(label, f"{done.ids}: {how}, and used to draft")]


@clause(
    "TAP-VALID",
    "Every legal layer configuration, of any size, gives the planes that it asks for.",
    needs=("planes", "configure"),
    catches=(
        "vllm#40727",
        "sglang#22836",
        "vllm#48113",
        "sglang#38096",
        "vllm-project/speculators#440",
    ),
)
def tap_valid(bench: Bench) -> Verdict:
    """Unique, increasing ids of any count; the last layer has a clause of its own."""
    depth = bench.twin.depth

    def check(bench: Bench, done: Probe, worst: Judged) -> list[Finding]:
        return _right(bench, done, worst, "TAP-VALID")

    return _search(
        bench,
        strategies.legal_ids(depth, bench.ids, last=False),
        [list(range(depth - 1)), [0]],
        check,
        "the outputs of the layers asked for",
    )


@clause(
    "TAP-LAST",
    "The last layer's state comes in the form, raw or normed, that the row's draft was trained on.",
    needs=("planes", "configure"),
    catches=("sglang#32204", "Automodel#3083", "sglang#32334", "speculators#313", "vllm#48124"),
)
def tap_last(bench: Bench) -> Verdict:
    """Where the row doesn't say which, what is delivered is reported and never fails."""
    last, wanted = bench.twin.depth - 1, bench.pair.final_tap
    example = bench.examples.only or {"ids": [*(i for i in bench.ids[:1] if i != last), last]}
    prompt = example.get("prompt") or bench.prompts(12, salt="last")[0]
    done = probe(bench, example["ids"], prompt)
    worst = Judged()
    found = _right(bench, done, worst, "TAP-LAST")
    both: tuple[Final, ...] = ("raw", "normed")
    forms = [
        form
        for form in both
        if done.run and not _delivered(bench, done, example["ids"], Judged(), form)
    ]
    if not found and wanted != "unknown" and wanted not in forms:
        label = Fault.NORM_APPLIED if wanted == "raw" else Fault.NORM_MISSING
        found = [Finding(label, f"layer {last}: delivered {forms or 'neither'}, due {wanted}")]
    return Verdict(
        tuple(replace(f, example=example) for f in merge(found)),
        expected=f"layer {last}, {wanted}",
        actual=f"delivered: {' or '.join(forms) or 'neither raw nor normed'}",
        tolerance=bench.tolerance,
        metrics={"planes": worst.planes, "rows": worst.rows},
    )


@clause(
    "TAP-ORDER",
    "Ids in another order give planes in that order, or are refused.",
    needs=("planes", "configure"),
    catches=("sglang#39028", "Model-Optimizer#2149"),
)
def tap_order(bench: Bench) -> Verdict:
    """Judged at the draft's input, where the order means something."""

    def check(bench: Bench, done: Probe, worst: Judged) -> list[Finding]:
        return [] if done.error and not done.late else _right(bench, done, worst, "TAP-ORDER")

    ids = bench.ids if len(bench.ids) > 1 else [0, bench.twin.depth // 2]
    return _search(
        bench,
        strategies.unordered_ids(bench.twin.depth - 1, ids),
        [ids[::-1], [*ids[1:], ids[0]]],
        check,
        "planes in the order asked for, or a refusal",
    )


@clause(
    "TAP-DUP",
    "Duplicated ids give their plane as often as asked, or are refused.",
    needs=("planes", "configure"),
    catches=("Model-Optimizer#2149", "Model-Optimizer#1271", "lucebox#447", "ik_llama.cpp#1970"),
)
def tap_dup(bench: Bench) -> Verdict:
    """Fewer planes than ids feed the draft's `fc` the wrong way."""

    def check(bench: Bench, done: Probe, worst: Judged) -> list[Finding]:
        if done.error and not done.late:
            return []
        found = _delivered(bench, done, list(done.ids), worst)
        return found or (refusal(done) if done.error else [])

    first = bench.ids[0]
    return _search(
        bench,
        strategies.duplicate_ids(bench.twin.depth - 1, bench.ids),
        [[first, first], [first, *bench.ids]],
        check,
        "duplicated planes in order, or a refusal",
    )


@clause(
    "TAP-RANGE",
    "Ids that are no layer of the target are refused at start, by name.",
    needs=("configure",),
    catches=("sglang#32204", "Automodel#3083", "Model-Optimizer#2149", "ROCmFPX#44", "vllm#48113"),
)
def tap_range(bench: Bench) -> Verdict:
    """-1 is no layer id, though Python takes it; N is a boundary, but no layer."""
    depth = bench.twin.depth
    return _search(
        bench,
        strategies.out_of_range_ids(depth, bench.ids),
        [[-1, *bench.ids[1:]], [*bench.ids[:-1], depth], [-2], [depth + 1]],
        lambda bench, done, worst: _refused(bench, done),
        "a refusal at start that names the ids",
    )


@clause(
    "TAP-EMPTY",
    "No ids, or a missing key, are refused at start; nothing is guessed.",
    needs=("configure",),
    catches=("sglang#37475", "z-lab/dflash#156", "lmdeploy#4991", "speculators#440"),
)
def tap_empty(bench: Bench) -> Verdict:
    """The guess is wrong for most published checkpoints, often with the right count."""

    def check(bench: Bench, done: Probe, worst: Judged) -> list[Finding]:
        if done.error:
            return refusal(done)
        return _used(bench, done, Fault.TAP_GUESS, "layers were guessed")

    return _search(
        bench,
        st.sampled_from([[], None]),
        [[], None],
        check,
        "a refusal at start that names the ids",
    )


@clause(
    "TAP-TYPE",
    "Ids of another type are refused, or read as the integer they stand for.",
    needs=("planes", "configure"),
    catches=("vllm#40382", "sglang#39028"),
)
def tap_type(bench: Bench) -> Verdict:
    """`True`, `1.0` and `"1"` may be read as 1; 1.5, null and a list are no ids."""

    def check(bench: Bench, done: Probe, worst: Judged) -> list[Finding]:
        if done.error is not None and not done.late:
            return []
        if done.error is not None:
            return refusal(done)
        ids = [_as_int(value) for value in done.ids]
        if None in ids:
            return _refused(bench, done)
        return _delivered(bench, done, [i for i in ids if i is not None], worst)

    rest = bench.ids[1:]
    return _search(
        bench,
        strategies.odd_type_ids(bench.twin.depth - 1, bench.ids),
        [[True, *(i for i in rest if i != 1)], [1.0, 3], [1.5, 3], ["1", "3"], [None, 3], [[1], 3]],
        check,
        "a refusal, or the integers' own planes",
    )


def _as_int(value: Any) -> int | None:
    """The integer that a JSON value stands for, or `None`."""
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str) and value.lstrip("-").isdigit():
        return int(value)
    return None


@clause(
    "TAP-RECONF",
    "A second configuration of the hook leaves nothing of the first.",
    needs=("planes", "configure", "reconfigure"),
    catches=("sglang#22836",),
)
def tap_reconf(bench: Bench) -> Verdict:
    """Nobody promises a second call: a leak is a missing guard, and tells the adapter to restart."""
    depth = bench.twin.depth
    first, second = [0, depth // 2], [1, depth // 3 + 1]
    prompt = bench.prompts(8, salt="reconf")[0]
    done = probe(bench, first, prompt)
    worst = Judged()
    if done.error is not None:
        died = dying(done.error, GIVES["TAP-RECONF"], otherwise=Fault.UNKNOWN)
        return Verdict(tuple(_delivered(bench, done, first, worst) or [died]))
    again = probe(bench, second, prompt, after=first)
    found = _delivered(bench, again, second, worst)
    if again.error is not None and not found:
        found = [Finding(Fault.TAP_LEAK, str(again.error))]
    elif found and _right_for(bench, again, (first, bench.ids)):
        found = [Finding(Fault.TAP_LEAK, found[0].evidence)]
    found = [
        replace(f, evidence=f"{second} after {first}: {f.evidence}", example={"ids": second})
        for f in found
    ]
    return Verdict(
        tuple(found),
        expected=f"planes of {second} alone",
        actual=f"{worst.rows} rows compared",
        tolerance=bench.tolerance,
    )


def _right_for(bench: Bench, done: Probe, others: Sequence[list[int]]) -> bool:
    """Whether the planes are right for other ids, which were set before."""
    run = done.run
    return run is not None and any(not judge(bench, [run], ids).findings for ids in others)
