"""CANARY-*: a trained pair's accepted drafts say which capture fault the engine has.

Only rows of kind `canary` are trained. A verdict needs nothing but acceptance: it also holds for a
server that is reached over HTTP. What it can't see: anything that the draft's own norm removes
(uniform scale), small noise, and most faults of the draft itself.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from matrix import canary
from matrix.contract._bench import Bench, Run
from matrix.contract._clause import Finding, Skip, Verdict, clause
from matrix.engines import Request
from matrix.errors import HarnessError
from matrix.faults import Fault

__all__ = ["canary_cache", "canary_drift", "canary_load", "canary_profile"]

_SEEN = "no code-book fault seen"
_CATCHES = ("vllm#40727", "sglang#38096")
_TOKENS = 4 * canary.BLOCK + 1
"""Tokens asked of a request: four whole steps when all is right."""


@clause(
    "CANARY-PROFILE",
    "Requests one after the other: a trained draft's every draft is accepted.",
    needs=("start", "draft"),
    catches=_CATCHES,
)
def canary_profile(bench: Bench) -> Verdict | Skip:
    """Cold: each prompt has a salt of its own. Alone, planes of another sequence are stale ones."""
    if skip := _untrained(bench):
        return skip
    families = _prompts(bench, (7, 33, 90, 180), "profile")
    runs = [
        bench.run(Request(prompt, _TOKENS, salt=f"canary {bench.seed} {index}", planes=False))[0]
        for index, prompt in enumerate(families)
    ]
    return _judge(bench, runs, alone=True)


@clause(
    "CANARY-LOAD",
    "Eight requests at once: a trained draft's every draft is accepted.",
    needs=("start", "draft", "batch"),
    catches=(*_CATCHES, "vllm#42971"),
)
def canary_load(bench: Bench) -> Verdict | Skip:
    """Prompts differ in length, and no two end alike."""
    if skip := _untrained(bench):
        return skip
    families = _prompts(bench, (5, 21, 70, 130), "load")
    requests = [
        Request(prompt, _TOKENS, salt=f"load {bench.seed} {index}", planes=False)
        for index, prompt in enumerate(families)
    ]
    return _judge(bench, bench.run(*requests))


@clause(
    "CANARY-CACHE",
    "The second round of the same prompts, their prefix cached, is accepted as the first.",
    needs=("start", "draft", "prefix-cache"),
    catches=("vllm#47930", "vllm#42971", "llama-cpp-turboquant#231"),
)
def canary_cache(bench: Bench) -> Verdict | Skip:
    """A round in which nothing was cached proves nothing."""
    if skip := _untrained(bench):
        return skip
    salt = f"cache {bench.seed}"
    families = _prompts(bench, (97, 150), "cache")
    for _ in ("cold", "cached"):
        runs = [
            bench.run(Request(prompt, _TOKENS, salt=salt, planes=False))[0] for prompt in families
        ]
    cached = [run.generation.cached_tokens for run in runs]
    if not all(cached):
        raise HarnessError(f"cached tokens of the second round: {cached}: the clause saw no reuse")
    return _judge(bench, runs, alone=True, cached_tokens=cached)


@clause(
    "CANARY-DRIFT",
    "Over 2,000 tokens of many requests, a trained draft's every draft is accepted.",
    needs=("start", "draft"),
    catches=("vllm#42971",),
)
def canary_drift(bench: Bench) -> Verdict | Skip:
    """What builds up from request to request shows here: buffers, slots, caches."""
    if skip := _untrained(bench):
        return skip
    runs: list[Run] = []
    for part in range(5):
        families = _prompts(bench, (11, 60), f"drift {part}")
        requests = [
            Request(prompt, 100, salt=f"drift {bench.seed} {part} {index}", planes=False)
            for index, prompt in enumerate(families)
        ]
        together = requests if bench.has("batch") else None
        runs += bench.run(*requests) if together else [bench.run(one)[0] for one in requests]
    return _judge(bench, runs, alone=not bench.has("batch"))


def _untrained(bench: Bench) -> Skip | None:
    if bench.pair.kind == "canary":
        return None
    return Skip("not-applicable", "only canaries are trained: `list --kind canary`")


def _prompts(bench: Bench, lengths: Sequence[int], salt: str) -> list[list[int]]:
    """Prompts of each length in both families, the families in turn."""
    rng = random.Random(f"{bench.seed} {bench.pair.key} {salt}")  # noqa: S311 - test data
    language = canary.load(bench.pair.key).language
    both = [language.prompts(family, lengths, rng) for family in (0, 1)]
    return [prompt for pair in zip(*both, strict=True) for prompt in pair]


def _judge(bench: Bench, runs: Sequence[Run], *, alone: bool = False, **metrics: object) -> Verdict:
    """The verdict on all runs; `alone`: no two requests were in the engine at once."""
    language = canary.load(bench.pair.key).language
    reading = canary.read([_observed(run, language) for run in runs])
    right = all(
        run.generation.tokens
        == language.continuation(run.request.prompt[-1], len(run.generation.tokens))
        for run in runs
    )
    output = (
        "the output is right all the same: an equality check sees nothing of this"
        if right
        else "the output is wrong too"
    )
    found: tuple[Finding, ...] = ()
    if not any(step.drafted for run in runs for step in run.generation.steps):
        found = (Finding(Fault.SPEC_INACTIVE, "no step had drafts"),)
    elif reading.verdict != "correct":
        label = _label(reading, alone)
        found = (Finding(label, f"{reading.why}; {output}", reading.phase),)
    return Verdict(
        found,
        detail="" if found else f"{_SEEN}: {reading.why}",
        expected={"A": canary.CORRECT[0], "B": canary.CORRECT[1]},
        actual=reading.metrics()["counts"],
        metrics={**reading.metrics(), "lossless": right, **metrics},
    )


def _observed(run: Run, language: canary.Language) -> canary.Observed:
    """Its steps that drafted a whole block: the last one may be cut."""
    accepted = tuple(
        step.accepted for step in run.generation.steps if len(step.drafted) == canary.DRAFTS
    )
    return canary.Observed(language.family(run.request.prompt[-1]), accepted)


def _label(reading: canary.Reading, alone: bool) -> Fault:
    """The fault's label; planes of another sequence are stale where no other was in the engine."""
    if reading.entry is None:
        return Fault.ACCEPTANCE_COLLAPSE
    if alone and reading.entry.label is Fault.PLANE_FOREIGN:
        return Fault.PLANE_STALE
    return reading.entry.label
