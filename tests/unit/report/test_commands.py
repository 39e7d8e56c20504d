"""`report`, `diff` and `baseline` as commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from test_inputs import SCAN

from matrix.cli import main
from matrix.contract import CLAUSES
from matrix.results import Cell, Outcome

Make = Callable[..., Any]
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_report_writes_every_form_that_is_asked_for(
    write_run: Make, make_cell: Make, shifted: Cell, capsys: Capture
) -> None:
    old, new = write_run("old", make_cell(pair="llama-8b")), write_run("new", shifted)
    Path("scan.json").write_text(json.dumps(SCAN))
    forms = ["--markdown", "ci/s.md", "--junit", "ci/j.xml", "--sarif", "ci/s.sarif", "--annotate"]
    assert main(["report", str(new), "scan.json", "--baseline", str(old), *forms]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:4] == ["report.html", "ci/s.md", "ci/j.xml", "ci/s.sarif"]
    assert [line.partition(" ")[0] for line in said[4:]] == ["::error", "::error"]
    assert Path("report.html").read_text().startswith("<!doctype html>")
    assert "1 broken" in Path("ci/s.md").read_text()
    assert ET.parse("ci/j.xml").getroot()[0].get("failures") == "1"
    results = json.loads(Path("ci/s.sarif").read_text())["runs"][0]["results"]
    assert [result["ruleId"] for result in results] == ["SRC-HOOK-MISSING", "AUX-VALUE"]


def test_report_knows_the_registrys_sentences_expectations_and_gaps(
    write_run: Make, make_cell: Make
) -> None:
    run = write_run("run", make_cell(clause="TAP-RANGE", pair="qwen3-8b-dflash-b16"))
    assert main(["report", str(run), "--out", "r.html"]) == 0
    text = Path("r.html").read_text()
    assert "matrix/registry/expectations.toml#1" in text, "the cell passes, so no row was needed"
    assert "no journal of this engine was given" in text
    assert f'title="{CLAUSES["TAP-RANGE"].sentence}"' in text


def test_a_run_that_failed_never_becomes_the_baseline(
    write_run: Make, make_cell: Make, shifted: Cell, capsys: Capture
) -> None:
    run = write_run("run", make_cell(), shifted)
    assert main(["baseline", "update", str(run)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "1 cells are not as expected, first transformers@0.1.0[main]:float32/llama-8b" in said
    assert not Path("reports").exists()


def test_flags_say_what_a_baseline_may_hold(
    write_run: Make, make_cell: Make, capsys: Capture
) -> None:
    warned = write_run("warned", make_cell(outcome=Outcome.WARN))
    assert main(["baseline", "update", str(warned), "--strict", "--into", "base"]) == 2
    assert main(["baseline", "update", str(warned), "--into", "base"]) == 0
    assert capsys.readouterr().out == "base/transformers-0.1.0.jsonl\n"
    assert main(["baseline", "update", str(warned), "--into", "base/transformers-0.1.0.jsonl"]) == 2
    assert "name the folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["none.jsonl"], "none.jsonl: the journal can't be read (No such file or directory)"),
        (["run", "--baseline", "none"], "the journal can't be read"),
        (["run", "--out", "file/report.html"], "file/report.html: the report can't be written"),
        (["run", "--junit", "file/j.xml"], "file/j.xml: the report can't be written"),
        (["notes.json"], "notes.json: neither a journal nor what scan, preflight or selfcheck"),
    ],
)
def test_bad_input_is_one_line(
    write_run: Make, make_cell: Make, capsys: Capture, args: list[str], message: str
) -> None:
    write_run("run", make_cell())
    Path("file").touch()
    Path("notes.json").write_text('{"a": 1}')
    assert main(["report", *args]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
