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
from matrix.contract._counts import Measured, measure, total
from matrix.engines import Request
from matrix.errors import HarnessError
from matrix.faults import Fault, Phase

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
    """Cold: each prompt has a salt of its own. Alone, planes of another sequence are stale ones.

    A request that isn't judged goes first: stale planes are then of the language too.
    """
    if skip := _untrained(bench):
        return skip
    bench.run(_requests(bench, (20,), _TOKENS, "first")[0])
    requests = _requests(bench, (7, 33, 90, 180), _TOKENS, "profile")
    return _judge(bench, [measure(bench, request) for request in requests], alone=True)


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
    return _judge(bench, _at_once(bench, _requests(bench, (5, 21, 70, 130), _TOKENS, "load")))


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
    requests = _requests(bench, (150, 300), _TOKENS, "cache")
    for _ in ("cold", "cached"):
        measured = [measure(bench, request) for request in requests]
    cached = [
        run.generation.cached_tokens
        for one in measured
        if isinstance(one, Measured)
        for run in one.runs
    ]
    if not all(cached):
        seen = f"cached tokens of the second round: {cached}: the clause saw no reuse"
        if bench.has("steps"):
            raise HarnessError(seen)
        return Skip("not-applicable", f"{seen}; the server may not say")
    return _judge(bench, measured, alone=True, cached_tokens=cached)


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
    measured: list[Measured | Skip] = []
    for part in range(5):
        requests = _requests(bench, (11, 60), 100, f"drift {part}")
        if bench.has("batch"):
            measured += _at_once(bench, requests)
        else:
            measured += [measure(bench, request) for request in requests]
    return _judge(bench, measured, alone=not bench.has("batch"))


def _untrained(bench: Bench) -> Skip | None:
    if bench.pair.kind == "canary":
        return None
    return Skip("not-applicable", "only canaries are trained: `list --kind canary`")


def _requests(bench: Bench, lengths: Sequence[int], tokens: int, salt: str) -> list[Request]:
    """Prompts of each length in both families, the families in turn, no prefix shared."""
    rng = random.Random(f"{bench.seed} {bench.pair.key} {salt}")  # noqa: S311 - test data
    language = canary.load(bench.pair.key).language
    both = [language.prompts(family, lengths, rng) for family in (0, 1)]
    prompts = [prompt for pair in zip(*both, strict=True) for prompt in pair]
    return [
        Request(prompt, tokens, salt=f"canary {salt} {bench.seed} {index}", planes=False)
        for index, prompt in enumerate(prompts)
    ]


def _at_once(bench: Bench, requests: Sequence[Request]) -> list[Measured | Skip]:
    """All of them together; where sums alone are counted, each family by itself."""
    both = measure(bench, *requests)
    if isinstance(both, Skip) or len(both.counts) == len(both.runs):
        return [both]
    return [measure(bench, *requests[family::2]) for family in (0, 1)]


def _judge(
    bench: Bench, measured: Sequence[Measured | Skip], *, alone: bool = False, **metrics: object
) -> Verdict | Skip:
    """The verdict on all runs; `alone`: no two requests were in the engine at once."""
    if skip := next((one for one in measured if isinstance(one, Skip)), None):
        return skip
    groups = [one for one in measured if isinstance(one, Measured)]
    runs = [run for group in groups for run in group.runs]
    language = canary.load(bench.pair.key).language
    reading = _read(groups, language)
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
    if not any(group.drafted for group in groups):
        found = (Finding(Fault.SPEC_INACTIVE, "no step had drafts"),)
    elif reading.verdict != "correct":
        phase = Phase.ALL if alone and reading.phase is Phase.BATCH else reading.phase
        found = (Finding(_label(reading, alone), f"{reading.why}; {output}", phase),)
    return Verdict(
        found,
        detail="" if found else f"{_SEEN}: {reading.why}",
        expected={"A": canary.CORRECT[0], "B": canary.CORRECT[1]},
        actual=reading.metrics()["counts"],
        metrics={**reading.metrics(), "lossless": right, **metrics},
    )


def _read(groups: Sequence[Measured], language: canary.Language) -> canary.Reading:
    """By steps where every request has its own, else by the sums of each family."""
    observed = [
        _observed(run, count.per_step, language)
        for group in groups
        if len(group.counts) == len(group.runs)
        for run, count in zip(group.runs, group.counts, strict=True)
        if count.per_step is not None
    ]
    if len(observed) == sum(len(group.runs) for group in groups):
        return canary.read(observed)
    families: tuple[list[Measured], list[Measured]] = [], []
    for group in groups:
        families[language.family(group.runs[0].request.prompt[-1])].append(group)
    return canary.read_totals([_totals(family, ones) for family, ones in enumerate(families)])


def _observed(run: Run, per_step: list[int], language: canary.Language) -> canary.Observed:
    """Its steps that drafted a whole block, where steps can be seen: the last one may be cut."""
    steps = [step for step in run.generation.steps if step.drafted]
    whole = [len(step.drafted) == canary.DRAFTS for step in steps] or [True] * len(per_step)
    accepted = tuple(k for k, is_whole in zip(per_step, whole, strict=True) if is_whole)
    return canary.Observed(language.family(run.request.prompt[-1]), accepted)


def _totals(family: int, groups: Sequence[Measured]) -> canary.Totals:
    counted = total([count for group in groups for count in group.counts])
    at = (*counted.accepted_at, *[0] * canary.DRAFTS)[: canary.DRAFTS]
    return canary.Totals(family, counted.drafts, at)


def _label(reading: canary.Reading, alone: bool) -> Fault:
    """The fault's label; planes of another sequence are stale where no other was in the engine."""
    if reading.entry is None:
        return Fault.ACCEPTANCE_COLLAPSE
    if alone and reading.entry.label is Fault.PLANE_FOREIGN:
        return Fault.PLANE_STALE
    return reading.entry.label
