"""Naming the fault: what the delivered planes are, when they are not what was asked for.

Each wrong plane is matched, on its wrong rows, against every candidate (`_candidates`); then the
planes are looked at together, because a permutation, a repeat or a shift of the whole set is one
fault and not several. One cause gives one finding; what nothing fits is `unknown`, with the
distances, for a wrong name is worse than none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from matrix.contract._candidates import CLUES, SAME, Block, Clue, sorted_fit
from matrix.contract._clause import Finding
from matrix.contract._compare import (
    Comparison,
    Context,
    FloatArray,
    Observed,
    PlaneMatch,
    compare,
    is_coarse,
    relative,
    right_states,
    rounding,
    shape_problem,
    split_planes,
)
from matrix.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Comparison", "Context", "Observed", "PlaneMatch", "compare", "explain"]

_SHOWN = 3  # planes that an evidence sentence spells out


@dataclass(frozen=True)
class _Named:
    """What some wrong rows of one plane are."""

    plane: int
    asked: int
    rows: tuple[int, ...]
    label: Fault
    text: str
    layer: int | None = None


def explain(observed: Observed, context: Context) -> tuple[Finding, ...]:
    """Name what is wrong with the planes; empty when they are right.

    The first finding is the primary one: the label that covers most rows, `unknown` last.

    Raises:
        HarnessError: `observed.dtype` is not a dtype of planes.
    """
    planes = split_planes(observed.planes, context.states.width)
    if found := _wrong_number(planes, observed, context):
        return found
    if problem := shape_problem(planes, observed.position, context):
        return (Finding(Fault.PLANE_SHAPE, problem, observed.phase),)
    named: list[_Named] = []
    for index, match in enumerate(compare(observed, context).planes):
        if match.wrong:
            named += _name_plane(index, match, planes[index], observed, context)
    found = _findings(_together(named, planes, observed, context), planes, observed)
    return _in_layer_order(found, observed, context) or found


def _in_layer_order(
    found: Sequence[Finding], observed: Observed, context: Context
) -> tuple[Finding, ...]:
    """Planes in the order of their layers, and wrong besides: place by place they have no one name."""
    ordered = tuple(sorted(context.asked))
    one_name = len(found) < 2 and Fault.UNKNOWN not in {each.label for each in found}
    if one_name or ordered == context.asked:
        return ()
    rest = explain(observed, replace(context, asked=ordered))
    if len(rest) != 1 or rest[0].label is Fault.UNKNOWN:
        return ()
    text = f"asked for {list(context.asked)}, the planes come in the order of their layers"
    return (Finding(Fault.TAP_ORDER, text, observed.phase), *rest)


def _wrong_number(
    planes: tuple[FloatArray, ...], observed: Observed, context: Context
) -> tuple[Finding, ...]:
    """What it means that there are fewer planes than layer ids; empty when there are not."""
    asked, width, phase = context.asked, context.states.width, observed.phase
    if asked and not any(plane.ndim and plane.shape[-1] for plane in planes):
        text = f"no plane was delivered for layer ids {list(asked)}"
        return (Finding(Fault.HOOK_HOLLOW, text, phase),)
    if len(planes) >= len(asked) or any(p.ndim != 2 or p.shape[1] != width for p in planes):
        return ()
    missing = f"{len(planes)} planes for layer ids {list(asked)}"
    distinct = tuple(dict.fromkeys(asked))
    if len(distinct) <= len(planes):
        swallowed = Finding(Fault.TAP_DUP_SILENT, f"{missing}: a repeated id gave no plane", phase)
        if len(distinct) != len(planes):
            return (swallowed,)
        rest = explain(replace(observed, planes=planes), replace(context, asked=distinct))
        return (swallowed, *(each for each in rest if each.label is not Fault.TAP_ORDER))
    near = compare(
        replace(observed, planes=planes), replace(context, asked=asked[: len(planes)])
    ).planes
    layers = tuple(match.matched for match in near)
    exact = is_coarse(observed.dtype) or all(min(m.distances) <= 1e-3 for m in near)
    for step, label in ((-1, Fault.TAP_SHIFT_BEFORE), (1, Fault.TAP_SHIFT_AFTER)):
        moved = tuple(a + step for a in asked if 0 <= a + step < context.states.depth)
        if near and exact and layers == moved:
            text = f"{missing}: they are the outputs of layers {list(layers)}"
            return (Finding(label, text, phase),)
    those = f", nearest to layers {list(layers)}" if near else ""
    return (Finding(Fault.PLANE_MISSING, missing + those, phase),)


def _name_plane(
    index: int, match: PlaneMatch, plane: FloatArray, observed: Observed, context: Context
) -> list[_Named]:
    """Name the wrong rows of one plane: those with NaN or infinity first, then the others."""
    wrong = np.array(match.wrong)
    finite = np.isfinite(plane[wrong]).all(axis=1)
    named: list[_Named] = []
    if not finite.all():
        rows = tuple(wrong[~finite].tolist())
        count = int((~np.isfinite(plane)).sum())
        text = f"has {count} values that are NaN or infinite"
        named.append(_Named(index, match.asked, rows, Fault.NONFINITE, text))
    wrong = wrong[finite]
    rights = right_states(context, match.asked)
    if wrong.size and not rights:
        text = f"was asked for layer {match.asked} of 0 to {context.states.depth - 1}"
        named.append(_Named(index, match.asked, tuple(wrong.tolist()), Fault.UNKNOWN, text))
    elif wrong.size:
        rows = plane[wrong].astype(np.float64)
        positions = observed.position + wrong
        block = Block(
            rows=rows,
            positions=positions,
            height=len(plane),
            asked=match.asked,
            right=min(rights, key=lambda state: float(relative(rows, state[positions]).max())),
            dtype=observed.dtype,
            coarse=is_coarse(observed.dtype) or bool(rounding(rows, observed.dtype)),
            context=context,
        )
        named += _name_block(index, block, observed.position)
    return named


def _name_block(index: int, block: Block, start: int) -> list[_Named]:
    """Name a block by the first clue that fits all its rows, or piece by piece."""
    best: Clue | None = None
    for try_clue in CLUES:
        clue = try_clue(block)
        if clue and (best is None or clue.fits.sum() > best.fits.sum()):
            best = clue
        if best and best.fits.all():
            break
    rows = tuple((block.positions - start).tolist())
    expected = f"expected layer {block.asked} ({np.median(block.error):.2g})"
    if best is None:
        near = sorted(block.candidates, key=lambda c: float(np.median(c.distances)))[:2]
        text = "fits no candidate: nearest " + ", then ".join(
            f"{each.what} ({np.median(each.distances):.2g})" for each in near
        )
        return [_Named(index, block.asked, rows, Fault.UNKNOWN, f"{text}; {expected}")]
    runner = f"; runner-up {best.rival}" if best.rival else ""
    text = f"is {best.what} (relative distance {best.distance:.1g}), {expected}{runner}"
    # A stale plane may hold rows of rejected tokens, which no reference has.
    if best.fits.all() or (best.label is Fault.PLANE_STALE and best.fits.mean() >= 0.5):
        return [_Named(index, block.asked, rows, best.label, text, best.layer)]
    hit = tuple(row for row, fits in zip(rows, best.fits, strict=True) if fits)
    first = _Named(index, block.asked, hit, best.label, text, best.layer)
    return [first, *_name_block(index, block.take(~best.fits), start)]


def _together(
    named: list[_Named], planes: Sequence[FloatArray], observed: Observed, context: Context
) -> list[_Named]:
    """Give faults of the whole set their one name."""
    counts = Counter(each.plane for each in named)
    whole = {each.plane: each for each in named if counts[each.plane] == 1}
    renamed = (
        _order(whole)
        or _repeats(whole, planes, context)
        or _shift_past_end(whole, len(planes), context)
        or _interleaved(whole, planes, observed, context)
    )
    return [renamed.get(each.plane, each) for each in named]


def _order(whole: Mapping[int, _Named]) -> dict[int, _Named]:
    """Planes that are right as a set, each in another one's place."""
    strays = {i: each for i, each in whole.items() if each.layer not in (None, each.asked)}
    if not strays or Counter(e.layer for e in strays.values()) != Counter(
        e.asked for e in strays.values()
    ):
        return {}
    return {i: replace(each, label=Fault.TAP_ORDER) for i, each in strays.items()}


def _repeats(
    whole: Mapping[int, _Named], planes: Sequence[FloatArray], context: Context
) -> dict[int, _Named]:
    """Planes that are one tensor although their ids differ.

    A shift that stops at the first or last layer repeats a plane too: it stays a shift when it
    explains every plane and moved at least two.
    """
    repeats: dict[int, _Named] = {}
    for index, each in whole.items():
        if each.label in (Fault.PLANE_ZERO, Fault.NONFINITE):
            continue
        rows = list(each.rows)
        for other, plane in enumerate(planes):
            if other == index or context.asked[other] == each.asked:
                continue
            if relative(planes[index][rows], plane[rows]).max() <= SAME:
                text = f"is the same as plane {other}, and {each.text}"
                repeats[index] = replace(each, label=Fault.PLANE_REPEATED, text=text)
                break
    if not repeats or _clamped_shift(whole, context):
        return {}
    for index, each in whole.items():  # the planes that the repeat pushed out of their places
        if index not in repeats and each.layer != each.asked and each.layer in context.asked:
            repeats[index] = replace(each, label=Fault.PLANE_REPEATED)
    return repeats


def _clamped_shift(whole: Mapping[int, _Named], context: Context) -> bool:
    for step, edge in ((-1, 0), (1, context.states.depth - 1)):
        moved = [i for i, each in whole.items() if each.layer == each.asked + step]
        rest = {a for i, a in enumerate(context.asked) if i not in moved}
        if len(moved) >= 2 and rest <= {edge} and len(moved) == len(whole):
            return True
    return False


def _shift_past_end(whole: Mapping[int, _Named], count: int, context: Context) -> dict[int, _Named]:
    """The last layer's plane, shifted one high with all others: a normed state, or nothing."""
    last = context.states.depth - 1
    ends = {i: each for i, each in whole.items() if each.asked == last}
    rest = [each for i, each in whole.items() if i not in ends]
    if len(whole) < count or not rest or not ends:
        return {}
    if any(each.label is not Fault.TAP_SHIFT_AFTER for each in rest):
        return {}
    beyond = (Fault.NORM_APPLIED, Fault.PLANE_ZERO)
    return {
        i: replace(each, label=Fault.TAP_SHIFT_AFTER)
        for i, each in ends.items()
        if each.label in beyond
    }


def _interleaved(
    whole: Mapping[int, _Named],
    planes: Sequence[FloatArray],
    observed: Observed,
    context: Context,
) -> dict[int, _Named]:
    """Planes whose numbers are right only when they are all taken together."""
    unknown = [i for i, each in whole.items() if each.label is Fault.UNKNOWN and each.layer is None]
    states = [right_states(context, context.asked[i])[:1] for i in unknown]
    if len(unknown) < 2 or is_coarse(observed.dtype) or not all(states):
        return {}
    window = slice(observed.position, observed.position + len(planes[0]))
    due = np.concatenate([state[window] for (state,) in states], axis=1)
    rows = np.concatenate([planes[i] for i in unknown], axis=1).astype(np.float64)
    distance = sorted_fit(rows, due)
    if (distance > 1e-3).any() or (distance > relative(rows, due) / 20).any():
        return {}
    text = "holds numbers of other planes: together the planes hold the right ones"
    return {i: replace(whole[i], label=Fault.PLANE_PERMUTED, text=text) for i in unknown}


def _findings(
    named: Iterable[_Named], planes: Sequence[FloatArray], observed: Observed
) -> tuple[Finding, ...]:
    """One finding a label, the one that covers most rows first and `unknown` last."""
    groups: dict[Fault, list[_Named]] = {}
    for each in named:
        groups.setdefault(each.label, []).append(each)
    ordered = sorted(
        groups.items(),
        key=lambda item: (item[0] is Fault.UNKNOWN, -sum(len(n.rows) for n in item[1])),
    )
    return tuple(
        Finding(label, _evidence(members, len(planes[0]), observed.position), observed.phase)
        for label, members in ordered
    )


def _evidence(members: Sequence[_Named], height: int, start: int) -> str:
    sentences = []
    for each in members[:_SHOWN]:
        where = f"plane {each.plane}"
        if len(each.rows) < height:
            where += f", {_rows_text(each.rows, start)},"
        sentences.append(f"{where} {each.text}")
    if len(members) > _SHOWN:
        sentences.append(f"and {len(members) - _SHOWN} more of {len(members)}")
    return "; ".join(sentences)


def _rows_text(rows: Sequence[int], start: int) -> str:
    first, last = rows[0] + start, rows[-1] + start
    if len(rows) == 1:
        return f"position {first}"
    if last - first + 1 == len(rows):
        return f"positions {first} to {last}"
    return f"{len(rows)} positions from {first} to {last}"
