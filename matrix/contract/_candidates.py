"""What a wrong plane may be instead: each candidate tried on the rows that are wrong.

Every function looks at one `Block` and returns a `Clue`, or `None`. A clue names what the rows
are and says which of them it fits. In full precision a fit is near-exact, so that a name is never
a guess; in narrower dtypes the nearest candidate must be clear of the runner-up.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from matrix.contract._compare import (
    CLEAR,
    Context,
    FloatArray,
    relative,
    rounding,
    split_planes,
)
from matrix.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["CLUES", "SAME", "Block", "Candidate", "Clue", "sorted_fit"]

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.integer[Any]]

_FEW: Final = 8
"""Rows moved by more than this are not "moved by a few"."""
SAME: Final = 1e-5
"""Two arrays nearer than this (relative) are one tensor, delivered twice."""


@dataclass(frozen=True)
class Candidate:
    """A state that the rows may be."""

    what: str
    label: Fault | None
    """The fault, if the rows are this; `None`: the right state, or one that no label describes."""
    layer: int | None
    """The layer whose plane it is: -1 the embedding, N the final norm where that is wrong."""
    distances: FloatArray
    """`[R]`: relative L2 distance of each row."""
    right: bool = False

    @property
    def group(self) -> str:
        """Candidates of one group don't compete: any of them gives the same verdict."""
        return "right" if self.right else str(self.label or self.what)


@dataclass(frozen=True)
class Clue:
    """What some rows of a block are."""

    label: Fault
    what: str
    fits: BoolArray
    """`[R]`: the rows that it explains."""
    distance: float
    layer: int | None = None
    rival: str = ""
    """The runner-up, with its distance."""


@dataclass(frozen=True)
class Block:
    """The wrong rows of one plane."""

    rows: FloatArray
    """`[R, H]`, float64"""
    positions: IntArray
    """`[R]`: the sequence position of each."""
    height: int
    """The number of rows, right ones included, that the plane has."""
    asked: int
    right: FloatArray
    """`[L, H]`: the right state of the whole sequence."""
    dtype: str
    coarse: bool
    """Judged by the nearest candidate: a narrow dtype, or numbers that were rounded."""
    context: Context

    @cached_property
    def due(self) -> FloatArray:
        """`[R, H]`: the right state of these rows."""
        return self.right[self.positions].astype(np.float64)

    @cached_property
    def error(self) -> FloatArray:
        """`[R]`: relative distance to the right state."""
        return relative(self.rows, self.due)

    @cached_property
    def limit(self) -> float:
        """In full precision: how near is near-exact."""
        return max(self.context.tolerance, 1e-3)

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """The states of this very sequence at these positions."""
        return tuple(_own_states(self))

    @cached_property
    def nearest(self) -> FloatArray:
        """`[R]`: distance to the nearest of the sequence's own states."""
        nearest: FloatArray = np.min([each.distances for each in self.candidates], axis=0)
        return nearest

    def close(self, distances: FloatArray) -> BoolArray:
        """Which rows are as near as a name takes, for candidates beyond the own states."""
        return distances <= (CLEAR * self.nearest if self.coarse else self.limit)

    def take(self, mask: BoolArray) -> Block:
        """The block of some of its rows."""
        return replace(self, rows=self.rows[mask], positions=self.positions[mask])


def _apart(rows: FloatArray, stack: FloatArray) -> FloatArray:
    """`[C, R]`: |x - y| relative to the longer of the two, of `[R, H]` to each of `[C, R, H]`."""
    stack = stack.astype(np.float64)
    cross = np.einsum("rh,crh->cr", rows, stack)
    own = np.einsum("rh,rh->r", rows, rows)
    norm = np.einsum("crh,crh->cr", stack, stack)
    square = np.maximum(own - 2.0 * cross + norm, 0.0)
    apart: FloatArray = np.sqrt(square / np.maximum(np.maximum(own, norm), 1e-300))
    return apart


def _pairwise(rows: FloatArray, pool: FloatArray) -> FloatArray:
    """`[R, M]`: relative distance of each row to each row of the pool."""
    pool = pool.astype(np.float64)
    square = np.einsum("rh,rh->r", rows, rows)[:, None] - 2.0 * (rows @ pool.T)
    norm = np.einsum("mh,mh->m", pool, pool)
    ratio: FloatArray = np.sqrt(np.maximum(square + norm, 0.0) / np.maximum(norm, 1e-300))
    return ratio


def _unit(state: FloatArray) -> FloatArray:
    rms = np.sqrt(np.mean(state**2, axis=1, keepdims=True))
    unit: FloatArray = state / np.maximum(rms, 1e-300)
    return unit


def _own_states(block: Block) -> Iterator[Candidate]:
    """All that the sequence itself has at these positions, each with what it would mean."""
    states, asked, at, final = (
        block.context.states,
        block.asked,
        block.positions,
        block.context.final,
    )
    last = states.depth - 1
    due_normed = asked == last and final != "raw"
    shifts = {asked - 1: Fault.TAP_SHIFT_BEFORE, asked + 1: Fault.TAP_SHIFT_AFTER}
    for n, far in enumerate(_apart(block.rows, states.layers[:, at])):
        missing = n == asked == last and final == "normed"
        label = Fault.NORM_MISSING if missing else shifts.get(n)
        right = n == asked and not missing
        yield Candidate(f"layer {n}'s output", label, n, far, right)
    ends = _apart(block.rows, np.stack([states.embedding[at], states.normed[at]]))
    yield Candidate("the embedding", shifts.get(-1), -1, ends[0])
    label = Fault.NORM_APPLIED if asked == last and not due_normed else None
    if final != "raw":  # the last layer's state comes normed, so its neighbour's shift does too
        label = label or shifts.get(last)
    what = f"layer {last}'s output through the final norm"
    yield Candidate(what, label, last + (final == "raw"), ends[1], due_normed)
    yield from _branches(block)
    yield from _added(block)
    if not due_normed:
        yield from _norms(block)


def _branches(block: Block) -> Iterator[Candidate]:
    """The branches without the stream, and the stream without a branch."""
    states, asked, at = block.context.states, block.asked, block.positions
    for name, branch in (("attention", states.attention), ("MLP", states.mlp)):
        if branch is None:
            continue
        for n, far in enumerate(_apart(block.rows, branch[:, at])):
            what = f"layer {n}'s {name} branch alone"
            yield Candidate(what, Fault.RESIDUAL_MISSING, None, far)
        stream = states.layers[asked, at].astype(np.float64) - branch[asked, at]
        what = f"layer {asked}'s output without its {name} branch"
        far = _apart(block.rows, stream[None])[0]
        yield Candidate(what, Fault.RESIDUAL_ONLY, None, far)


def _added(block: Block) -> Iterator[Candidate]:
    """What a layer added to the stream: all its branches together."""
    states, at = block.context.states, block.positions
    entering = np.concatenate([states.embedding[None], states.layers[:-1]])[:, at]
    added = states.layers[:, at].astype(np.float64) - entering
    for n, far in enumerate(_apart(block.rows, added)):
        what = f"what layer {n} added, without the residual stream"
        yield Candidate(what, Fault.RESIDUAL_MISSING, None, far)


def _norms(block: Block) -> Iterator[Candidate]:
    """Layer outputs through the norms that the model has, and through bare ones."""
    states, asked, at = block.context.states, block.asked, block.positions
    for name, normed in (
        ("the final norm", states.final_normed),
        ("the next layer's input norm", states.next_normed),
    ):
        # The last layer's is the final norm under either name, and stands among the own states.
        far = () if normed is None else _apart(block.rows, normed[:-1, at])
        for n, distances in enumerate(far):
            label = Fault.NORM_APPLIED if n == asked else None
            yield Candidate(f"layer {n}'s output through {name}", label, None, distances)
    centred = block.due - block.due.mean(axis=1, keepdims=True)
    bare = _apart(block.rows, np.stack([_unit(block.due), _unit(centred)]))
    for name, distances in zip(("RMS", "layer"), bare, strict=True):
        # Any row may have about the norm that a rescaling gives it; all of them don't.
        distances[:] = distances.max()
        what = f"layer {asked}'s output through a {name} norm without weights"
        yield Candidate(what, Fault.NORM_APPLIED, None, distances)


def constant(block: Block) -> Clue | None:
    """Rows that hold one number only: zeros, or a poison value."""
    spread = np.ptp(block.rows, axis=1)
    size = np.abs(block.rows).max(axis=1)
    scale = np.sqrt(np.mean(block.due**2, axis=1))
    zero = size <= 1e-6 * scale
    flat = zero | (spread <= 1e-6 * size)
    if not flat.any():
        return None
    what = "zero" if zero[flat].all() else f"{block.rows[flat][0, 0]:.3g} everywhere"
    return Clue(Fault.PLANE_ZERO, what, flat, 0.0)


def own_state(block: Block) -> Clue | None:
    """Rows that are another state of the same sequence."""
    groups = sorted({candidate.group for candidate in block.candidates})
    table = np.array([candidate.distances for candidate in block.candidates])
    member = np.array([groups.index(candidate.group) for candidate in block.candidates])
    near = np.array([table[member == g].min(axis=0) for g in range(len(groups))])
    first, second = np.partition(near, 1, axis=0)[:2]
    beyond = np.where(near == first, second, first)
    if block.coarse:
        clear = np.median(near, axis=1) <= CLEAR * np.median(beyond, axis=1)
        fits = np.repeat(clear[:, None], near.shape[1], axis=1)
    else:
        fits = (near <= block.limit) & (near <= CLEAR * beyond)
    group = max(range(len(groups)), key=lambda g: (int(fits[g].sum()), -float(near[g].max())))
    if not fits[group].any():
        return None
    hit = fits[group]
    typical = np.median(table[:, hit], axis=1)
    best = block.candidates[int(np.where(member == group, typical, np.inf).argmin())]
    if best.right:
        return None
    rival = int(np.where(member == group, np.inf, typical).argmin())
    return Clue(
        label=best.label or Fault.UNKNOWN,
        what=best.what,
        fits=hit,
        distance=float(np.median(best.distances[hit])),
        layer=best.layer,
        rival=f"{block.candidates[rival].what} ({typical[rival]:.2g})",
    )


_COARSEST: Final = 0.13
"""How far rounding alone moves a row: half a unit of two mantissa bits, the fewest of any float."""


def rounded_off(block: Block) -> Clue | None:
    """Rows that are nearest to the right state and hold rounded numbers."""
    how = rounding(block.rows, block.dtype)
    planes = [each for each in block.candidates if each.layer is not None]
    nearest = min(planes, key=lambda each: float(np.median(each.distances)))
    distance = float(np.median(nearest.distances))
    if not how or not nearest.right or distance > _COARSEST:
        return None
    fits = np.ones(len(block.rows), dtype=bool)
    return Clue(Fault.PRECISION_LOSS, f"{nearest.what} rounded to {how}", fits, distance)


def stale(block: Block) -> Clue | None:
    """Rows that an earlier forward delivered, where that forward was of other content."""
    fits, worst, where = np.zeros(len(block.rows), dtype=bool), 0.0, ""
    layers = block.context.states.layers
    for back, forward in enumerate(reversed(block.context.earlier), start=1):
        planes = [
            plane.astype(np.float64)
            for plane in split_planes(forward, block.rows.shape[1])
            if plane.ndim == 2 and plane.shape[1] == block.rows.shape[1] and len(plane)
        ]
        for plane in planes:
            table = _pairwise(block.rows, plane)
            for row in np.flatnonzero(~fits & (table.min(axis=1) <= block.context.tolerance)):
                match = int(table[row].argmin())
                here = layers[:, block.positions[row]].astype(np.float64)
                beside = np.stack([other[match] for other in planes if match < len(other)])
                if min(_pairwise(beside, here).min(axis=1)) > block.limit:
                    fits[row], where = True, where or f"{back} back"
                    worst = max(worst, float(table[row, match]))
    if not fits.any():
        return None
    return Clue(Fault.PLANE_STALE, f"a plane of an earlier forward ({where})", fits, worst)


def moved(block: Block) -> Clue | None:
    """Rows that are the right layer's at other positions of the sequence."""
    table = _pairwise(block.rows, block.right)
    source = table.argmin(axis=1)
    distance = table.min(axis=1)
    fits = block.close(distance) & (source != block.positions)
    if not fits.any():
        return None
    steps = (block.positions - source)[fits]
    worst = float(distance[fits].max())
    shift, count = _common_shift(steps, block.height)
    inside = len(block.rows) - count  # rows at an edge have no source and may hold anything
    if shift and count >= inside and inside <= abs(shift):
        what = f"the right layer's rows moved by {shift:+d}"
        return Clue(Fault.ROW_SHIFT, what, np.ones_like(fits), worst)
    if (steps > 0).all() and len(set(source[fits])) == len(steps) and len(set(steps)) > 1:
        return Clue(Fault.PLANE_STALE, "the right layer's rows of earlier positions", fits, worst)
    what = f"the right layer's rows at other positions ({_examples(block, source, fits)})"
    return Clue(Fault.ROW_SHIFT, what, fits, worst)


def _common_shift(steps: IntArray, height: int) -> tuple[int, int]:
    """The commonest small step, and how many rows it explains, wrapped-around ones included."""
    counts = Counter(int(step) for step in steps)
    small = [step for step in counts if abs(step) <= _FEW]
    if not small:
        return 0, 0
    shift = max(small, key=lambda step: (counts[step], -abs(step), step))
    wrapped = counts[shift - height] + counts[shift + height]
    return shift, counts[shift] + wrapped


def _examples(block: Block, source: IntArray, fits: BoolArray) -> str:
    pairs = list(zip(block.positions[fits].tolist(), source[fits].tolist(), strict=True))[:3]
    return ", ".join(f"position {at} holds {of}" for at, of in pairs)


def foreign(block: Block) -> Clue | None:
    """Rows that are states of another request."""
    best: Clue | None = None
    for number, other in enumerate(block.context.others):
        order = sorted(range(other.depth), key=lambda n: n != block.asked)
        pools = [(f"layer {n}'s output", other.layers[n]) for n in order]
        for what, pool in [*pools, ("the final norm's output", other.normed)]:
            distance = _pairwise(block.rows, pool).min(axis=1)
            fits = block.close(distance)
            if fits.sum() > (best.fits.sum() if best else 0):
                text = f"{what} of another request (number {number})"
                best = Clue(Fault.PLANE_FOREIGN, text, fits, float(distance[fits].max()))
        if best and best.fits.all():
            return best
    return best


def sorted_fit(rows: FloatArray, due: FloatArray) -> FloatArray:
    """Per row: relative distance of the same numbers in sorted order."""
    return relative(np.sort(rows, axis=1), np.sort(due, axis=1))


def permuted(block: Block) -> Clue | None:
    """Rows that hold the right numbers in the wrong columns."""
    distance = sorted_fit(block.rows, block.due)
    if block.coarse:
        layers = block.context.states.layers
        rivals = [
            float(np.median(sorted_fit(block.rows, layers[n, block.positions])))
            for n in range(len(layers))
            if n != block.asked
        ]
        rivals.append(float(np.median(block.error)) / 2)
        clear = float(np.median(distance)) <= CLEAR * min(rivals)
        fits = np.full(len(distance), clear)
    else:
        fits = (distance <= block.limit) & (distance <= block.error / 20)
    if not fits.any():
        return None
    what = f"layer {block.asked}'s numbers in other columns"
    return Clue(Fault.PLANE_PERMUTED, what, fits, float(distance[fits].max()))


def partial(block: Block) -> Clue | None:
    """Rows that are right in some columns and plainly wrong in the rest."""
    scale = np.sqrt(np.mean(block.due**2, axis=1, keepdims=True))
    off = np.abs(block.rows - block.due) / np.maximum(scale, 1e-300)
    near, far, share = 2 * block.context.tolerance, 0.02, 1 / 16
    if block.coarse:
        near, far, share = 0.1, 0.4, 0.45
    right = (off <= near).all(axis=0)
    sometimes = (off <= near).mean(axis=0)
    if (sometimes[~right] > 0.5).any():
        return None  # those columns are not gone: some of their numbers are right
    count, width = int(right.sum()), len(right)
    if not max(4, share * width) <= count < width or np.median(off[:, ~right].max(axis=0)) < far:
        return None
    columns = np.flatnonzero(~right)
    rest = "zero" if not block.rows[:, ~right].any() else "something else"
    what = f"right in {count} of {width} columns, {rest} in columns {columns[0]} to {columns[-1]}"
    return Clue(
        Fault.PLANE_PARTIAL, what, np.ones(len(off), dtype=bool), float(off[:, right].max())
    )


def rescaled(block: Block) -> Clue | None:
    """Rows that are the normalised right state times one number per column.

    One number per column fits anything on one row and much on two: three rows at least, eight
    where the fit is loose. A rescaling of the raw state that fits as well is no norm.
    """
    if len(block.rows) < (8 if block.coarse else 3):
        return None
    normed, raw = (_column_fit(block.rows, state) for state in (_unit(block.due), block.due))
    limit = 0.05 if block.coarse else block.limit
    if normed.max() > limit or raw.max() <= 2 * limit:
        return None
    what = f"layer {block.asked}'s output through a norm with weights of its own"
    return Clue(Fault.NORM_APPLIED, what, np.ones(len(normed), dtype=bool), float(normed.max()))


def _column_fit(rows: FloatArray, state: FloatArray) -> FloatArray:
    """Per row: what is left of it after the best rescaling of the state's columns."""
    power = np.maximum((state**2).sum(axis=0), 1e-300)
    best: FloatArray = _apart(rows, (state * ((rows * state).sum(axis=0) / power))[None])[0]
    return best


def unchanging(block: Block) -> Clue | None:
    """The same vector in every row."""
    if len(block.rows) < 2 or relative(block.rows, block.rows[:1]).max() > SAME:
        return None
    if relative(block.due, block.due[:1]).max() <= SAME:
        return None  # equal tokens may have equal states
    fits = np.ones(len(block.rows), dtype=bool)
    return Clue(Fault.PLANE_ZERO, "the same vector in every row", fits, 0.0)


CLUES: Final[tuple[Callable[[Block], Clue | None], ...]] = (
    constant,
    own_state,
    rounded_off,
    foreign,
    stale,
    moved,
    permuted,
    partial,
    rescaled,
    unchanging,
)
"""In the order in which they are believed: the first that explains every row names the fault.

What one step can explain goes before what takes an earlier one: a prompt may have been run before.
"""
