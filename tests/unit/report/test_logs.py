from __future__ import annotations

from pathlib import Path

import pytest

from matrix.report._logs import LINES, log_of


def numbered(count: int) -> str:
    return "".join(f"line {i}\n" for i in range(1, count + 1))


def test_the_last_lines_up_to_the_cells_end(tmp_path: Path) -> None:
    (tmp_path / "a b.log").write_text(numbered(1000))
    log = log_of(tmp_path, "a b.log", 500, tmp_path / "reports")
    assert log is not None
    assert log.href == "./../a%20b.log"
    shown = log.text.splitlines()
    assert (len(shown), shown[0], shown[-1]) == (LINES, "line 301", "line 500")


def test_without_a_line_number_the_logs_end(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(numbered(1000) + "no newline")
    log = log_of(tmp_path, "a.log", None, tmp_path)
    assert log is not None
    assert log.text.splitlines()[-2:] == ["line 1000", "no newline"]
    assert len(log.text.splitlines()) == LINES


def test_a_flooded_log_is_read_from_its_end(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"x" * (3 << 20) + b"\nlast\n")
    log = log_of(tmp_path, "a.log", None, tmp_path)
    assert log is not None
    assert log.text.endswith("...\nlast")
    assert len(log.text) < 1100


def test_escapes_secrets_and_broken_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789")
    (tmp_path / "a.log").write_bytes(b"\x1b[31mred\x1b[0m hf_0123456789 \xff\n")
    log = log_of(tmp_path, "a.log", None, tmp_path)
    assert log is not None
    assert log.text == "red *** \ufffd"


@pytest.mark.parametrize("log", ["../secret", "/etc/passwd", "gone.log", "", None, "a\0b", "."])
def test_what_is_no_log_of_this_run(tmp_path: Path, log: str | None) -> None:
    (tmp_path / "secret").write_text("secret")
    run = tmp_path / "run"
    run.mkdir()
    assert log_of(run, log, None, tmp_path) is None
    assert log_of(None, log, None, tmp_path) is None


def test_a_link_that_leads_out_of_the_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "secret").write_text("secret")
    (run / "a.log").symlink_to(tmp_path / "secret")
    assert log_of(run, "a.log", None, tmp_path) is None


def test_a_name_that_looks_like_an_address(tmp_path: Path) -> None:
    (tmp_path / "javascript:alert(1)").write_text("x")
    log = log_of(tmp_path, "javascript:alert(1)", None, tmp_path)
    assert log is not None
    assert log.href == "./javascript%3Aalert%281%29"
