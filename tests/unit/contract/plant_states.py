"""Faults for the clauses on planes: HOOK-REACH and AUX-*."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from fake_engine import TWIN, Moment, Planes
from planted import (
    PLANES,
    Planted,
    anothers,
    columns_lost,
    deaths,
    in_prefill,
    in_verify,
    on_hit,
    one_high,
    one_low,
    rejected_too,
    rows_moved,
    stale,
    when,
    zeros,
)

from matrix.faults import Fault, Phase

if TYPE_CHECKING:
    from matrix.engines import Generation

Seams = Callable[[], dict[str, Any]]
ENDING_LAST = {"twin": msgspec.structs.replace(TWIN, layer_ids=(1, 3, 7))}
ONE_BY_ONE = {"batch": "one request after the other"}


def _planes(clause: str, phase: Phase, where: Callable[[Moment], bool], **bench: Any) -> Any:
    """Every kind of wrong plane."""
    for name, (label, make) in PLANES.items():

        def seams(make: Any = make) -> dict[str, Any]:
            return {"handed": when(where, make())}

        yield Planted(clause, name, label, seams, phase, bench)


def _scaled(off: float) -> Callable[[Any, Moment], Any]:
    """Logits that are off while planes are captured: with no drafts there is nothing to capture."""
    return lambda rows, m: rows if m.request.drafts == 0 else rows * (1 + off)


def _always_scaled(rows: Any, moment: Moment) -> Any:
    """Logits that are off whether planes are captured or not."""
    return rows * 1.01


def _from_start(generations: list[Generation]) -> list[Generation]:
    """On a cache hit, the first planes are said to be those of position 0."""

    def moved(generation: Generation) -> Generation:
        if not generation.cached_tokens:
            return generation
        first, *rest = generation.forwards
        first = msgspec.structs.replace(first, position=0, received_position=0)
        return msgspec.structs.replace(generation, forwards=[first, *rest])

    return [moved(generation) for generation in generations]


def _first_chunk_dropped(generations: list[Generation]) -> list[Generation]:
    return [msgspec.structs.replace(g, forwards=g.forwards[1:]) for g in generations]


def _later_chunk(m: Moment) -> bool:
    return m.kind == "prefill" and m.position > 0


def _second_chunk(m: Moment) -> bool:
    return m.kind == "prefill" and m.step == 1


def _past_window(m: Moment) -> bool:
    return m.position >= 512


def _first_chunk_again(planes: Planes, m: Moment) -> Planes:
    rows = slice(0, len(planes[0]))
    return [m.states.layers[n, rows] for n in m.ids]


def _none_accepted(drafted: list[int], m: Moment) -> list[int]:
    return [(token + 1) % 64 for token in drafted]


F, P = Fault, Phase

REACH = (
    Planted("HOOK-REACH", "no planes", F.HOOK_HOLLOW, lambda: {"handed": PLANES["none"][1]()}),
    Planted("HOOK-REACH", "zeros", F.HOOK_HOLLOW, lambda: {"handed": zeros}),
)

VALUE = (
    *_planes("AUX-VALUE", P.ALL, in_prefill, lacks=ONE_BY_ONE),
    # Requests of one step are not before one another: what is stale there is another's.
    Planted(
        "AUX-VALUE",
        "stale in a batch",
        F.PLANE_FOREIGN,
        lambda: {"handed": when(in_prefill, stale())},
    ),
    Planted(
        "AUX-VALUE",
        "last layer normed",
        F.NORM_APPLIED,
        lambda: {"final": "normed"},
        bench={**ENDING_LAST, "final_tap": "raw"},
    ),
    Planted(
        "AUX-VALUE",
        "last layer raw",
        F.NORM_MISSING,
        lambda: {"final": "raw"},
        bench={**ENDING_LAST, "final_tap": "normed"},
    ),
    Planted("AUX-VALUE", "another's rows", F.PLANE_FOREIGN, lambda: {"handed": anothers}),
    *deaths("AUX-VALUE"),
)

COUNT = (
    Planted(
        "AUX-COUNT", "one missing", F.PLANE_MISSING, lambda: {"handed": PLANES["one missing"][1]()}
    ),
    Planted("AUX-COUNT", "none", F.HOOK_HOLLOW, lambda: {"handed": PLANES["none"][1]()}),
    Planted("AUX-SHAPE", "narrow", F.PLANE_SHAPE, lambda: {"handed": PLANES["narrow"][1]()}),
    Planted("AUX-SHAPE", "row short", F.PLANE_SHAPE, lambda: {"handed": PLANES["row short"][1]()}),
    Planted("AUX-SHAPE", "narrow at the draft", F.PLANE_SHAPE, lambda: {"received": columns_lost}),
    Planted(
        "AUX-SHAPE",
        "rejected rows kept",
        F.PLANE_SHAPE,
        lambda: {"received": rejected_too, "drafts": _none_accepted},
    ),
)

DECODE = (
    *_planes("AUX-DECODE", P.DECODE, in_verify),
    Planted(
        "AUX-DECODE",
        "rejected rows kept",
        F.PLANE_SHAPE,
        lambda: {"received": rejected_too},
        P.DECODE,
    ),
)

BATCH = (
    Planted("AUX-BATCH", "another's rows", F.PLANE_FOREIGN, lambda: {"handed": anothers}, P.BATCH),
    Planted(
        "AUX-BATCH", "stale", F.PLANE_STALE, lambda: {"handed": when(in_verify, stale())}, P.BATCH
    ),
    Planted("AUX-BATCH", "zeros", F.PLANE_ZERO, lambda: {"handed": zeros}, P.BATCH),
)

INERT = (
    Planted(
        "AUX-INERT",
        "prefill off",
        F.CAPTURE_INTERFERES,
        lambda: {"logits": when(in_prefill, _scaled(1e-2))},
    ),
    Planted("AUX-INERT", "all off", F.CAPTURE_INTERFERES, lambda: {"logits": _scaled(1e-2)}),
    Planted("AUX-INERT", "off without capture too", F.UNKNOWN, lambda: {"logits": _always_scaled}),
    Planted(
        "AUX-INERT",
        "verify off",
        F.UNKNOWN,
        lambda: {"logits": when(in_verify, _scaled(1e-2))},
        P.DECODE,
    ),
    Planted(
        "AUX-INERT", "not a number", F.CAPTURE_INTERFERES, lambda: {"logits": _scaled(float("nan"))}
    ),
)

REUSE = (
    Planted("AUX-REUSE", "planes from position 0", F.PLANE_SHAPE, lambda: {"answer": _from_start}),
    Planted(
        "AUX-REUSE",
        "first rows again",
        F.PLANE_STALE,
        lambda: {"handed": when(on_hit, _first_chunk_again)},
    ),
    Planted("AUX-REUSE", "rows moved", F.ROW_SHIFT, lambda: {"handed": when(on_hit, rows_moved)}),
    Planted(
        "AUX-REUSE",
        "no drafts",
        (F.SPEC_INACTIVE, F.ACCEPTANCE_COLLAPSE),
        lambda: {"drafts": when(on_hit, lambda d, m: [])},
    ),
    Planted(
        "AUX-REUSE",
        "worse drafts",
        F.ACCEPTANCE_COLLAPSE,
        lambda: {"drafts": when(on_hit, _none_accepted)},
    ),
)

CHUNKS = (
    Planted(
        "AUX-CHUNK",
        "first rows again",
        F.PLANE_STALE,
        lambda: {"handed": when(_second_chunk, _first_chunk_again)},
    ),
    Planted(
        "AUX-CHUNK",
        "one row behind",
        F.ROW_SHIFT,
        lambda: {"handed": when(_later_chunk, rows_moved)},
    ),
    Planted(
        "AUX-CHUNK", "first chunk dropped", F.PLANE_SHAPE, lambda: {"answer": _first_chunk_dropped}
    ),
    Planted(
        "AUX-CHUNK",
        "row short",
        F.PLANE_SHAPE,
        lambda: {"handed": when(_second_chunk, PLANES["row short"][1]())},
    ),
    Planted(
        "AUX-LONG",
        "zeros past the window",
        F.PLANE_ZERO,
        lambda: {"handed": when(_past_window, zeros)},
        P.LONG,
    ),
    Planted(
        "AUX-LONG",
        "stale past the window",
        F.PLANE_STALE,
        lambda: {"handed": when(_past_window, stale())},
        P.LONG,
    ),
)


def _second_rank(seam: Any) -> Any:
    return lambda rank, planes, m: seam(planes, m) if rank else planes


def _both_ranks(seam: Any) -> Any:
    return lambda rank, planes, m: seam(planes, m)


OTHER_WAYS = (
    Planted("AUX-PUBLIC", "one low", F.TAP_SHIFT_BEFORE, lambda: {"public": one_low}),
    Planted("AUX-PUBLIC", "zeros", F.PLANE_ZERO, lambda: {"public": zeros}),
    Planted("AUX-PUBLIC", "the private way", F.TAP_SHIFT_AFTER, lambda: {"handed": one_high}),
    Planted("AUX-TP", "second rank low", F.RANK_SPLIT, lambda: {"rank": _second_rank(one_low)}),
    Planted("AUX-TP", "second rank empty", F.RANK_SPLIT, lambda: {"rank": _second_rank(zeros)}),
    Planted("AUX-TP", "both low", F.TAP_SHIFT_BEFORE, lambda: {"rank": _both_ranks(one_low)}),
    Planted(
        "AUX-TP",
        "token twice",
        F.OUTPUT_DIFFERS,
        lambda: {"emitted": when(in_verify, lambda tokens, m: [*tokens, tokens[-1]])},
    ),
)

PLANTED = (*OTHER_WAYS, *REACH, *VALUE, *COUNT, *DECODE, *BATCH, *INERT, *REUSE, *CHUNKS)
