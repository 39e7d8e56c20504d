"""From what an engine delivered to a judgement on its planes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from matrix.contract._bench import Bench, Run
from matrix.contract._clause import Finding, Verdict
from matrix.contract._explain import Context, Observed, compare, explain
from matrix.engines import Array, Forward
from matrix.errors import HarnessError
from matrix.faults import Fault, Phase

__all__ = ["Final", "Judged", "Kind", "judge", "merge", "observe", "verdict"]

FloatArray = NDArray[np.floating[Any]]
Kind = Literal["prefill", "verify"]
Final = Literal["raw", "normed", "either"]

_PLACES = ("handed", "received")


@dataclass
class Judged:
    """What was found on the planes of some runs, and how close they came."""

    findings: list[Finding] = field(default_factory=list)
    worst: float = 0.0
    """Largest relative L2 distance of a row to the layer asked for."""
    rows: int = 0
    """Rows compared; none compared is never a pass."""
    planes: list[dict[str, Any]] = field(default_factory=list)
    """Per plane of the worst run: asked, matched, distances to every layer."""


def _split(arrays: Sequence[Array], width: int) -> tuple[tuple[FloatArray, ...], str] | None:
    """Planes `[T, H]` out of one concatenated array or one array a plane; `None`: no such split."""
    if not arrays:
        return (), ""
    parts = [array.numpy() for array in arrays]
    if any(part.ndim != 2 or part.shape[1] % width for part in parts):
        return None
    planes = [plane for part in parts for plane in np.split(part, part.shape[1] // width, axis=1)]
    return tuple(planes), arrays[0].dtype


def _arrays(forward: Forward, place: str) -> tuple[Sequence[Array], int]:
    if place == "handed":
        return forward.handed, forward.position
    received = [forward.received] if forward.received is not None else []
    return received, forward.received_position


def _rows_due(run: Run, kind: Kind) -> Iterator[tuple[Forward, int]]:
    """Each forward of that kind with the rows that count: rejected rows never do."""
    accepted = {step.position: step.accepted for step in run.generation.steps}
    end = len(run.sequence)
    for forward in run.generation.forwards:
        if forward.kind != kind:
            continue
        if kind == "prefill":
            yield forward, len(run.request.prompt) - forward.position
        elif forward.position in accepted and forward.position < end:
            yield forward, min(accepted[forward.position] + 1, end - forward.position)


def observe(
    bench: Bench, run: Run, kind: Kind, place: str, phase: Phase
) -> tuple[list[Observed], list[Finding]]:
    """What was delivered for one request at one place, and what is wrong with its shape.

    Forwards that continue one another are joined by position, so that few rows a step still make
    a plane that can be named. Padding rows behind the due ones are cut off.
    """
    width, found = bench.twin.width, list[Finding]()
    joined: list[Observed] = []
    for forward, due in _rows_due(run, kind):
        arrays, position = _arrays(forward, place)
        if place == "received" and not arrays:
            continue  # the draft was not called after this forward
        split = _split(arrays, width)
        where = f"{place} planes of the {kind} at position {forward.position}"
        if split is None:
            shapes = [array.shape for array in arrays]
            text = f"{where}: shapes {shapes} are no planes of width {width}"
            found.append(Finding(Fault.PLANE_SHAPE, text, phase))
            continue
        planes, dtype = split
        rows = min((len(plane) for plane in planes), default=0)
        exact = place == "received" and kind == "verify"
        if planes and (rows < due or (exact and rows != due and position == forward.position)):
            text = f"{where}: {rows} rows, {due} due"
            found.append(Finding(Fault.PLANE_SHAPE, text, phase))
            continue
        planes = tuple(plane[:due] for plane in planes)
        joined.append(Observed(planes, position, dtype or bench.dtype, phase))
    return _join(joined), found


def _join(parts: Iterable[Observed]) -> list[Observed]:
    joined: list[Observed] = []
    for part in parts:
        last = joined[-1] if joined else None
        rows = len(last.planes[0]) if last and last.planes else 0
        if last and part.planes and len(part.planes) == len(last.planes) and (
            part.position == last.position + rows
        ):
            planes = tuple(
                np.concatenate(pair) for pair in zip(last.planes, part.planes, strict=True)
            )
            joined[-1] = replace(last, planes=planes)
        else:
            joined.append(part)
    return joined


def judge(
    bench: Bench,
    runs: Sequence[Run],
    ids: Sequence[int],
    *,
    kinds: Sequence[Kind] = ("prefill",),
    phase: Phase = Phase.ALL,
    final: Final = "either",
    places: Sequence[str] = _PLACES,
) -> Judged:
    """Compare the planes of some runs, where handed over and where received, with the reference.

    Args:
        bench: the engine under test.
        runs: what it answered.
        ids: the layer ids asked for, in order.
        kinds: the forwards to look at.
        phase: where a fault that is found shows.
        final: what counts as right for the last layer's id.
        places: `handed`, `received` or both.
    """
    judged = Judged()
    for run in runs:
        for kind in kinds:
            for place in places:
                observed, found = observe(bench, run, kind, place, phase)
                judged.findings += found
                for seen in observed:
                    _judge_one(bench, run, runs, seen, tuple(ids), final, place, judged)
                if place == "handed" and not observed and not found:
                    _nothing(run, kind, phase, judged)
        bench.memo.setdefault("earlier", []).append(run)
        del bench.memo["earlier"][:-4]
    judged.findings = merge(judged.findings)
    return judged


def _nothing(run: Run, kind: Kind, phase: Phase, judged: Judged) -> None:
    if kind == "verify" and not run.generation.steps:
        judged.findings.append(
            Finding(Fault.SPEC_INACTIVE, "no verify step took place, so nothing was captured", phase)
        )
    elif kind == "prefill":
        judged.findings.append(Finding(Fault.HOOK_HOLLOW, "the prefill handed no planes over", phase))


def _judge_one(
    bench: Bench,
    run: Run,
    runs: Sequence[Run],
    seen: Observed,
    ids: tuple[int, ...],
    final: Final,
    place: str,
    judged: Judged,
) -> None:
    states = bench.states(run.sequence)
    context = Context(states=states, asked=ids, final=final, tolerance=bench.tolerance)
    near = compare(seen, context)
    judged.rows += len(seen.planes[0]) if seen.planes else 0
    if near.worst >= judged.worst:
        judged.worst, judged.planes = near.worst, near.planes
    if near.ok:
        return
    context = replace(
        context,
        states=bench.states(run.sequence, detail=True),
        others=tuple(bench.states(r.sequence) for r in runs if r is not run),
        earlier=tuple(_earlier(bench, run)),
    )
    there = " (at the draft's input)" if place == "received" else ""
    judged.findings += [
        replace(finding, evidence=finding.evidence + there) for finding in explain(seen, context)
    ]


def _earlier(bench: Bench, run: Run) -> Iterator[tuple[FloatArray, ...]]:
    """Planes as earlier forwards delivered them, of this run and of the ones before."""
    for earlier in [*bench.memo.get("earlier", []), run]:
        for forward in earlier.generation.forwards:
            split = _split(forward.handed, bench.twin.width)
            if split and split[0]:
                yield split[0]


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """The first finding of each label."""
    first: dict[Fault, Finding] = {}
    for finding in findings:
        first.setdefault(finding.label, finding)
    return list(first.values())


def verdict(bench: Bench, judged: Judged, *, expected: str, example: Any = None) -> Verdict:
    """A clause's verdict on planes: nothing compared is an error of ours, never a pass."""
    if not judged.rows and not judged.findings:
        raise HarnessError("no row was compared: the clause saw nothing")
    findings = tuple(
        replace(f, example=f.example if f.example is not None else example)
        for f in judged.findings
    )
    return Verdict(
        findings=findings,
        expected=expected,
        actual=f"largest relative distance {judged.worst:.2e} over {judged.rows} rows",
        tolerance=bench.tolerance,
        margin=bench.tolerance / judged.worst if judged.worst else None,
        metrics={"worst": judged.worst, "rows": judged.rows, "planes": judged.planes},
    )
