"""HOOK-*: the target's class offers a capture hook, and the hook reaches the body."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from matrix.contract._bench import Bench
from matrix.contract._clause import Finding, Skip, Verdict, clause
from matrix.contract._planes import judge
from matrix.contract._probe import names_the_ids
from matrix.engines import Array, Probed, Request
from matrix.faults import Fault, Severity
from matrix.registry import PAIRS

__all__ = [
    "hook_none",
    "hook_pp",
    "hook_present",
    "hook_ranks",
    "hook_reach",
    "hook_runner_split",
    "hook_shift",
]

LAYOUTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "nested": {"dflash_config": {"target_layer_ids": [1, 3, 5]}},
    "flat": {"target_layer_ids": [1, 3, 5]},
    "speculators": {
        "eagle_aux_hidden_state_layer_ids": [2, 4, 6],
        "dflash_config": {"target_layer_ids": [1, 3, 5]},
    },
    "in-checkpoint": {"dspark_target_layer_ids": [1, 3, 5]},
    "in-checkpoint, deepseek_v41": {
        "model_type": "deepseek_v41",
        "dspark_target_layer_ids": [1, 3, 5],
    },
    "flat and nested": {"target_layer_ids": [1, 3, 5], "dflash_config": {"mask_token_id": 7}},
    "eagle_config": {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 4, 6]}},
    "eagle_config beside dflash_config": {
        "dflash_config": {"target_layer_ids": [1, 3, 5]},
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 4, 6]},
    },
    "dflash_config.layer_ids": {"dflash_config": {"layer_ids": [2, 4, 6]}},
    "no ids": {"dflash_config": {"mask_token_id": 7}},
}
"""Layout -> the keys of a draft's config that say the ids, as an engine holds them once loaded."""

DUE: Final[Mapping[str, list[int]]] = {
    **{name: [2, 4, 6] for name in LAYOUTS if name != "no ids"},
    # Its ids say whose input is wanted, not whose output.
    "in-checkpoint, deepseek_v41": [1, 3, 5],
}
"""Layout -> the boundaries that its ids stand for."""


@clause(
    "HOOK-PRESENT",
    "The target's class offers the capture hook that the engine asks for.",
    needs=("hook",),
    catches=(
        "vllm#45319",
        "sglang#34771",
        "vllm#33329",
        "vllm#25134",
        "sglang#24985",
        "vllm#45546",
    ),
)
def hook_present(bench: Bench) -> Verdict:
    """Missing on the wrapper though the body captures, or absent altogether."""
    hook = bench.engine.hook()
    if hook.offered:
        return Verdict(expected="offered", actual="offered", detail=hook.detail)
    label = Fault.HOOK_MISSING if hook.body_captures else Fault.HOOK_ABSENT
    return Verdict(
        (Finding(label, hook.detail),), expected="offered", actual="not offered", detail=hook.detail
    )


@clause(
    "HOOK-REACH",
    "What the hook sets reaches the body: real planes are captured.",
    needs=("hook", "planes"),
    catches=("vllm#36527", "sglang#38589", "sglang#31372"),
)
def hook_reach(bench: Bench) -> Verdict:
    """A hook that is set without an error may be hollow."""
    run = bench.run(Request(bench.prompts(7)[0], 2), partial=True)[0]
    handed = [array for forward in run.generation.forwards for array in forward.handed]
    if not handed:
        said = f"; the engine raised {run.error}" if run.error else ""
        found = Finding(Fault.HOOK_HOLLOW, f"the hook was set, and no plane came{said}")
        return Verdict((found,), expected="planes", actual="none")
    judged = judge(bench, [run], bench.ids, places=("handed",))
    hollow = [
        Finding(Fault.HOOK_HOLLOW, f"the hook was set, and no real plane came: {f.evidence}")
        for f in judged.findings
        if f.label in {Fault.PLANE_ZERO, Fault.HOOK_HOLLOW} and not any(map(_real, handed))
    ]
    return Verdict(tuple(hollow[:1]), expected="planes", actual=f"{judged.rows} rows compared")


def _real(plane: Array) -> bool:
    """Whether any row holds more than one number."""
    return bool(np.ptp(plane.numpy(), axis=1).any())


@clause(
    "HOOK-SHIFT",
    "Layer ids reach the body as the numbers for which it captures those layers' outputs.",
    needs=("hook", "probe"),
    catches=("sglang#38096", "sglang#34771", "vllm#40727"),
)
def hook_shift(bench: Bench) -> Verdict | Skip:
    """Over resolver, hook and body together; the last layer has clauses of its own.

    Order and duplicates mean nothing to a body, so what becomes of them is shown and not judged.
    """
    ids = _inner(bench)
    asked = {"ids": ids, "reversed": ids[::-1], "duplicated": [ids[0], *ids]}
    seen = {name: _probe(bench, given) for name, given in asked.items()}
    done = seen["ids"]
    if isinstance(done, Skip):
        return done
    actual = {name: _became(probed) for name, probed in seen.items()}
    if done.refused is not None:
        said = f"{ids}: the hook refuses legal ids: {_said(done)}"
        further = re.search(r"no attribute 'set_\w+_to_capture'", _said(done))
        label = Fault.HOOK_NOT_DELEGATED if further else Fault.START_REFUSED
        return Verdict((Finding(label, said),), expected=ids, actual=actual)
    if done.reached is None:
        found = Finding(Fault.HOOK_HOLLOW, f"{ids}: the hook says nothing, and sets nothing")
        return Verdict((found,), expected=ids, actual=actual)
    if done.enters is None:
        text = f"undecided: where {done.body} captures can't be told; it holds {done.reached}"
        return Skip("not-applicable", text)
    layers = [number - done.enters for number in done.reached]
    where = "enters" if done.enters else "leaves"
    text = f"{ids}: {done.body} holds {done.reached}, and captures what {where} those layers"
    return Verdict(
        _moved(ids, layers, text),
        expected=[i + done.enters for i in ids],
        actual=actual,
        detail=text,
    )


def _moved(ids: list[int], layers: list[int], text: str) -> tuple[Finding, ...]:
    """What is wrong with the layers that are captured for these ids."""
    if sorted(layers) == sorted(ids):
        return ()
    labels = {-1: Fault.TAP_SHIFT_BEFORE, 1: Fault.TAP_SHIFT_AFTER}
    moves = {got - due for got, due in zip(sorted(layers), sorted(ids), strict=False)}
    same = len(layers) == len(ids) and len(moves) == 1
    return (Finding(labels.get(moves.pop(), Fault.UNKNOWN) if same else Fault.UNKNOWN, text),)


@clause(
    "HOOK-NONE",
    "The hook refuses to be called without ids, and says what is missing.",
    needs=("hook", "probe"),
    catches=("sglang#37475", "z-lab/dflash#156"),
)
def hook_none(bench: Bench) -> Verdict | Skip:
    """A hook that takes `None` guesses layers, or fails at the first request."""
    done = _probe(bench, None)
    if isinstance(done, Skip):
        return done
    found: tuple[Finding, ...] = ()
    if done.refused is None and done.reached is not None:
        found = (Finding(Fault.TAP_GUESS, f"None: the hook set {done.reached}"),)
    elif done.refused is None:
        found = (Finding(Fault.TAP_LATE, "None: the hook says nothing, and sets nothing"),)
    elif not names_the_ids(_said(done), None):
        text = f"None: the refusal doesn't say what is missing: {_said(done)}"
        found = (Finding(Fault.TAP_UNCLEAR, text),)
    return Verdict(found, expected="a refusal that names the ids", actual=_became(done))


@clause(
    "HOOK-PP",
    "On a pipeline rank that isn't the last, the hook sets its layers, or refuses.",
    needs=("hook", "probe"),
    catches=("sglang#39644",),
)
def hook_pp(bench: Bench) -> Verdict | Skip:
    """A rank that returns without a word hands nothing over, and nobody notices."""
    ids = _inner(bench)
    done = _probe(bench, ids, last_rank=False)
    if isinstance(done, Skip):
        return done
    silent = done.refused is None and done.reached is None
    text = f"{ids}: the first of two pipeline ranks sets nothing, and says nothing"
    return Verdict(
        (Finding(Fault.PP_SILENT, text),) * silent,
        expected="layers set, or a refusal",
        actual=_became(done),
    )


def _inner(bench: Bench) -> list[int]:
    """The row's ids but for the last layer's; the first layer, where it has no other."""
    return [i for i in bench.ids if i < bench.twin.depth - 1] or [0]


def _probe(bench: Bench, ids: Any, *, last_rank: bool = True) -> Probed | Skip:
    """Try the hook; a hook that isn't there, or needs a loaded model, can't be judged."""
    hook = bench.engine.hook()
    if not hook.offered:
        return Skip("not-applicable", f"no hook to try: {hook.detail}")
    done = bench.engine.probe(ids, bench.twin.depth, last_rank)
    return Skip("not-applicable", f"undecided: {done.undecided}") if done.undecided else done


def _said(done: Probed) -> str:
    assert done.refused is not None, "only for what was refused"
    return f"{done.refused.type_name}: {done.refused.text}"


def _became(done: Probed | Skip) -> Any:
    if isinstance(done, Skip):
        return done.reason
    return done.reached if done.refused is None else f"refused: {_said(done)}"


@clause(
    "HOOK-RUNNER-SPLIT",
    "Every runner of the engine resolves the ids of a draft's config to the same boundaries.",
    needs=("runners",),
    catches=("vllm#40727",),
)
def hook_runner_split(bench: Bench) -> Verdict:
    """Each layout through each runner's own resolver, the row's own layout as it was loaded too.

    A runner that is one off all along has that name; any other split has its own. A layout that no
    public pair has is a missing guard; one that some pair has is wrong.
    """
    public = {pair.layout for pair in PAIRS if pair.kind == "real"}
    only = (bench.examples.only or {}).get("layout")
    said = {
        name: bench.engine.resolvers(dict(keys))
        for name, keys in LAYOUTS.items()
        if only in (None, name)
    }
    split = {name: ways for name, ways in said.items() if len({str(w) for w in ways.values()}) > 1}
    found = [
        Finding(
            _shift(name, ways.values()) or Fault.RUNNER_SPLIT,
            f"layout {name}: " + ", ".join(f"{way} {ids}" for way, ids in ways.items()),
            example={"layout": name},
            severity=None if name in public else Severity.GUARD,
        )
        for name, ways in split.items()
    ]
    found.sort(key=lambda finding: finding.severity is Severity.GUARD)
    return Verdict(
        tuple(found),
        expected=f"the same boundaries for each of {len(said)} layouts",
        actual=f"{len(split)} layouts differ: {', '.join(split) or 'none'}",
        metrics={"layouts": said},
    )


def _shift(layout: str, ways: Iterable[Any]) -> Fault | None:
    """The fault of a runner whose boundaries are all one low, or all one high."""
    due = DUE.get(layout, [])
    steps = {-1: Fault.TAP_SHIFT_BEFORE, 1: Fault.TAP_SHIFT_AFTER}
    for way in ways:
        for step, label in steps.items():
            if due and way == [boundary + step for boundary in due]:
                return label
    return None


@clause(
    "HOOK-RANKS",
    "Every rank of a tensor-parallel start holds the same boundaries, those of one rank.",
    needs=("ranks",),
    settings=("main", "tp2"),
    catches=("sglang#39644",),
)
def hook_ranks(bench: Bench) -> Verdict:
    """Read on every rank after the start."""
    ranks = bench.started["tp2"].boundaries
    alone = bench.started["main"].boundaries if "main" in bench.started else []
    due = (alone or ranks)[0]
    found = [
        Finding(Fault.RANK_SPLIT, f"rank {rank} holds {held}, {due} due")
        for rank, held in enumerate(ranks)
        if held != due
    ]
    return Verdict(tuple(found[:1]), expected=[due] * 2, actual=ranks)
