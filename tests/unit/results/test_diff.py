from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from matrix.errors import JournalError
from matrix.faults import Fault
from matrix.results import (
    Diff,
    Journal,
    Outcome,
    Reason,
    Record,
    diff,
    incomparable,
    read,
    read_baseline,
    relevant,
    update_baseline,
)

Make = Callable[..., Any]
LISTS = ("fixed", "broken", "new", "gone", "unstable")


def places(found: Diff) -> list[str]:
    return [name for name in LISTS for _ in getattr(found, name)]


def outcome_of(make_cell: Make, text: str) -> Any:
    outcome, _, label = text.partition(" ")
    if outcome == "skip":
        return make_cell(outcome=Outcome.SKIP, reason_code=Reason.NEEDS_GPU)
    faults = [Fault(label)] if label else []
    return make_cell(*faults, outcome=Outcome(outcome))


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ("pass", "pass", None),
        ("pass", "fail tap-guess", "broken"),
        ("pass", "xfail tap-guess", "broken"),
        ("pass", "crash", "broken"),
        ("pass", "warn tap-late", "broken"),
        ("warn tap-late", "fail tap-guess", "broken"),
        ("xfail tap-guess", "fail tap-guess", "broken"),
        ("fail tap-guess", "fail tap-order", "broken"),
        ("fail tap-guess", "timeout", "broken"),
        ("fail tap-guess", "fail tap-guess", None),
        ("fail tap-guess", "xfail tap-guess", None),
        ("fail tap-guess", "pass", "fixed"),
        ("xfail tap-guess", "pass", "fixed"),
        ("xfail tap-guess", "xpass", "fixed"),
        ("error", "warn tap-late", "fixed"),
        ("warn tap-late", "pass", "fixed"),
        ("skip", "fail tap-guess", "new"),
        ("pass", "skip", "gone"),
        ("skip", "skip", None),
    ],
)
def test_where_a_change_belongs(
    make_cell: Make, before: str, after: str, place: str | None
) -> None:
    old = Record(cells=[outcome_of(make_cell, before)])
    new = Record(cells=[outcome_of(make_cell, after)])
    found = diff(old, new)
    assert places(found) == ([place] if place else [])
    assert found.red is (place in ("broken", "gone"))
    if place:
        (change,) = getattr(found, place)
        assert (change.old, change.new) == (old.cells[0], new.cells[0])
        assert change.subject.clause == "TAP-RANGE"


def test_cells_on_one_side_only(make_cell: Make) -> None:
    found = diff(Record(cells=[make_cell(pair="a")]), Record(cells=[make_cell(pair="b")]))
    assert places(found) == ["new", "gone"]
    assert found.gone[0].new is None
    assert found.new[0].old is None
    assert found.red


def test_a_cell_judged_twice_with_two_outcomes_is_unstable(make_cell: Make) -> None:
    passed, failed = make_cell(), make_cell(Fault.TAP_GUESS)
    assert places(diff(Record(cells=[passed]), Record(cells=[failed, passed]))) == ["unstable"]
    assert not diff(Record(cells=[passed]), Record(cells=[failed, passed])).red
    assert diff(Record(cells=[passed]), Record(cells=[passed, failed])).red
    assert places(diff(Record(cells=[passed]), Record(cells=[passed, passed]))) == []


def test_versions_are_compared_with_each_other(make_cell: Make) -> None:
    old = Record(cells=[make_cell(engine_version="0.9.0"), make_cell(engine_version="0.10.0")])
    broken = make_cell(Fault.TAP_GUESS, engine_version="0.11.0")
    found = diff(old, Record(cells=[broken]))
    assert places(found) == ["broken", "gone"]
    assert found.broken[0].old is not None
    assert found.broken[0].old.engine_version == "0.10.0"
    same = diff(old, Record(cells=[make_cell(engine_version="0.10.0"), broken]))
    assert places(same) == ["new", "gone"], "a version that both hold is not renamed"
    odd = diff(Record(cells=[make_cell(engine_version="my build")]), Record(cells=[broken]))
    assert places(odd) == ["broken"]


@pytest.mark.parametrize(
    ("header", "cell", "reason"),
    [
        ({"device": "H200"}, {}, "device: cpu before, H200 now"),
        (
            {"settings": {"main": {"runner": "other"}}},
            {},
            "settings main: runner embedded before, runner other now",
        ),
        (
            {"engines": {"transformers": {"standins": ["torchvision"]}}},
            {},
            "stand-ins of transformers: none before, torchvision now",
        ),
        (
            {"inject": {"path": "f.py", "sha256": "ab"}},
            {},
            "injected file: none before, ab now",
        ),
        ({}, {"dtype": "bfloat16"}, "dtypes of transformers: float32 before, bfloat16 now"),
        ({}, {"clause_version": 2}, "version of clause TAP-RANGE: 1 before, 2 now"),
        ({}, {"target": "x/y"}, "target of qwen3-4b-dflash-b16: Qwen/Qwen3-4B before, x/y now"),
    ],
)
def test_what_makes_runs_incomparable(
    make_cell: Make,
    make_header: Make,
    header: dict[str, Any],
    cell: dict[str, Any],
    reason: str,
) -> None:
    old = Record(headers=[make_header()], cells=[make_cell()])
    new = Record(headers=[make_header(**header)], cells=[make_cell(**cell)])
    assert incomparable(old, new) == diff(old, new).reasons == [reason]
    assert incomparable(old, old) == []


def journal_of(path: Path, header: Any, *cells: Any) -> Path:
    with Journal(path) as journal:
        for line in (header, *cells):
            journal.write(line)
    return path


def test_a_baseline_has_one_journal_per_engine_version(
    tmp_path: Path, make_cell: Make, make_header: Make
) -> None:
    cells = [
        make_cell(log="logs/a.log", log_line=3),
        make_cell(engine="vllm", engine_version="0.24.0+cpu/x"),
    ]
    run = journal_of(tmp_path / "run", make_header(), *cells)
    folder = tmp_path / "reports" / "baseline"
    assert update_baseline(run, folder) == [
        folder / "transformers-0.1.0.jsonl",
        folder / "vllm-0.24.0+cpu_x.jsonl",
    ]
    assert sorted(p.name for p in folder.iterdir()) == [
        "transformers-0.1.0.jsonl",
        "vllm-0.24.0+cpu_x.jsonl",
    ]
    baseline = read_baseline(folder)
    assert [cell.key for cell in baseline.cells] == [cell.key for cell in cells]
    assert {cell.log for cell in baseline.cells} == {None}
    assert places(diff(baseline, read(run))) == []
    assert update_baseline(run, folder), "the same run may become the baseline again"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"outcome": Outcome.FAIL}, "1 cells are not as expected, first transformers@0.1.0"),
        ({"outcome": Outcome.XPASS}, "1 cells are not as expected"),
        ({"outcome": Outcome.SKIP, "reason_code": Reason.NEEDS_GPU}, "no cell was judged"),
    ],
)
def test_what_is_no_baseline(
    tmp_path: Path, make_cell: Make, make_header: Make, fields: dict[str, Any], why: str
) -> None:
    run = journal_of(tmp_path / "run", make_header(), make_cell(**fields))
    with pytest.raises(JournalError, match=why) as caught:
        update_baseline(run, tmp_path / "baseline")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "baseline").exists()


def test_a_cut_or_injected_run_is_no_baseline(
    tmp_path: Path, make_cell: Make, make_header: Make
) -> None:
    cut = journal_of(tmp_path / "cut", make_header(), make_cell())
    with (cut / "journal.jsonl").open("a") as file:
        file.write('{"kind":"ce')
    with pytest.raises(JournalError, match="damaged"):
        update_baseline(cut, tmp_path / "baseline")
    inject = {"path": "plant.py", "sha256": "ab"}
    planted = journal_of(tmp_path / "planted", make_header(inject=inject), make_cell())
    with pytest.raises(JournalError, match=r"plant\.py was injected"):
        update_baseline(planted, tmp_path / "baseline")


def test_a_baseline_never_shrinks_in_silence(
    tmp_path: Path, make_cell: Make, make_header: Make
) -> None:
    folder = tmp_path / "baseline"
    update_baseline(
        journal_of(tmp_path / "all", make_header(), make_cell(), make_cell(pair="other")), folder
    )
    before = (folder / "transformers-0.1.0.jsonl").read_bytes()
    part = journal_of(tmp_path / "part", make_header(), make_cell())
    with pytest.raises(JournalError, match="1 cells of the baseline are not in the run"):
        update_baseline(part, folder)
    assert (folder / "transformers-0.1.0.jsonl").read_bytes() == before


def test_the_relevant_part_of_a_baseline(make_cell: Make, make_header: Make) -> None:
    vllm = {"engine": "vllm"}
    baseline = Record(
        headers=[make_header()],
        cells=[
            make_cell(),
            make_cell(**vllm, engine_version="0.9.0"),
            make_cell(**vllm, engine_version="0.10.0"),
            make_cell(engine="sglang"),
        ],
    )

    def kept(*cells: Any, engines: dict[str, Any]) -> list[str]:
        run = Record(headers=[make_header(engines=engines)], cells=list(cells))
        return [f"{c.engine}@{c.engine_version}" for c in relevant(baseline, run).cells]

    ran = make_cell(**vllm, engine_version="0.9.0")
    assert kept(ran, engines={"vllm": {}}) == ["vllm@0.9.0"]
    newer = make_cell(**vllm, engine_version="0.11.0")
    assert kept(newer, engines={"vllm": {}}) == ["vllm@0.10.0"]
    assert kept(engines={"vllm": {}}) == ["vllm@0.10.0"], "asked for, but nothing came of it"
    assert kept(engines={"other": {}}) == []
