from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from matrix.report._logs import LINES, Log, LogReader, ends_of
from matrix.results import Cell, Outcome

Make = Callable[..., Any]


def numbered(count: int) -> str:
    return "".join(f"line {i}\n" for i in range(1, count + 1))


def log_of(cell: Cell, end: int | None, folder: Path | None, beside: Path) -> Log | None:
    return LogReader({cell.run_id: folder} if folder else {}, beside).read(cell, end)


def shown(cell: Cell, end: int | None, folder: Path) -> list[str]:
    log = log_of(cell, end, folder, folder)
    assert log is not None
    return log.text.splitlines()


def test_a_cells_part_of_a_log(tmp_path: Path, make_cell: Make) -> None:
    (tmp_path / "a.log").write_text(numbered(1000))
    early, late = make_cell(log="a.log", log_line=11), make_cell(log="a.log", log_line=501)
    assert shown(early, 14, tmp_path) == ["line 11", "line 12", "line 13"]
    assert shown(early, 11, tmp_path) == []
    assert shown(late, None, tmp_path) == [f"line {i}" for i in range(801, 1001)]
    assert shown(late, 901, tmp_path) == [f"line {i}" for i in range(701, 901)]


def test_without_a_line_number_the_logs_end(tmp_path: Path, make_cell: Make) -> None:
    (tmp_path / "a.log").write_text(numbered(1000) + "no newline")
    lines = shown(make_cell(log="a.log"), None, tmp_path)
    assert lines[-2:] == ["line 1000", "no newline"]
    assert len(lines) == LINES


def test_where_parts_end(make_cell: Make) -> None:
    def at(line: int | None, log: str | None = "a.log", run: str = "r1") -> Cell:
        return make_cell(log=log, log_line=line, run_id=run)

    cells = [at(1), at(None), at(4), at(4), at(1, "b.log"), at(2, run="r2"), at(9), at(3), at(5)]
    # The log was begun anew after line 9; what the cell before left there has no known end.
    assert ends_of(cells) == [4, None, 4, 9, None, None, None, 5, None]


def test_the_address_is_relative_to_the_report(tmp_path: Path, make_cell: Make) -> None:
    (tmp_path / "a b.log").write_text("x")
    log = log_of(make_cell(log="a b.log"), None, tmp_path, tmp_path / "reports")
    assert log is not None
    assert log.href == "./../a%20b.log"


def test_a_skipped_cell_has_the_address_only(tmp_path: Path, make_cell: Make) -> None:
    (tmp_path / "a.log").write_text("x")
    assert shown(make_cell(log="a.log", outcome=Outcome.SKIP), None, tmp_path) == []


def test_a_flooded_log_is_read_from_its_end(tmp_path: Path, make_cell: Make) -> None:
    (tmp_path / "a.log").write_bytes(b"x" * (3 << 20) + b"\nlast\n")
    lines = shown(make_cell(log="a.log"), None, tmp_path)
    assert lines[-1] == "last"
    assert lines[0].endswith("x...")
    assert len(lines[0]) < 1100


def test_what_one_report_holds_of_logs_has_an_end(tmp_path: Path, make_cell: Make) -> None:
    (tmp_path / "a.log").write_text(numbered(10))
    reader = LogReader({"r1": tmp_path}, tmp_path, left=1)
    first, second = (reader.read(make_cell(log="a.log"), None) for _ in range(2))
    assert first is not None
    assert second is not None
    assert (first.text.count("line"), first.left_out) == (10, False)
    assert (second.text, second.left_out, second.href) == ("", True, "./a.log")


def test_escapes_secrets_and_broken_bytes(
    tmp_path: Path, make_cell: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789")
    (tmp_path / "a.log").write_bytes(b"\x1b[31mred\x1b[0m hf_0123456789 \xff\n")
    assert shown(make_cell(log="a.log"), None, tmp_path) == ["red *** \ufffd"]


@pytest.mark.parametrize("log", ["../secret", "/etc/passwd", "gone.log", "", None, "a\0b", "."])
def test_what_is_no_log_of_this_run(tmp_path: Path, make_cell: Make, log: str | None) -> None:
    (tmp_path / "secret").write_text("secret")
    run = tmp_path / "run"
    run.mkdir()
    assert log_of(make_cell(log=log), None, run, tmp_path) is None
    assert log_of(make_cell(log=log), None, None, tmp_path) is None


def test_a_link_that_leads_out_of_the_run(tmp_path: Path, make_cell: Make) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "secret").write_text("secret")
    (run / "a.log").symlink_to(tmp_path / "secret")
    assert log_of(make_cell(log="a.log"), None, run, tmp_path) is None


def test_a_name_that_looks_like_an_address(tmp_path: Path, make_cell: Make) -> None:
    (tmp_path / "javascript:alert(1)").write_text("x")
    log = log_of(make_cell(log="javascript:alert(1)"), None, tmp_path, tmp_path)
    assert log is not None
    assert log.href == "./javascript%3Aalert%281%29"
