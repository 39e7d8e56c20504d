"""HOOK-*: the target's class offers a capture hook, and the hook reaches the body."""

from __future__ import annotations

from matrix.contract._bench import Bench
from matrix.contract._clause import Finding, Verdict, clause
from matrix.contract._planes import judge
from matrix.engines import Request
from matrix.faults import Fault

__all__ = ["hook_present", "hook_reach"]


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
