"""The code book keeps its words apart, and the decoder reads nothing else."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from matrix.canary import (
    APART,
    BLOCK,
    BOOK,
    CORRECT,
    DRAFTS,
    Observed,
    Totals,
    look_up,
    read,
    read_totals,
)
from matrix.contract import CLAUSES
from matrix.faults import GIVES, Fault, Phase


def steps(word: tuple[int, int], count: int = 4) -> list[Observed]:
    return [Observed(family, (word[family],) * count) for family in (0, 1)]


def test_words_are_apart_and_never_zero_nor_the_whole_block() -> None:
    words = [CORRECT, *(entry.word for entry in BOOK.values())]
    for (a, b), (c, d) in combinations(words, 2):
        assert max(abs(a - c), abs(b - d)) >= APART, f"{a, b} and {c, d}"
    assert all(1 <= k < DRAFTS for entry in BOOK.values() for k in entry.word)
    assert CORRECT == (BLOCK - 1, BLOCK - 1)


@pytest.mark.parametrize("clause", [name for name in CLAUSES if name.startswith("CANARY-")])
def test_every_label_of_the_book_is_one_that_the_clauses_can_give(clause: str) -> None:
    for entry in BOOK.values():
        assert entry.label in GIVES[clause], entry.name
    assert {Fault.ACCEPTANCE_COLLAPSE, Fault.SPEC_INACTIVE, Fault.PLANE_STALE} <= set(GIVES[clause])


@pytest.mark.parametrize("name", BOOK)
def test_a_word_reads_as_its_fault(name: str) -> None:
    reading = read(steps(BOOK[name].word))
    assert (reading.verdict, reading.entry, reading.phase) == (name, BOOK[name], Phase.ALL)


@pytest.mark.parametrize("word", list(product(range(BLOCK), repeat=2)))
def test_any_other_pair_reads_as_correct_or_unknown(word: tuple[int, int]) -> None:
    entry = look_up(word)
    due = "correct" if word == CORRECT else entry.name if entry else "unknown"
    assert read(steps(word)).verdict == due


@pytest.mark.parametrize("name", BOOK)
@pytest.mark.parametrize("family", [0, 1])
@pytest.mark.parametrize("off", [-1, 1])
def test_two_steps_of_ten_that_are_off_by_one_make_it_unknown(
    name: str, family: int, off: int
) -> None:
    requests, k = steps(BOOK[name].word, 10), BOOK[name].word[family]
    requests[family] = Observed(family, (*[k] * 9, k + off))
    assert read(requests).verdict == name, "nine of ten are enough"
    requests[family] = Observed(family, (*[k] * 8, k + off, k + off))
    reading = read(requests)
    assert (reading.verdict, reading.entry) == ("unknown", None)
    assert "steps differ" in reading.why


@pytest.mark.parametrize("family", [0, 1])
def test_one_step_that_missed_is_not_correct(family: int) -> None:
    requests = steps(CORRECT, 40)
    requests[family] = Observed(family, (*[DRAFTS] * 39, DRAFTS - 1))
    assert read(requests).verdict == "unknown"


def test_a_fault_that_begins_behind_the_prefill_says_so() -> None:
    reading = read([Observed(0, (9, 3, 3, 3, 3)), Observed(1, (9, 1, 1, 1, 1))])
    assert (reading.verdict, reading.phase) == ("ids-low", Phase.DECODE)


def test_a_fault_of_some_requests_or_steps_is_read_from_those() -> None:
    reading = read(steps(CORRECT) + steps(BOOK["foreign"].word))
    assert (reading.verdict, reading.phase) == ("foreign", Phase.BATCH)
    assert reading.why.startswith("8 of 16 steps")
    reading = read([Observed(family, (9, 3, 9, 9, 3, 3, 9, 3)) for family in (0, 1)])
    assert (reading.verdict, reading.phase) == ("foreign", Phase.BATCH)


def test_requests_of_one_family_alone_name_nothing() -> None:
    wrong_on_a = [Observed(0, (3, 3, 3, 3)), Observed(1, (9, 9, 9, 9))]
    assert read(wrong_on_a).verdict == "unknown"


@pytest.mark.parametrize("requests", [[], steps(CORRECT, 3), [Observed(0, (9,) * 9)]])
def test_too_few_steps_are_not_correct(requests: list[Observed]) -> None:
    assert read(requests).verdict == "unknown"


def test_metrics_hold_the_profile() -> None:
    metrics = read([Observed(0, (9, 3, 3, 3)), Observed(1, (9, 1, 1, 1))]).metrics()
    assert metrics["steps"] == {"A": 4, "B": 4}
    assert metrics["counts"] == {"A": {"3": 3, "9": 1}, "B": {"1": 3, "9": 1}}
    assert metrics["profile"] == {"A": [4, 4, 4, 1, 1, 1, 1, 1, 1], "B": [4, *[1] * 8]}
    assert metrics["book"]["correct"] == [9, 9]


def test_totals_say_correct_or_not() -> None:
    right = [Totals(family, 8, (8,) * DRAFTS) for family in (0, 1)]
    assert read_totals(right).verdict == "correct"
    # The word of a fault, but totals can't tell it from a mix of others.
    word = [Totals(0, 8, (8, 8, 8, 0, 0, 0, 0, 0, 0)), Totals(1, 8, (8, *[0] * 8))]
    reading = read_totals(word)
    assert (reading.verdict, reading.entry) == ("not", None)
    assert reading.metrics()["counts"] == {"A": {"3": 8}, "B": {"1": 8}}
    assert read_totals([Totals(f, 2, (2,) * DRAFTS) for f in (0, 1)]).verdict == "not"
