"""What is counted where no step can be seen, as over HTTP: by each answer, or by one page for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fake_engine import FakeEngine, bench
from msgspec.structs import replace
from planted import ruling

from matrix.contract import Skip, Verdict
from matrix.engines import Counters, Generation
from matrix.faults import Fault

UNSEEN = {"steps": "over HTTP", "inject": "over HTTP"}
CLAUSES = ("START-DECODE", "START-SPEC", "OUTPUT-COUNTERS")


def hidden(generations: list[Generation]) -> list[Generation]:
    return [replace(each, steps=[], forwards=[]) for each in generations]


def mute(generations: list[Generation]) -> list[Generation]:
    """Only the page counts."""
    return [replace(each, steps=[], forwards=[], counted=None) for each in generations]


def sums(counters: Counters) -> Counters:
    """As a page has them."""
    return replace(counters, per_step=None)


def judged(clause: str, lacks: dict[str, str] | None = None, **seams: Any) -> Verdict | Skip:
    seams = {"answer": hidden, "published": sums, **seams}
    return ruling(clause, bench(FakeEngine(**seams), lacks=UNSEEN | (lacks or {})))


def labels(ruled: Verdict | Skip) -> set[Fault]:
    assert isinstance(ruled, Verdict)
    return {finding.label for finding in ruled.findings}


def unordered(counters: Counters) -> Counters:
    """As a histogram has the steps."""
    return replace(counters, per_step=sorted(counters.per_step or []))


@pytest.mark.parametrize("clause", CLAUSES)
@pytest.mark.parametrize(
    "seams", [{}, {"told": unordered}, {"answer": mute}], ids=["steps", "histogram", "page"]
)
def test_healthy_counts_of_every_kind_pass(clause: str, seams: dict[str, Any]) -> None:
    assert labels(judged(clause, **seams)) == set()


@pytest.mark.parametrize("clause", CLAUSES)
def test_without_any_counts_nothing_is_said(clause: str) -> None:
    ruled = judged(clause, {"counters": "GET /metrics: 404"}, answer=mute)
    assert isinstance(ruled, Skip)
    assert ruled.code == "not-applicable"
    assert "the answers don't say what was drafted, and GET /metrics: 404" in ruled.reason


@pytest.mark.parametrize("clause", CLAUSES)
@pytest.mark.parametrize("answer", [hidden, mute], ids=["answers", "page"])
def test_a_server_that_drafts_nothing_is_found(
    clause: str, answer: Callable[[list[Generation]], list[Generation]]
) -> None:
    ruled = judged(clause, answer=answer, drafts=lambda drafted, moment: [])
    assert labels(ruled) == {Fault.SPEC_INACTIVE}


def more(**grown: int) -> Callable[[Counters], Counters]:
    """Counts that are too high by so much, on each look at them."""
    looks = [0]

    def published(counters: Counters) -> Counters:
        looks[0] += 1
        now = {name: getattr(counters, name) or 0 for name in grown}
        return replace(counters, **{name: now[name] + looks[0] * by for name, by in grown.items()})

    return published


@pytest.mark.parametrize(
    "seams",
    [
        {"told": lambda c: replace(c, accepted=c.drafted + 1)},
        {"told": lambda c: replace(c, accepted_at=[0, 1])},
        {"told": lambda c: replace(c, accepted=0, per_step=[0] * c.drafts)},
        {"told": lambda c: replace(c, drafts=c.drafts + 9)},
        {"answer": mute, "published": more(drafts=60)},
        {"answer": mute, "published": more(drafts=-9)},
        {"published": more(accepted=1)},
    ],
    ids=["accepted", "rising", "fewer", "steps", "page, more", "page, fewer", "page and answers"],
)
def test_counts_that_contradict_themselves_are_found(seams: dict[str, Any]) -> None:
    assert labels(judged("OUTPUT-COUNTERS", **seams)) == {Fault.COUNTERS_WRONG}


def test_the_traffic_of_others_leaves_the_page_unused() -> None:
    page = more(requests=50, tokens=900, drafts=7)
    alone = judged("OUTPUT-COUNTERS", answer=mute, published=page)
    assert isinstance(alone, Skip)
    assert "others are served too" in alone.reason
    beside = judged("OUTPUT-COUNTERS", published=more(requests=50, tokens=900, drafts=7))
    assert labels(beside) == set(), "the answers' own counts are judged all the same"
    assert isinstance(beside, Verdict)
    assert "others are served too" in str(beside.actual)


def test_a_token_past_the_vocabulary_is_not_the_targets_own() -> None:
    def past(generations: list[Generation]) -> list[Generation]:
        return [replace(each, tokens=[*each.tokens[:-1], 99]) for each in hidden(generations)]

    ruled = judged("OUTPUT-LOSSLESS", answer=past)
    assert labels(ruled) == {Fault.OUTPUT_DIFFERS}
    assert isinstance(ruled, Verdict)
    assert "token 99 lies past the vocabulary of 64" in ruled.findings[0].evidence


def test_stops_are_judged_with_a_servers_own_drafts() -> None:
    assert labels(judged("OUTPUT-STOP")) == set()
    overrun = judged("OUTPUT-STOP", cut=lambda tokens, request: tokens[: request.max_tokens + 1])
    assert labels(overrun) == {Fault.OUTPUT_DIFFERS}
