"""The search: pinned inputs first, one shrunk finding a label, and no label twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from fake_engine import bench
from hypothesis import strategies as st

from matrix.contract import Bench, Examples, Finding
from matrix.contract._fuzz import fuzz
from matrix.faults import Fault
from matrix.results import canonical

Check = Callable[[Any], list[Finding]]
NUMBERS = st.fixed_dictionaries({"n": st.integers(0, 1000)})


def with_examples(**values: Any) -> Bench:
    return bench(examples=Examples(**{"count": 60, **values}))


class Tried:
    """A check that remembers the order of its inputs."""

    def __init__(self, find: Callable[[int], list[Fault]]) -> None:
        self.find, self.inputs = find, list[int]()

    def __call__(self, example: dict[str, int]) -> list[Finding]:
        self.inputs.append(example["n"])
        return [Finding(label, f"n is {example['n']}") for label in self.find(example["n"])]


def above(limit: int, *labels: Fault) -> Callable[[int], list[Fault]]:
    return lambda n: list(labels) if n > limit else []


def test_pinned_inputs_come_first_then_saved_then_those_always_tried() -> None:
    check = Tried(above(2000))
    prepared = with_examples(pinned=({"n": 901},), saved=({"n": 902}, {"n": 901}))
    fuzz(prepared, NUMBERS, check, always=[{"n": 903}])
    assert check.inputs[:3] == [901, 902, 903]
    assert len(check.inputs) == len(set(check.inputs)) > 20, "every input once, and many of them"


def test_only_is_the_only_input() -> None:
    check = Tried(above(2000))
    prepared = with_examples(only={"n": 5}, pinned=({"n": 6},), saved=({"n": 7},))
    search = fuzz(prepared, NUMBERS, check, always=[{"n": 8}])
    assert check.inputs == [5]
    assert set(search.tried) == {'{"n":5}'}


def test_a_new_label_is_shrunk_and_kept() -> None:
    prepared = with_examples()
    search = fuzz(prepared, NUMBERS, Tried(above(123, Fault.TAP_ORDER)))
    assert search.findings[Fault.TAP_ORDER].example == {"n": 124}
    assert search.findings[Fault.TAP_ORDER].evidence == "n is 124"
    assert prepared.shrunk == {Fault.TAP_ORDER: {"n": 124}}
    assert prepared.tried is search.tried


def test_a_pinned_input_is_run_not_shrunk() -> None:
    prepared = with_examples(pinned=({"n": 900},))
    search = fuzz(prepared, NUMBERS, Tried(above(123, Fault.TAP_ORDER)))
    assert search.findings[Fault.TAP_ORDER].example == {"n": 900}
    assert prepared.shrunk == {}


def test_known_labels_do_not_stop_the_search() -> None:
    def find(n: int) -> list[Fault]:
        return [Fault.TAP_ORDER, *([Fault.TAP_LATE] if n > 500 else [])]

    prepared = with_examples(known=frozenset({Fault.TAP_ORDER}))
    search = fuzz(prepared, NUMBERS, Tried(find))
    assert search.findings.keys() == {Fault.TAP_ORDER, Fault.TAP_LATE}
    assert prepared.shrunk == {Fault.TAP_LATE: {"n": 501}}


def test_several_labels_are_each_shrunk() -> None:
    def find(n: int) -> list[Fault]:
        bands = ((700, Fault.PLANE_ZERO), (400, Fault.TAP_LATE), (100, Fault.TAP_ORDER))
        return next(([label] for limit, label in bands if n > limit), [])

    prepared = with_examples(count=100, shrink_seconds=0.3)
    search = fuzz(prepared, NUMBERS, Tried(find))
    assert prepared.shrunk == {
        Fault.PLANE_ZERO: {"n": 701},
        Fault.TAP_LATE: {"n": 401},
        Fault.TAP_ORDER: {"n": 101},
    }
    assert {label: found.example for label, found in search.findings.items()} == prepared.shrunk


def test_two_labels_of_one_input_are_two_findings() -> None:
    check = Tried(above(10, Fault.TAP_LATE, Fault.TAP_UNCLEAR))
    search = fuzz(with_examples(), NUMBERS, check)
    examples = {label: found.example for label, found in search.findings.items()}
    assert examples == {Fault.TAP_LATE: {"n": 11}, Fault.TAP_UNCLEAR: {"n": 11}}


def test_a_shrunk_input_that_is_saved_is_enough_next_time() -> None:
    find = above(123, Fault.TAP_ORDER)
    first = with_examples()
    fuzz(first, NUMBERS, Tried(find))
    check = Tried(find)
    second = with_examples(saved=tuple(first.shrunk.values()), count=1)
    search = fuzz(second, NUMBERS, check)
    assert check.inputs[0] == 124
    assert search.findings[Fault.TAP_ORDER].example == {"n": 124}


def test_what_was_tried_says_what_each_input_gave() -> None:
    search = fuzz(
        with_examples(pinned=({"n": 3}, {"n": 900})), NUMBERS, Tried(above(123, Fault.TAP_ORDER))
    )
    assert search.tried[canonical({"n": 3})] == ()
    assert [found.label for found in search.tried[canonical({"n": 900})]] == [Fault.TAP_ORDER]


def test_shrinking_is_bounded() -> None:
    slow: list[float] = []

    def check(example: dict[str, Any]) -> list[Finding]:
        slow.append(time.monotonic())
        time.sleep(0.02)
        wrong = sum(example["many"]) > 3000
        return [Finding(Fault.UNKNOWN, "wrong")] if wrong else []

    many = st.fixed_dictionaries({"many": st.lists(st.integers(0, 1000), max_size=60)})
    prepared = with_examples(count=100, shrink_seconds=0.3)
    search = fuzz(prepared, many, check)
    assert sum(search.findings[Fault.UNKNOWN].example["many"]) > 3000
    # 100 inputs are generated; shrinking tries as many more as fit into its time, and no others.
    assert len(slow) < 100 + 0.3 / 0.02 + 20


def test_a_search_that_has_spent_its_time_tries_what_is_due_and_nothing_new() -> None:
    check = Tried(above(123))
    search = fuzz(with_examples(pinned=({"n": 3}, {"n": 5}), seconds=0.0), NUMBERS, check)
    assert check.inputs == [3, 5]
    assert search.findings == {}


def test_a_seed_tries_the_same_inputs_and_another_seed_others() -> None:
    def inputs(**values: Any) -> list[int]:
        check = Tried(above(2000))
        fuzz(with_examples(**values), NUMBERS, check)
        return check.inputs

    assert inputs() == inputs()
    assert inputs(profile="nightly", seed=1) == inputs(profile="nightly", seed=1)
    assert inputs(seed=1) != inputs(seed=2)


def test_an_error_of_ours_ends_the_search() -> None:
    def check(example: dict[str, int]) -> list[Finding]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fuzz(with_examples(), NUMBERS, check)
