"""From what an engine delivered to a judgement on its planes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from matrix.contract._bench import Bench, Run, dying
from matrix.contract._clause import Finding, Verdict
from matrix.contract._earlier import Earlier, FloatArray, split
from matrix.contract._explain import Context, Observed, compare, explain
from matrix.engines import Array, Forward
from matrix.errors import EngineError, HarnessError
from matrix.faults import Fault, Phase

__all__ = ["Final", "Judged", "Kind", "death", "judge", "merge", "observe", "verdict"]

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

    def take(self, other: Judged) -> None:
        """Count the rows of another judgement, and keep the worse of the two planes."""
        self.rows += other.rows
        if other.worst >= self.worst:
            self.worst, self.planes = other.worst, other.planes


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
    moved: int = 0
    """How many positions behind its forward the draft took it in."""


def _rows_due(run: Run, kind: Kind) -> Iterator[tuple[int, Forward, int, int]]:
    """Each forward of that kind with the rows that count: rejected rows never do.

    The last number is that of the accepted rows: a cut leaves fewer that can be compared.
    """
    accepted = run.accepted
    forwards, end = run.generation.forwards, len(run.sequence)
    starts = [forward.position for forward in forwards if forward.kind == "prefill"]
    # A chunk of a prefill ends where the next one begins.
    ends = dict(zip(starts, [*starts[1:], len(run.request.prompt)], strict=False))
    for index, forward in enumerate(forwards):
        if forward.kind != kind:
            continue
        if kind == "prefill":
            due = ends[forward.position] - forward.position
            if run.error is not None:  # it may have died of any chunk, the last one or not
                due = min([due, *(array.shape[0] for array in forward.handed[:1])])
            yield index, forward, due, due
        elif forward.position in accepted and forward.position < end:
            rows = accepted[forward.position] + 1
            yield index, forward, min(rows, end - forward.position), rows


def _uncovered(run: Run, phase: Phase) -> list[Finding]:
    """Planes of a prefill that begin before or after the first position that was computed."""
    starts = [forward.position for forward in run.generation.forwards if forward.kind == "prefill"]
    if not starts or min(starts) == run.generation.cached_tokens:
        return []
    text = f"{run.generation.cached_tokens} tokens cached, planes from position {min(starts)}"
    return [Finding(Fault.PLANE_SHAPE, text, phase)]


def observe(
    bench: Bench, run: Run, kind: Kind, place: str, phase: Phase
) -> tuple[list[Part], list[Finding]]:
    """What was delivered for one request at one place, and what is wrong with its shape.

    Padding rows behind the due ones are cut off.
    """
    width, found = bench.twin.width, list[Finding]()
    if kind == "prefill" and place == "handed":
        found += _uncovered(run, phase)
    parts: list[Part] = []
    for index, forward, due, accepted in _rows_due(run, kind):
        arrays, position = _arrays(forward, place)
        if not arrays:
            continue  # nothing captured, or the draft was not called after this forward
        parted = split(arrays, width)
        where = f"{place} planes of the {kind} at position {forward.position}"
        if parted is None:
            shapes = [array.shape for array in arrays]
            text = f"{where}: shapes {shapes} are no planes of width {width}"
            found.append(Finding(Fault.PLANE_SHAPE, text, phase))
            continue
        planes, dtype = parted
        rows = min((len(plane) for plane in planes), default=0)
        exact = place == "received" and kind == "verify"
        surplus = exact and rows not in (due, accepted) and position == forward.position
        moved = position - forward.position
        if planes and (surplus or (rows < due and not moved)):
            text = f"{where}: {rows} rows, {due} due"
            found.append(Finding(Fault.PLANE_SHAPE, text, phase))
            continue
        planes = tuple(plane[:due] for plane in planes)
        observed = Observed(planes, position, dtype or bench.dtype, phase)
        parts.append(Part(observed, index, moved))
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
    prefill = tuple(kinds) == ("prefill",)
    for run in runs:
        due = tuple(run.request.prompt) if prefill else run.sequence
        for kind in kinds:
            for place in places:
                parts, found = observe(bench, run, kind, place, phase)
                judged.findings += found
                for part in parts:
                    if part.moved:
                        judged.findings += _taken_in_elsewhere(bench, run, part, wanted)
                for group in _join([part for part in parts if not part.moved]):
                    _judge_group(bench, run, runs, group, wanted, place, due, judged)
                if place == "handed" and not parts and not found:
                    judged.findings += _nothing(bench, run, kind, phase)
    judged.findings = merge(judged.findings)
    return judged


def _nothing(bench: Bench, run: Run, kind: Kind, phase: Phase) -> list[Finding]:
    """Why no plane came: the engine died before, nothing was drafted, or the hook is hollow."""
    if run.generation.error is not None:
        return []
    if bench.has("draft") and not any(step.drafted for step in run.generation.steps):
        text = "nothing was drafted, so nothing was captured"
        return [Finding(Fault.SPEC_INACTIVE, text, phase)]
    return [Finding(Fault.HOOK_HOLLOW, f"no {kind} handed planes over", phase)]


def _judge_group(
    bench: Bench,
    run: Run,
    runs: Sequence[Run],
    group: Sequence[Part],
    wanted: Wanted,
    place: str,
    due: tuple[int, ...],
    judged: Judged,
) -> None:
    """Compare with the states of `due`; what is wrong is named by those of the whole sequence."""
    seen = _whole(group)
    context = Context(
        states=bench.states(due),
        asked=wanted.ids,
        final=wanted.final,
        tolerance=bench.tolerance,
    )
    near = compare(seen, context)
    judged.rows += len(seen.planes[0]) if seen.planes else 0
    if near.worst >= judged.worst:
        judged.worst, judged.planes = near.worst, [{**vars(plane)} for plane in near.planes]
    if near.ok:
        return
    context = replace(
        context,
        states=bench.states(run.sequence, detail=True),
        others=tuple(bench.states(r.sequence) for r in _batch(bench, run, runs) if r is not run),
        earlier=Earlier(bench, run, group[0].index, seen),
    )
    found = _narrow(seen, context) or explain(seen, context)
    wrong = [part for part in group if not compare(part.observed, context).ok]
    if len(group) > 1 and _doubtful(found, wrong):
        apart = _one_by_one(bench, run, wrong, context)
        found = apart if 0 < len(apart) <= len(found) else found
    there = " (at the draft's input)" if place == "received" else ""
    judged.findings += [replace(f, evidence=f.evidence + there) for f in found]


def _taken_in_elsewhere(bench: Bench, run: Run, part: Part, wanted: Wanted) -> tuple[Finding, ...]:
    """What rows are that the draft took in at another position than their forward's."""
    seen, own = part.observed, part.observed.position - part.moved
    context = Context(
        bench.states(run.sequence), wanted.ids, final=wanted.final, tolerance=bench.tolerance
    )
    if compare(replace(seen, position=own), context).ok:
        text = f"the draft takes rows of position {own} on in at position {seen.position}"
        return (Finding(Fault.ROW_SHIFT, text, seen.phase),)
    if compare(seen, context).ok:
        text = f"the draft received nothing of positions {own} to {seen.position - 1}"
        return (Finding(Fault.PLANE_SHAPE, text, seen.phase),)
    return explain(seen, replace(context, states=bench.states(run.sequence, detail=True)))


def _batch(bench: Bench, run: Run, runs: Sequence[Run]) -> Sequence[Run]:
    """The runs of one call, which may have run in one step; elsewhere each is before the next."""
    if not bench.has("batch"):
        return ()
    return next((batch for batch in bench.recent if any(each is run for each in batch)), runs)


def _doubtful(found: Sequence[Finding], wrong: Sequence[Part]) -> bool:
    """Whether joined forwards may hide what each wrong one is.

    An earlier forward's rows look like moved ones when all are joined. Several forwards of one row
    can't tell the two apart when each is alone, so there the joined rows are believed.
    """
    labels = {finding.label for finding in found}
    tall = len(wrong) == 1 or all(len(part.observed.planes[0]) > 1 for part in wrong)
    return Fault.UNKNOWN in labels or (tall and Fault.ROW_SHIFT in labels)


def _one_by_one(
    bench: Bench, run: Run, wrong: Sequence[Part], context: Context
) -> tuple[Finding, ...]:
    """Each wrong forward against those before it: only so can a stale one be told from its own.

    Returns nothing when that leaves one without a name.
    """
    found: list[Finding] = []
    for part in wrong:
        before = Earlier(bench, run, part.index, part.observed)
        found += explain(part.observed, replace(context, earlier=before))
    named = merge(found)
    return () if any(f.label is Fault.UNKNOWN for f in named) else tuple(named)


def _narrow(seen: Observed, context: Context) -> tuple[Finding, ...]:
    """Planes that were all cut to one smaller width, and so split as fewer planes than ids."""
    if not seen.planes or not context.asked:
        return ()
    rows = np.concatenate(seen.planes, axis=1)
    width, rest = divmod(rows.shape[1], len(context.asked))
    if rest or not 0 < width < context.states.width:
        return ()
    window = slice(seen.position, seen.position + len(rows))
    cuts = np.split(rows, len(context.asked), axis=1)
    for cut, asked in zip(cuts, context.asked, strict=True):
        forms = [context.states.layers[asked, window]]
        forms += [context.states.normed[window]] * (asked == context.states.depth - 1)
        if not any(_close(cut, form[:, :width], context.tolerance) for form in forms):
            return ()
    text = f"every plane is {width} wide, the target's width is {context.states.width}"
    return (Finding(Fault.PLANE_SHAPE, text, seen.phase),)


def _close(rows: FloatArray, due: FloatArray, tolerance: float) -> bool:
    same = rows.shape == due.shape
    return same and bool(np.linalg.norm(rows - due) <= tolerance * np.linalg.norm(due))


def death(bench: Bench, error: EngineError, gives: Mapping[Fault, Any]) -> tuple[Finding, ...]:
    """What a request died of: its planes where they can be seen, else the engine's last words."""
    batches = [[run for run in batch if run.error is not None] for batch in bench.recent]
    dead = next((batch for batch in reversed(batches) if batch), [])
    found = judge(bench, dead, bench.ids).findings if dead else []
    named = tuple(f for f in found if f.label in gives and f.label is not Fault.UNKNOWN)
    return named or (dying(error, gives, otherwise=Fault.UNKNOWN),)


_LOOKS_LIKE: Mapping[Fault, frozenset[Fault]] = {
    # A plane of the forward before looks like moved rows where every forward had one row.
    Fault.PLANE_STALE: frozenset({Fault.ROW_SHIFT}),
    # A plane that is one layer off equals its neighbour's, where both were asked for.
    Fault.TAP_SHIFT_BEFORE: frozenset({Fault.PLANE_REPEATED}),
    Fault.TAP_SHIFT_AFTER: frozenset({Fault.PLANE_REPEATED}),
    # With a plane left out, those behind it look shifted where neighbours were asked for.
    Fault.PLANE_MISSING: frozenset({Fault.TAP_SHIFT_BEFORE, Fault.TAP_SHIFT_AFTER}),
    Fault.TAP_DUP_SILENT: frozenset({Fault.TAP_SHIFT_BEFORE, Fault.TAP_SHIFT_AFTER}),
}
"""Cause -> what the same cause can look like on an input that shows less of it."""


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """One finding a cause, over several inputs; a name goes before what no candidate fitted."""
    first: dict[Fault, Finding] = {}
    for finding in findings:
        first.setdefault(finding.label, finding)
    alike = frozenset[Fault]().union(*(_LOOKS_LIKE.get(label, frozenset()) for label in first))
    causes = [finding for label, finding in first.items() if label not in alike]
    return sorted(causes, key=lambda finding: finding.label is Fault.UNKNOWN)


def verdict(bench: Bench, judged: Judged, *, expected: str, example: Any = None) -> Verdict:
    """A clause's verdict on planes: nothing compared is an error of ours, never a pass."""
    if not judged.rows and not judged.findings:
        raise HarnessError("no row was compared: the clause saw nothing")
    findings = tuple(
        replace(f, example=f.example if f.example is not None else example) for f in judged.findings
    )
    return Verdict(
        findings=findings,
        expected=expected,
        actual=f"largest relative distance {judged.worst:.2e} over {judged.rows} rows",
        tolerance=bench.tolerance,
        margin=bench.tolerance / judged.worst if judged.worst else None,
        metrics={"worst": judged.worst, "rows": judged.rows, "planes": judged.planes},
    )
