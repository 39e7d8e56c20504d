"""HOOK-*: the target's class offers a capture hook, and the hook reaches the body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from matrix.contract._bench import Bench
from matrix.contract._clause import Finding, Verdict, clause
from matrix.contract._planes import judge
from matrix.engines import Request
from matrix.faults import Fault, Severity
from matrix.registry import load

__all__ = ["hook_present", "hook_ranks", "hook_reach", "hook_runner_split"]

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
        if f.label in {Fault.PLANE_ZERO, Fault.HOOK_HOLLOW}
    ]
    return Verdict(tuple(hollow[:1]), expected="planes", actual=f"{judged.rows} rows compared")


@clause(
    "HOOK-RUNNER-SPLIT",
    "Every runner of the engine resolves the ids of a draft's config to the same boundaries.",
    needs=("runners",),
    catches=("vllm#40727",),
)
def hook_runner_split(bench: Bench) -> Verdict:
    """Each layout through each runner's own resolver, the row's own layout as it was loaded too.

    A layout that no public pair has is a missing guard; one that some pair has is wrong.
    """
    public = {pair.layout for pair in load(()).select((), "real")}
    only = (bench.examples.only or {}).get("layout")
    said = {
        name: bench.engine.resolvers(dict(keys))
        for name, keys in LAYOUTS.items()
        if only in (None, name)
    }
    split = {name: ways for name, ways in said.items() if len({str(w) for w in ways.values()}) > 1}
    found = [
        Finding(
            Fault.RUNNER_SPLIT,
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
