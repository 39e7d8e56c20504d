"""Counts of forced drafts: contradicting what was emitted is a fault, agreeing with it is none."""

from __future__ import annotations

import pytest

from matrix.contract import Run
from matrix.contract.output import _miscounted
from matrix.engines import Generation, Inject, Request, Step
from matrix.faults import Fault

RIGHT = [10, 11, 12, 13, 14, 15]
"""The target's own continuation; the first token stands before any draft."""


def run(emitted: list[int], step: Step) -> Run:
    request = Request([1, 2], 5, inject=Inject(RIGHT, [2]))
    return Run(request, Generation(emitted, "length", [step], []))


@pytest.mark.parametrize(
    ("put_in", "drafted", "accepted", "emitted", "wrong"),
    [
        pytest.param(2, [11, 12, 99], 2, [10, 11, 12, 13], False, id="as-put-in"),
        pytest.param(2, [11, 12, 99], 1, [10, 11, 50], False, id="refused-as-the-output-says"),
        pytest.param(2, [11, 12, 99], 1, [10, 11, 12], True, id="refused-but-emitted"),
        pytest.param(0, [99, 98, 97], 1, [10, 99, 13], False, id="taken-as-the-output-says"),
        pytest.param(0, [99, 98, 97], 1, [10, 11, 13], True, id="taken-but-not-emitted"),
        pytest.param(3, [11, 12, 13], 4, [10, 11, 12, 13, 14], True, id="more-than-drafted"),
    ],
)
def test_counts_are_judged_by_what_was_emitted(
    put_in: int, drafted: list[int], accepted: int, emitted: list[int], wrong: bool
) -> None:
    found = _miscounted(run(emitted, Step(2, drafted, accepted)), [put_in], 3)
    assert [one.label for one in found] == [Fault.COUNTERS_WRONG] * wrong
