"""The canary's clauses on an engine that accepts what it is told to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from matrix import registry
from matrix.canary import BOOK, CORRECT, DRAFTS, Word, load
from matrix.contract import CLAUSES, Bench, Oracle, Skip, Verdict
from matrix.engines import Counters, Engine, Generation, Request, Step
from matrix.errors import HarnessError
from matrix.faults import Fault, Phase
from matrix.twins import unbuilt

KEY = "canary-qwen3"
LANGUAGE = load(KEY).language
Accepts = Callable[[int, int, int], int]
"""Family, number of the request in its call and of the step -> accepted drafts."""


def always(word: Word) -> Accepts:
    return lambda family, request, step: word[family]


@dataclass
class Accepting:
    """Emits the right tokens, in steps that accept what `accepts` says."""

    accepts: Accepts
    cached: int = 64
    told: str = "steps"
    """What is told of a request: its `steps`, their `counts`, or only the page's `sums`."""
    page: list[int] = field(default_factory=list)

    def generate(self, requests: list[Request]) -> list[Generation]:
        return [self._one(number, request) for number, request in enumerate(requests)]

    def _one(self, number: int, request: Request) -> Generation:
        anchor = request.prompt[-1]
        family = LANGUAGE.family(anchor)
        steps, emitted = [], 1
        while emitted < request.max_tokens:
            accepted = self.accepts(family, number, len(steps))
            drafted = LANGUAGE.continuation(anchor, DRAFTS)
            steps.append(Step(len(request.prompt) + emitted - 1, drafted, accepted))
            emitted += accepted + 1
        self.page += [step.accepted for step in steps]
        tokens = LANGUAGE.continuation(anchor, request.max_tokens)
        if self.told == "steps":
            return Generation(tokens, "length", steps, [], cached_tokens=self.cached)
        counted = counters([s.accepted for s in steps]) if self.told == "counts" else None
        return Generation(tokens, "length", [], [], cached_tokens=self.cached, counted=counted)

    def counters(self) -> Counters:
        whole = counters(self.page)
        return Counters(whole.drafts, whole.drafted, whole.accepted, whole.accepted_at)


def counters(per_step: list[int]) -> Counters:
    at = [sum(k > place for k in per_step) for place in range(DRAFTS)]
    return Counters(len(per_step), DRAFTS * len(per_step), sum(per_step), at, per_step)


def judged(clause: str, engine: Accepting, key: str = KEY, **lacks: str) -> Verdict | Skip:
    (pair,) = registry.load([]).select([key])
    lacks |= {} if engine.told == "steps" else {"steps": "over HTTP"}
    bench = Bench(pair, unbuilt(pair), cast(Engine, engine), cast(Oracle, None), lacks)
    return CLAUSES[clause].check(bench)


def fault(said: Verdict | Skip) -> Fault | None:
    assert isinstance(said, Verdict), said
    return said.findings[0].label if said.findings else None


CANARY = [name for name in CLAUSES if name.startswith("CANARY-")]


@pytest.mark.parametrize("clause", CANARY)
@pytest.mark.parametrize("told", ["steps", "counts", "sums"])
def test_a_healthy_engine_is_correct(clause: str, told: str) -> None:
    said = judged(clause, Accepting(always(CORRECT), told=told))
    assert fault(said) is None
    assert isinstance(said, Verdict)
    assert said.metrics["verdict"] == "correct"
    assert "no code-book fault seen" in said.detail


@pytest.mark.parametrize("clause", CANARY)
@pytest.mark.parametrize("told", ["steps", "counts"])
@pytest.mark.parametrize("name", BOOK)
def test_a_word_gives_its_label(clause: str, told: str, name: str) -> None:
    said = judged(clause, Accepting(always(BOOK[name].word), told=told))
    alone = clause in ("CANARY-PROFILE", "CANARY-CACHE")
    due = Fault.PLANE_STALE if alone and name == "foreign" else BOOK[name].label
    assert fault(said) is due
    assert isinstance(said, Verdict)
    assert "an equality check sees nothing of this" in said.findings[0].evidence
    assert said.metrics["lossless"]


@pytest.mark.parametrize("clause", CANARY)
def test_sums_alone_name_nothing(clause: str) -> None:
    said = judged(clause, Accepting(always(BOOK["ids-low"].word), told="sums"))
    assert fault(said) is Fault.ACCEPTANCE_COLLAPSE
    assert isinstance(said, Verdict)
    assert said.metrics["verdict"] == "not"


@pytest.mark.parametrize("clause", CANARY)
def test_nothing_accepted_names_nothing(clause: str) -> None:
    assert fault(judged(clause, Accepting(always((0, 0))))) is Fault.ACCEPTANCE_COLLAPSE


def test_two_requests_of_a_batch_that_swap_their_planes_are_seen() -> None:
    word = BOOK["foreign"].word
    swapped = Accepting(lambda family, request, step: word[family] if request < 2 else DRAFTS)
    said = judged("CANARY-LOAD", swapped)
    assert fault(said) is Fault.PLANE_FOREIGN
    assert isinstance(said, Verdict)
    assert said.findings[0].phase is Phase.BATCH


def test_a_second_round_without_a_cached_prefix_proves_nothing() -> None:
    with pytest.raises(HarnessError, match="saw no reuse"):
        judged("CANARY-CACHE", Accepting(always(CORRECT), cached=0))
    said = judged("CANARY-CACHE", Accepting(always(CORRECT), cached=0, told="counts"))
    assert isinstance(said, Skip)


@pytest.mark.parametrize("clause", CANARY)
def test_other_rows_are_not_judged(clause: str) -> None:
    said: Any = judged(clause, Accepting(always(CORRECT)), key="qwen3-4b-dflash-b16")
    assert isinstance(said, Skip)
    assert said.code == "not-applicable"
