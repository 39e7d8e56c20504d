"""What changed since the baseline, over the journals given, and what did not run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matrix.faults import Fault, Severity
from matrix.report import Known, make_report
from matrix.report._page import Page
from matrix.results import Cell, Found, Outcome, Reason, StartLine

Make = Callable[..., Any]


def page_of(*files: Path, baseline: Path | None = None, **known: Any) -> Page:
    return make_report(files, files[0], baseline, Known(**known)).page


def changes(page: Page) -> dict[str, list[str]]:
    assert page.changes is not None
    return {
        found.name: [item.pair for group in found.groups for item in group.items]
        for found in page.changes
        if found.total
    }


def test_what_changed_since_the_baseline(write_run: Make, make_cell: Make, shifted: Cell) -> None:
    held = make_cell(pair="llama-8b")
    old = write_run("old", make_cell(), held, make_cell(pair="lost"), make_cell(engine="vllm"))
    new = write_run("new", make_cell(), shifted, make_cell(pair="young"), device="H200")
    page = page_of(new, baseline=old)
    assert changes(page) == {"broken": ["llama-8b"], "gone": ["lost"], "new": ["young"]}
    assert page.reasons == ("device: cpu before, H200 now",)
    (group,) = next(found.groups for found in page.changes or () if found.name == "broken")
    assert (group.before, group.after) == ("pass", "fail tap-shift-1")
    assert group.evidence == "plane 1 is layer 2's output, expected layer 3"
    assert group.repro == shifted.repro
    assert page.entries[shifted.key].change == "broken"
    assert page.entries[shifted.key].before == "pass"
    assert changes(page_of(new, baseline=new)) == {}
    assert page_of(new).changes is None


def test_cells_that_changed_alike_are_one_group(write_run: Make, make_cell: Make) -> None:
    names = [f"pair-{i}" for i in range(6)]
    old = write_run("old", *(make_cell(pair=name) for name in names))
    crashed = [make_cell(pair=name, outcome=Outcome.CRASH) for name in names[1:]]
    timed = make_cell(pair=names[0], outcome=Outcome.TIMEOUT)
    page = page_of(write_run("new", timed, *crashed), baseline=old)
    (broken,) = (found for found in page.changes or () if found.total)
    assert [(g.after, len(g.items)) for g in broken.groups] == [("crash", 5), ("timeout", 1)]


def test_what_is_new_and_red_comes_first_with_its_line(
    write_run: Make, make_cell: Make, shifted: Cell
) -> None:
    old = write_run("old", make_cell(pair="other"))
    young = [make_cell(pair=f"young-{i}") for i in range(3)]
    page = page_of(write_run("new", make_cell(pair="other"), *young, shifted), baseline=old)
    (new,) = (found for found in page.changes or () if found.total)
    assert (new.name, new.total, new.red, page.broken) == ("new", 4, 1, 0)
    assert [(group.red, len(group.items)) for group in new.groups] == [(1, 1), (0, 3)]
    assert new.groups[0].repro == shifted.repro


def test_another_twin_is_said_to_be_one(write_run: Make, make_cell: Make) -> None:
    def start(twin: str | None) -> StartLine:
        return StartLine(
            run_id="r1",
            engine="transformers",
            engine_version="0.1.0",
            pair="qwen3-4b",
            settings="main",
            seconds=1.0,
            outcome=Outcome.PASS,
            rss_mb=100.0,
            twin=twin,
        )

    old = write_run("old", start("aaa"), make_cell())
    new = write_run("new", start("bbb"), make_cell())
    older = write_run("older", start(None), make_cell())
    assert page_of(new, baseline=old).reasons == ("twin of qwen3-4b: aaa before, bbb now",)
    assert page_of(new, baseline=older).reasons == (), "journals of before say nothing of twins"


def nights(write_run: Make, *outcomes: Outcome, make_cell: Make) -> list[Path]:
    return [
        write_run(
            f"night-{i}",
            make_cell(run_id=f"night-{i}", outcome=outcome),
            run_id=f"night-{i}",
            time=f"2026-01-0{i + 1}T02:00:00Z",
        )
        for i, outcome in enumerate(outcomes)
    ]


def test_the_newest_run_is_shown_whatever_the_order_of_the_files(
    write_run: Make, make_cell: Make
) -> None:
    files = nights(write_run, Outcome.ERROR, Outcome.PASS, Outcome.CRASH, make_cell=make_cell)
    for given in (files, files[::-1]):
        (entry,) = page_of(*given).entries.values()
        assert entry.outcome == "crash"
        assert [dot.outcome for dot in entry.history] == ["error", "pass", "crash"]
        assert entry.history[0].time == "2026-01-01T02:00:00Z"


def test_a_cell_that_breaks_tonight_is_broken_and_one_that_comes_and_goes_is_unstable(
    write_run: Make, make_cell: Make
) -> None:
    ok, bad = Outcome.PASS, Outcome.CRASH
    for outcomes, lists in (
        ((ok, ok, bad), {"broken": ["qwen3-4b"]}),
        ((bad, bad, ok), {}),
        ((ok, bad, ok), {"unstable": ["qwen3-4b"]}),
        ((bad, ok, bad), {"unstable": ["qwen3-4b"]}),
    ):
        files = nights(write_run, *outcomes, make_cell=make_cell)
        baseline = write_run("baseline", make_cell())
        assert changes(page_of(*files, baseline=baseline)) == lists, outcomes
        for file in (*files, baseline):
            (file / "journal.jsonl").unlink()


def test_one_fault_over_many_cells_is_one_row(write_run: Make, make_cell: Make) -> None:
    def faulty(pair: str, *labels: Fault, outcome: Outcome = Outcome.FAIL) -> Cell:
        found = [Found(label, Severity.WRONG, evidence=f"{label} of {pair}") for label in labels]
        cell: Cell = make_cell(pair=pair, outcome=outcome, fault=labels[0], faults=found)
        return cell

    run = write_run(
        "run",
        faulty("a", Fault.TAP_ORDER, Fault.TAP_LEAK),
        faulty("b", Fault.TAP_ORDER),
        faulty("c", Fault.TAP_ORDER, outcome=Outcome.XFAIL),
        make_cell(pair="d", outcome=Outcome.OOM),
        make_cell(pair="e"),
    )
    rows = [(r.label, r.red, r.pairs, r.evidence) for r in page_of(run).faults]
    assert rows == [
        ("tap-order", True, ("a", "b"), "tap-order of a"),
        ("oom", True, ("d",), ""),
        ("tap-leak", True, ("a",), "tap-leak of a"),
        ("tap-order", False, ("c",), "tap-order of c"),
    ]


def test_what_did_not_run_and_why(write_run: Make, make_cell: Make) -> None:
    def skipped(reason: Reason, why: str, **fields: Any) -> Cell:
        cell: Cell = make_cell(outcome=Outcome.SKIP, reason_code=reason, detail=why, **fields)
        return cell

    run = write_run(
        "run",
        make_cell(),
        skipped(Reason.NOT_APPLICABLE, "no hook", clause="HOOK-REACH"),
        skipped(Reason.NEEDS_GPU, "no kernel", pair="a"),
        skipped(Reason.NEEDS_GPU, "no kernel", pair="b"),
        skipped(Reason.START_FAILED, "start refused: x", pair="b", clause="AUX-LONG"),
    )
    page = page_of(
        run,
        engines=("transformers", "vllm"),
        gaps={"qwen3-4b": ["sglang page-size-256"], "other": ["vllm chunk-64"]},
    )
    rows = [(a.what, a.reason, a.why, a.pairs, a.cells) for a in page.absent]
    covered = "it is served so, and no start of ours covers that"
    assert rows == [
        ("vllm", "no journal", "no journal of this engine was given", (), 0),
        ("transformers 0.1.0", "needs-gpu", "no kernel", ("a", "b"), 2),
        ("transformers 0.1.0", "start-failed", "start refused: x", ("b",), 1),
        ("sglang page-size-256", "not run", covered, ("qwen3-4b",), 0),
        ("transformers 0.1.0", "not-applicable", "no hook", ("qwen3-4b",), 1),
    ]


def test_the_history_goes_on_over_versions_and_only_the_newest_run_is_compared(
    write_run: Make, make_cell: Make
) -> None:
    files = [
        write_run(
            f"night-{i}",
            make_cell(run_id=f"night-{i}", engine_version=f"0.3{i}.0", outcome=outcome),
            run_id=f"night-{i}",
            time=f"2026-01-0{i + 1}T02:00:00Z",
            device=device,
        )
        for i, (outcome, device) in enumerate([(Outcome.PASS, "H200"), (Outcome.CRASH, "cpu")])
    ]
    page = page_of(*files, baseline=write_run("baseline", make_cell(engine_version="0.29.0")))
    assert len(page.grids) == 2
    for entry in page.entries.values():
        assert [(dot.version, dot.outcome) for dot in entry.history] == [
            ("0.30.0", "pass"),
            ("0.31.0", "crash"),
        ]
    assert changes(page) == {"broken": ["qwen3-4b"]}
