"""One run: header first, a line for everything that happened, and nothing left behind."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from running import HERE, PAIR, FakeReference, below, injected, plan

from matrix.contract import CLAUSES
from matrix.results import Cell, Outcome, Reason, RunHeader, StartLine, read
from matrix.session import INSTALL, Session, new_run_id

if TYPE_CHECKING:
    from pathlib import Path

    from matrix._plan import Plan

P = Outcome.PASS
QUICK = ("START-LOAD", "START-SPEC")


def several(planned: Plan, *keys: str) -> Plan:
    return replace(planned, pairs=tuple(replace(PAIR, key=key) for key in keys))


def run(planned: Plan) -> Session:
    with Session(planned, "run-1", FakeReference()) as session:  # type: ignore[arg-type]
        session.run()
    return session


def chosen(session: Session) -> list[tuple[str, str, Outcome]]:
    return [
        (cell.pair, cell.clause, cell.outcome)
        for cell in session.cells
        if cell.reason_code is not Reason.FILTERED
    ]


def lines(planned: Plan) -> list[str]:
    return (planned.out / "journal.jsonl").read_text().splitlines()


# --- the journal -------------------------------------------------------------------------------


def test_a_run_is_in_its_journal(tmp_path: Path) -> None:
    planned = plan(tmp_path, *QUICK, seed=4)
    session = run(planned)
    journal = read(planned.out)
    (header,) = journal.headers
    assert (header.run_id, header.seed) == ("run-1", 4)
    assert header.engines["transformers"]["version"] == "1.0"
    assert header.settings.keys() == {"main", "plain"}
    assert header.inject is not None
    assert header.inject["path"] == str(planned.inject)
    assert len(header.inject["sha256"]) == 64
    assert [cell.key for cell in journal.cells] == [cell.key for cell in session.cells]
    assert [start.settings for start in journal.starts] == ["main"]
    assert lines(planned)[0].startswith('{"kind":"run"')


def test_every_skip_has_a_code_and_a_sentence(tmp_path: Path) -> None:
    lacking = injected(tmp_path, "lacks={'batch': 'one at a time'}")
    session = run(plan(tmp_path, *QUICK, "AUX-BATCH", inject=lacking))
    skips = [cell for cell in session.cells if cell.outcome is Outcome.SKIP]
    assert len(skips) == len(CLAUSES) - 2
    assert all(cell.reason_code and cell.detail for cell in skips)


def test_the_first_row_takes_over_the_worker_that_identified_the_engine(tmp_path: Path) -> None:
    counted = injected(tmp_path, body=f"open({str(tmp_path / 'starts')!r}, 'a').write('x')")
    session = run(several(plan(tmp_path, *QUICK, inject=counted), "a", "b"))
    assert [outcome for _, _, outcome in chosen(session)] == [P] * 4
    assert (tmp_path / "starts").read_text() == "xx", "one process a row, none besides"


def test_rows_run_side_by_side_and_every_row_is_whole(tmp_path: Path) -> None:
    slow = injected(tmp_path, "starting=lambda spec: time.sleep(1.0)")
    planned = several(plan(tmp_path, *QUICK, inject=slow, slots=3), "a", "b", "c")
    session = run(planned)
    assert sorted(chosen(session)) == sorted((key, clause, P) for key in "abc" for clause in QUICK)
    journal = read(planned.out)
    assert len(journal.cells) == 3 * len(CLAUSES)
    assert sorted(start.pair for start in journal.starts) == ["a", "b", "c"]


# --- an engine that can't be identified -----------------------------------------------------------


def served(folder: Path, text: str) -> Path:
    file = folder / "inject.py"
    file.write_text(text)
    return file


def test_a_missing_package_is_a_skip_with_the_line_that_installs_it(tmp_path: Path) -> None:
    missing = served(
        tmp_path, "import matrix.engines._worker as w\nw.SERVED['transformers'] = 'no_torch:X'"
    )
    session = run(several(plan(tmp_path, *QUICK, inject=missing), "a", "b"))
    assert len(session.cells) == 4
    for cell in session.cells:
        assert (cell.outcome, cell.reason_code) == (Outcome.SKIP, Reason.MISSING_DEPENDENCY)
        assert "No module named 'no_torch'" in cell.detail
        assert INSTALL["transformers"] in cell.detail
    assert not [line for line in lines(session.plan) if '"kind":"start"' in line]


def test_an_interpreter_without_our_dependencies_is_a_skip_too(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    session = run(plan(tmp_path, *QUICK, python=str(bare / "bin" / "python")))
    assert {cell.reason_code for cell in session.cells} == {Reason.MISSING_DEPENDENCY}
    assert all("msgspec" in cell.detail for cell in session.cells)


@pytest.mark.parametrize(
    ("text", "outcome", "words"),
    [
        ("raise RuntimeError('broken')", Outcome.CRASH, "exit status 1 in identify"),
        (
            "import fake_engine\n"
            "class Odd(fake_engine.FakeEngine):\n"
            "    def identify(self) -> fake_engine.Identity:\n"
            "        raise OSError('no device')\n"
            "fake_engine.Odd = Odd\n"
            "import matrix.engines._worker as w\n"
            "w.SERVED['transformers'] = 'fake_engine:Odd'",
            Outcome.ERROR,
            "OSError: no device",
        ),
    ],
)
def test_an_engine_that_cannot_say_who_it_is_makes_every_cell_say_so(
    tmp_path: Path, text: str, outcome: Outcome, words: str
) -> None:
    path = f"import sys; sys.path.insert(0, {str(HERE / 'contract')!r})\n"
    session = run(plan(tmp_path, *QUICK, inject=served(tmp_path, path + text)))
    assert {(cell.outcome, cell.reason_code) for cell in session.cells} == {(outcome, None)}
    assert all(words in cell.detail for cell in session.cells)


# --- ends --------------------------------------------------------------------------------------


def test_no_process_outlives_a_run(tmp_path: Path) -> None:
    before = set(below(os.getpid()))
    run(several(plan(tmp_path, *QUICK, slots=2), "a", "b"))
    assert set(below(os.getpid())) <= before


def test_a_run_that_is_broken_off_stops_its_rows_and_writes_nothing_false(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = injected(tmp_path, "drafting=lambda m: time.sleep(600)")
    planned = several(plan(tmp_path, *QUICK, inject=hanging, slots=2), "a", "b")
    real = concurrent.futures.as_completed

    def broken_off(futures: Any) -> Any:
        """Ctrl-C, as the main thread sees it while the rows run."""
        until = time.monotonic() + 30
        while len([line for line in lines(planned) if '"start"' in line]) < 2:
            assert time.monotonic() < until
            time.sleep(0.05)
        raise KeyboardInterrupt

    monkeypatch.setattr(concurrent.futures, "as_completed", broken_off)
    before = set(below(os.getpid()))
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(planned)
    assert time.monotonic() - began < 40
    monkeypatch.setattr(concurrent.futures, "as_completed", real)
    assert set(below(os.getpid())) <= before
    cells = [cell for cell in read(planned.out).cells if cell.reason_code != "filtered"]
    assert {(cell.pair, cell.clause, cell.outcome) for cell in cells} == {
        ("a", "START-LOAD", P),
        ("b", "START-LOAD", P),
    }, "what was broken off has no outcome"
    assert len(read(planned.out).starts) == 2


def test_a_journal_that_cannot_be_written_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matrix.errors import JournalError
    from matrix.results import Journal

    written: list[object] = []
    write = Journal.write

    def full(self: Journal, line: Cell | StartLine | RunHeader) -> None:
        if len(written) == 3:
            raise JournalError("journal.jsonl: no space left")
        written.append(line)
        write(self, line)

    monkeypatch.setattr(Journal, "write", full)
    before = set(below(os.getpid()))
    with pytest.raises(JournalError):
        run(several(plan(tmp_path, *QUICK, slots=2), "a", "b"))
    assert set(below(os.getpid())) <= before


def test_run_ids_sort_by_time_and_never_clash() -> None:
    ids = [new_run_id() for _ in range(50)]
    assert len(set(ids)) == 50
    assert ids[0][:8].isdigit()
