from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matrix.faults import Fault
from matrix.results import Outcome, Reason, table

Make = Callable[..., Any]


def test_the_table(make_cell: Make) -> None:
    cells = [
        make_cell(clause="START-LOAD", pair="a"),
        make_cell(clause="START-PLAIN", pair="a", settings="plain"),
        make_cell(clause="TAP-RANGE", pair="a", outcome=Outcome.ERROR),  # judged again below
        make_cell(
            Fault.TAP_GUESS, clause="TAP-RANGE", pair="a", detail="guessed [1, 2]", repro="run a"
        ),
        make_cell(clause="START-LOAD", pair="longer-name", outcome=Outcome.XFAIL),
        make_cell(
            clause="HOOK-REACH",
            pair="longer-name",
            outcome=Outcome.SKIP,
            reason_code=Reason.NOT_APPLICABLE,
        ),
        make_cell(clause="START-LOAD", pair="a", engine_version="0.2.0"),
    ]
    assert table(cells).splitlines() == [
        "transformers@0.1.0:float32  START  TAP  HOOK",
        "a                           2P     1F   -",
        "longer-name                 1x     -    1s",
        "",
        "transformers@0.2.0:float32  START  TAP  HOOK",
        "a                           1P     -    -",
        "",
        "transformers@0.1.0[main]:float32/a/TAP-RANGE: fail tap-guess: guessed [1, 2]",
        "  repro: run a",
        "",
        "6 cells, 1 unexpected: 3 pass (P), 1 fail (F), 1 xfail (x), 1 skip (s)",
        "skipped: 1 not-applicable",
    ]


def test_flags_say_what_is_listed(make_cell: Make) -> None:
    warned, gone = make_cell(Fault.TAP_LATE, pair="w"), make_cell(pair="x", outcome=Outcome.XPASS)
    assert "1 unexpected" in table([warned, gone])
    assert "/x/TAP-RANGE: xpass" in table([warned, gone])
    assert "/w/TAP-RANGE: warn tap-late" in table([warned, gone], strict=True)
    assert "0 unexpected" in table([warned, gone], xpass_warn=True)


def test_nothing_an_engine_said_is_obeyed(make_cell: Make) -> None:
    hostile = "\x1b[2J\n::error::owned\r\n::set-output name=a::b ##[add-mask]x\x07"
    text = table([make_cell(Fault.TAP_GUESS, pair=hostile, detail=hostile, repro=hostile)])
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())
    assert "##[" not in text
    assert not set(text) & {"\x1b", "\r", "\x07"}
    assert len(text.splitlines()) == 7


def test_a_long_detail_is_cut(make_cell: Make) -> None:
    text = table([make_cell(Fault.TAP_GUESS, detail="x" * 10_000_000)])
    assert len(text) < 1000


def test_an_empty_run() -> None:
    assert table([]) == "0 cells, 0 unexpected: nothing was run\n"
