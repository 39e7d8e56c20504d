"""START-*: the pair starts, decodes, really speculates, and leaves the target as it was."""

from __future__ import annotations

import re
from typing import Any

from matrix.contract._bench import Bench, dying
from matrix.contract._clause import Finding, Skip, Verdict, clause
from matrix.contract._counts import measure
from matrix.contract._logits import logits_off
from matrix.contract._lossless import differing, gaps, plain_gap
from matrix.engines import Request
from matrix.errors import EngineError
from matrix.faults import GIVES, Fault

__all__ = ["start_decode", "start_load", "start_plain", "start_pp", "start_pure", "start_spec"]


@clause(
    "START-PLAIN",
    "The target alone, with speculation off, starts and generates as the reference does.",
    needs=("start", "settings"),
    settings=("plain",),
    catches=("sparkring#161", "vllm#49133"),
)
def start_plain(bench: Bench) -> Verdict:
    """Teacher-forced: every plain token is the reference's choice, or within its rounding."""
    if refusal := bench.refused.get("plain"):
        return _refused("START-PLAIN", refusal)
    try:
        logits = bench.has("logits")
        runs = bench.run(*(Request(p, 24, logits=logits) for p in bench.prompts(5, 17)))
    except EngineError as error:
        return Verdict((dying(error, GIVES["START-PLAIN"], otherwise=Fault.START_REFUSED),))
    worst = max((gap for run in runs for gap in gaps(bench, run)), default=0.0)
    emitted = [len(run.generation.tokens) for run in runs]
    tolerance = plain_gap(bench, worst)
    if logits:
        bench.memo["plain_logits"] = max(off.worst for off in logits_off(bench, runs))
    found = [
        Finding(Fault.OUTPUT_DIFFERS, f"a token lies {worst:.3g} below the reference's best logit")
    ] * (worst > tolerance)
    if emitted != [24, 24]:
        found = [Finding(Fault.OUTPUT_DIFFERS, f"{emitted} tokens emitted, 24 asked for")]
    return Verdict(
        tuple(found),
        expected="the reference's greedy tokens",
        actual=f"largest gap {worst:.3g} over {sum(emitted)} tokens",
        tolerance=tolerance,
        metrics={"gap": worst, **bench.start_metrics.get("plain", {})},
    )


@clause(
    "START-LOAD",
    "The engine starts the pair with speculation on.",
    needs=("start", "draft"),
    catches=(
        "vllm#45319",
        "sglang#34771",
        "vllm#33329",
        "vllm#25134",
        "sglang#35784",
        "vllm#24967",
    ),
)
def start_load(bench: Bench) -> Verdict:
    """A refused start is a finding, with the engine's own words."""
    if refusal := bench.refused.get("main"):
        return _refused("START-LOAD", refusal)
    return Verdict(
        expected="started",
        actual="started",
        metrics=dict(bench.start_metrics.get("main", {})),
    )


@clause(
    "START-DECODE",
    "After the start, at least two draft steps run without an error.",
    needs=("start", "draft"),
    catches=("vllm#48113", "ROCmFPX#44", "sglang#39685", "sglang#38589"),
)
def start_decode(bench: Bench) -> Verdict | Skip:
    """Some engines start, answer health checks, and die at the first draft."""
    measured = measure(bench, Request(bench.prompts(9)[0], 2 * bench.twin.block_size + 2))
    if isinstance(measured, Skip):
        return measured
    drafting = measured.counts[0].drafts
    found = (
        ()
        if drafting >= 2
        else (Finding(Fault.SPEC_INACTIVE, f"{drafting} steps with drafts, at least 2 are due"),)
    )
    return Verdict(found, expected="2 or more draft steps", actual=f"{drafting} draft steps")


@clause(
    "START-SPEC",
    "Speculation is really on: drafts are proposed and verified.",
    needs=("start", "draft"),
    catches=("vllm#52447", "ds4#468", "omlx#1257", "vllm#50851", "SwiftLM#88"),
)
def start_spec(bench: Bench) -> Verdict | Skip:
    """A silent fallback to plain decoding keeps the output right and wins nothing."""
    measured = measure(bench, *(Request(prompt, 16) for prompt in bench.prompts(5, 12)))
    if isinstance(measured, Skip):
        return measured
    drafted = [count.drafted for count in measured.counts]
    accepted = [count.accepted for count in measured.counts]
    found = (
        ()
        if all(drafted)
        else (Finding(Fault.SPEC_INACTIVE, f"tokens drafted per request: {drafted}"),)
    )
    return Verdict(
        found,
        expected="tokens drafted for every request",
        actual={"drafted": drafted, "accepted": accepted},
        metrics={"drafted": measured.drafted, "accepted": measured.accepted},
    )


@clause(
    "START-PURE",
    "Loading the draft changes nothing in the target: config, dtypes and weights.",
    needs=("start", "settings", "draft"),
    settings=("plain", "main"),
    catches=("vllm#49133", "vllm#50330", "sglang#34959"),
)
def start_pure(bench: Bench) -> Verdict | Skip:
    """The target as a plain start loads it, against the same target with its draft."""
    for settings in ("plain", "main"):
        if settings not in bench.started:
            why = bench.refused.get(settings, "its worker ended")
            return Skip("start-failed", f"no {settings} start to compare with: {why}")
    plain, main = (_flat(bench.started[name].target) for name in ("plain", "main"))
    changed = sorted(key for key in plain.keys() | main.keys() if plain.get(key) != main.get(key))
    found = tuple(
        Finding(
            Fault.TARGET_CHANGED,
            f"{key}: {plain.get(key)!r} in the plain start, {main.get(key)!r} with the draft",
        )
        for key in changed[:1]
    )
    return Verdict(found, expected="no difference", actual=f"changed: {changed or 'nothing'}")


@clause(
    "START-PP",
    "With two pipeline ranks the pair starts and is complete, or is refused by that name.",
    needs=("start", "settings"),
    settings=("pp2",),
    catches=("vllm#45985", "vllm#50514", "vllm#53052", "sglang#39644"),
)
def start_pp(bench: Bench) -> Verdict:
    """A refusal has to say that it is about pipeline parallelism, or nobody can act on it."""
    if refusal := bench.refused.get("pp2"):
        if re.search(r"pipeline[ _-]?parallel|\bPP\b", str(refusal)):
            return Verdict(expected="started, or refused by name", actual=str(refusal))
        return _refused("START-PP", refusal)
    runs = bench.run(*(Request(prompt, 12) for prompt in bench.prompts(5, 40)))
    found, worst = differing(bench, runs, "output over two pipeline ranks")
    if not any(step.drafted for run in runs for step in run.generation.steps):
        found = [Finding(Fault.SPEC_INACTIVE, "nothing was drafted over two pipeline ranks")]
    return Verdict(
        tuple(found[:1]),
        expected="started, or refused by name",
        actual=f"started; largest gap {worst:.3g}",
    )


def _flat(value: Any, at: str = "") -> dict[str, Any]:
    """Leaves of nested data by dotted key."""
    if not isinstance(value, dict):
        return {at: value}
    return {
        key: leaf
        for name, inner in value.items()
        for key, leaf in _flat(inner, f"{at}.{name}" if at else str(name)).items()
    }


def _refused(clause_id: str, refusal: EngineError) -> Verdict:
    finding = dying(refusal, GIVES[clause_id], otherwise=Fault.START_REFUSED)
    return Verdict((finding,), detail=str(refusal), expected="started", actual="refused")
