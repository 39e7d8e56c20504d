"""From what an engine delivered to a judgement on its planes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
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


@dataclass(frozen=True)
class Wanted:
    """The layer ids asked for, in order, and what is right for the last layer's."""

    ids: tuple[int, ...]
    final: Final


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


@dataclass(frozen=True)
class Part:
    """What one forward delivered."""

    observed: Observed
    index: int
    """The forward's place in its run."""


def _rows_due(run: Run, kind: Kind) -> Iterator[tuple[int, Forward, int]]:
    """Each forward of that kind with the rows that count: rejected rows never do."""
    accepted = {step.position: step.accepted for step in run.generation.steps}
    end = len(run.sequence)
    for index, forward in enumerate(run.generation.forwards):
        if forward.kind != kind:
            continue
        if kind == "prefill":
            yield index, forward, len(run.request.prompt) - forward.position
        elif forward.position in accepted and forward.position < end:
            yield index, forward, min(accepted[forward.position] + 1, end - forward.position)


def observe(
    bench: Bench, run: Run, kind: Kind, place: str, phase: Phase
) -> tuple[list[Part], list[Finding]]:
    """What was delivered for one request at one place, and what is wrong with its shape.

    Padding rows behind the due ones are cut off.
    """
    width, found = bench.twin.width, list[Finding]()
    parts: list[Part] = []
    for index, forward, due in _rows_due(run, kind):
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
        parts.append(Part(Observed(planes, position, dtype or bench.dtype, phase), index))
    return parts, found


def _join(parts: Sequence[Part]) -> list[list[Part]]:
    """Runs of forwards that continue one another: few rows a step still make a nameable plane."""
    groups: list[list[Part]] = []
    for part in parts:
        last = groups[-1][-1].observed if groups else None
        continues = (
            last is not None
            and len(part.observed.planes) == len(last.planes) > 0
            and part.observed.position == last.position + len(last.planes[0])
        )
        if continues:
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def _whole(group: Sequence[Part]) -> Observed:
    first = group[0].observed
    columns = zip(*(part.observed.planes for part in group), strict=True)
    return replace(first, planes=tuple(np.concatenate(column) for column in columns))


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
    judged, wanted = Judged(), Wanted(tuple(ids), final)
    for run in runs:
        for kind in kinds:
            for place in places:
                parts, found = observe(bench, run, kind, place, phase)
                judged.findings += found
                for group in _join(parts):
                    _judge_group(bench, run, runs, group, wanted, place, judged)
                if place == "handed" and not parts and not found:
                    _nothing(run, kind, phase, judged)
        bench.memo.setdefault("earlier", []).append(run)
        del bench.memo["earlier"][:-4]
    judged.findings = merge(judged.findings)
    return judged


def _nothing(run: Run, kind: Kind, phase: Phase, judged: Judged) -> None:
    if kind == "verify" and not run.generation.steps:
        text = "no verify step took place, so nothing was captured"
        judged.findings.append(Finding(Fault.SPEC_INACTIVE, text, phase))
    elif kind == "prefill":
        text = "the prefill handed no planes over"
        judged.findings.append(Finding(Fault.HOOK_HOLLOW, text, phase))


def _judge_group(
    bench: Bench,
    run: Run,
    runs: Sequence[Run],
    group: Sequence[Part],
    wanted: Wanted,
    place: str,
    judged: Judged,
) -> None:
    seen = _whole(group)
    context = Context(
        states=bench.states(run.sequence),
        asked=wanted.ids,
        final=wanted.final,
        tolerance=bench.tolerance,
    )
    near = compare(seen, context)
    judged.rows += len(seen.planes[0]) if seen.planes else 0
    if near.worst >= judged.worst:
        judged.worst, judged.planes = near.worst, [asdict(plane) for plane in near.planes]
    if near.ok:
        return
    context = replace(
        context,
        states=bench.states(run.sequence, detail=True),
        others=tuple(bench.states(r.sequence) for r in runs if r is not run),
        earlier=tuple(_before(bench, run, group[0].index)),
    )
    found = explain(seen, context)
    if len(group) > 1 and any(finding.label is Fault.UNKNOWN for finding in found):
        found = _one_by_one(bench, run, group, context) or found
    there = " (at the draft's input)" if place == "received" else ""
    judged.findings += [replace(f, evidence=f.evidence + there) for f in found]


def _one_by_one(
    bench: Bench, run: Run, group: Sequence[Part], context: Context
) -> tuple[Finding, ...]:
    """Each wrong forward against those before it: only so can a stale one be told from its own.

    Returns nothing when that names no more than the joined rows did.
    """
    found: list[Finding] = []
    for part in group:
        if not compare(part.observed, context).ok:
            before = tuple(_before(bench, run, part.index))
            found += explain(part.observed, replace(context, earlier=before))
    named = merge(found)
    return () if any(f.label is Fault.UNKNOWN for f in named) else tuple(named)


def _before(bench: Bench, run: Run, index: int) -> Iterator[tuple[FloatArray, ...]]:
    """Planes as forwards before this one delivered them: of the last runs, then of this one."""
    earlier = [f for old in bench.memo.get("earlier", []) for f in old.generation.forwards]
    for forward in [*earlier, *run.generation.forwards[:index]]:
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
