"""Search for inputs that break a clause: pinned and saved ones first, then Hypothesis.

A check returns findings instead of raising. The search raises only for a label that is new, so
that Hypothesis shrinks it as one failure; labels that rows expect, or that were shrunk already, are
passed over, and the search goes on for others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.strategies import SearchStrategy

from matrix import strategies
from matrix.contract._bench import Bench
from matrix.contract._clause import Finding
from matrix.contract._planes import merge
from matrix.faults import Fault
from matrix.results import canonical

__all__ = ["Check", "Search", "fuzz"]

Check = Callable[[Any], Iterable[Finding]]

ROUNDS: Final = 3
"""New labels that one clause looks for, one shrunk failure each."""


class _New(Exception):  # noqa: N818 - a signal to Hypothesis, not an error
    """A finding with a label that was not found before."""


@dataclass
class Search:
    """What a search found, and what it tried."""

    findings: dict[Fault, Finding] = field(default_factory=dict)
    tried: dict[str, tuple[Finding, ...]] = field(default_factory=dict)
    """Canonical JSON of every input tried -> what was found on it."""
    began: float = field(default_factory=time.monotonic)

    @property
    def causes(self) -> tuple[Finding, ...]:
        """One finding a cause, named ones first."""
        return tuple(merge(self.findings.values()))


def fuzz(
    bench: Bench, strategy: SearchStrategy[Any], check: Check, *, always: Sequence[Any] = ()
) -> Search:
    """Run `check` on pinned, saved and generated inputs; one shrunk finding a label.

    Args:
        bench: says which inputs (`bench.examples`), and takes what was shrunk and tried.
        strategy: generates inputs, all of them JSON data.
        check: finds what is wrong with one input.
        always: inputs that the clause tries whatever the seed.
    """
    search, examples = Search(), bench.examples
    bench.tried = search.tried
    if examples.only is not None:
        _try(search, check, examples.only)
        return search
    for example in (*examples.pinned, *examples.saved, *always):
        _try(search, check, example)
    known = examples.known | search.findings.keys()
    for _ in range(ROUNDS):
        label = _one_new(bench, search, strategy, check, known)
        if label is None:
            break
        bench.shrunk[label] = search.findings[label].example
        known |= {label}
    return search


def _try(search: Search, check: Check, example: Any) -> tuple[Finding, ...]:
    """Check one input, once; the first input that gives a label stays its example."""
    key = canonical(example)
    if key not in search.tried:
        search.tried[key] = tuple(replace(f, example=example) for f in check(example))
    for finding in search.tried[key]:
        search.findings.setdefault(finding.label, finding)
    return search.tried[key]


def _one_new(
    bench: Bench,
    search: Search,
    strategy: SearchStrategy[Any],
    check: Check,
    known: frozenset[Fault],
) -> Fault | None:
    """Let Hypothesis find and shrink one label outside `known`; record its smallest example."""
    shrinking: list[float] = []
    smallest: list[Finding] = []

    # Every profile follows the seed: the same one tries the same inputs, and the journal has it.
    @hypothesis.seed(bench.examples.seed)
    @hypothesis.settings(
        strategies.PROFILES[bench.examples.profile],
        max_examples=bench.examples.count,
        derandomize=False,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate, Phase.target, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(strategy)
    def search_one(example: Any) -> None:
        now = time.monotonic()
        late = now - search.began > bench.examples.seconds
        late |= bool(shrinking) and now - shrinking[0] > bench.examples.shrink_seconds
        if late and canonical(example) not in search.tried:
            return
        found = _try(search, check, example)
        for finding in found:
            if finding.label not in known and (not smallest or finding.label == smallest[-1].label):
                shrinking.append(time.monotonic())
                smallest.append(finding)
                raise _New(finding.label)

    try:
        search_one()
    except _New:
        search.findings[smallest[-1].label] = smallest[-1]
        return smallest[-1].label
    return None
