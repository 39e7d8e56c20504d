"""Markdown for a job's summary, JUnit, SARIF and annotations: what they say, and what they escape."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest
from test_inputs import SCAN

from matrix.faults import Fault, Severity
from matrix.report import Known, Report, make_report
from matrix.results import Cell, Found, Outcome, Reason

Make = Callable[..., Any]
HOSTILE = "</x> | `a` **b** <script>alert(1)</script> [x](javascript:1)\n::error::owned\n\x1b[31m\x00\ufffe"


@pytest.fixture
def report(tmp_path: Path, write_run: Make, make_cell: Make, shifted: Cell) -> Report:
    """A red cell, a crash, a known failure, a skip and a pass, beside a scan."""
    crash = make_cell(pair="b", outcome=Outcome.CRASH, detail="killed by SIGSEGV", seconds=1.5)
    known = make_cell(
        pair="c", outcome=Outcome.XFAIL, fault=Fault.TAP_LATE, expectation="known (https://a.b/1)"
    )
    skipped = make_cell(
        pair="d", outcome=Outcome.SKIP, reason_code=Reason.NEEDS_GPU, detail="no kernel"
    )
    old = write_run("old", make_cell(pair="llama-8b"), make_cell(pair="b"), make_cell(pair="d"))
    new = write_run("new", shifted, crash, known, skipped, make_cell())
    (new / "logs").mkdir()
    (new / "logs" / "llama-8b.log").write_text("a line\n")
    scan = tmp_path / "scan.json"
    scan.write_text(json.dumps(SCAN))
    sentences = {"AUX-VALUE": "Each plane is the output of the layer asked for."}
    return make_report([new, scan], new, old, Known(sentences=sentences))


@pytest.fixture
def hostile(tmp_path: Path, write_run: Make, make_cell: Make) -> Report:
    """One red cell, every text of which tries to be something else."""
    fields = ("engine", "engine_version", "settings", "pair", "clause", "detail", "repro", "log")
    cell = make_cell(
        **dict.fromkeys(fields, HOSTILE),
        outcome=Outcome.FAIL,
        fault=Fault.UNKNOWN,
        faults=[Found(Fault.UNKNOWN, Severity.WRONG, evidence=HOSTILE, example=[HOSTILE])],
        expected=HOSTILE,
        actual=HOSTILE,
        expectation=f"{HOSTILE} https://example.org/<x>",
    )
    run = write_run("run", cell, device=HOSTILE, inject={"path": HOSTILE, "sha256": "x"})
    return make_report([run], run, write_run("old", make_cell()))


def test_markdown_says_what_broke_why_and_how_to_reproduce_it(report: Report) -> None:
    lines = report.markdown().splitlines()
    assert lines[0] == "## dflash-matrix: 2 of 5 cells unexpected"
    assert "2 broken, 1 gone, 0 unstable, 0 fixed, 2 new" in lines
    at = next(i for i, line in enumerate(lines) if line.endswith(r"pass → fail tap-shift-1"))
    assert lines[at].startswith("**broken** transformers 0.1.0, float32: 1 cell")
    assert lines[at + 1 : at + 3] == [
        "- llama-8b / AUX-VALUE",
        "- plane 1 is layer 2's output, expected layer 3",
    ]
    command = "dflash-matrix run llama-8b --engine transformers --clause AUX-VALUE"
    assert lines[at + 4 : at + 7] == ["```sh", command, "```"]
    assert "| transformers 0.1.0 | needs-gpu | no kernel | 1 |" in lines
    assert any(
        line.startswith(r"| dies | SRC-HOOK-MISSING | vllm/models/x.py\:12") for line in lines
    )


def test_markdown_of_a_healthy_run_is_short(
    tmp_path: Path, write_run: Make, make_cell: Make
) -> None:
    run = write_run("run", make_cell())
    assert make_report([run], run).markdown() == (
        "## dflash-matrix: all as expected\n\n"
        "- transformers 0.1.0 on cpu, 2026-01-05 10\\:00, commit abc1234\n"
        "- 1 pass\n"
    )


def test_markdown_has_an_end(tmp_path: Path, write_run: Make, make_cell: Make) -> None:
    cells = [
        make_cell(pair=f"p{i}", outcome=Outcome.SKIP, reason_code=Reason.NEEDS_GPU, detail="x" * i)
        for i in range(300)
    ]
    run = write_run("run", *cells)
    text = make_report([run], run).markdown()
    assert "and 260 more in the report" in text
    assert len(text.encode()) < 1_000_000


def test_nothing_hostile_is_markdown(hostile: Report) -> None:
    text = hostile.markdown()
    assert "\x1b" not in text
    assert "<script" not in text
    assert "`a`" not in text
    assert "**b**" not in text
    assert "](javascript" not in text
    assert not any(line.startswith("::") for line in text.splitlines())
    rows = [line for line in text.splitlines() if line.startswith("| unknown")]
    assert [line.replace("\\|", "").count("|") for line in rows] == [7], (
        "six columns, whatever is in them"
    )


def test_junit_has_a_case_for_each_cell(report: Report) -> None:
    root = ET.fromstring(report.junit())
    (suite,) = root
    assert suite.attrib == {
        "name": "transformers 0.1.0, float32",
        "tests": "5",
        "failures": "1",
        "errors": "1",
        "skipped": "2",
        "time": "1.50",
    }
    cases = {case.get("classname"): case for case in suite}
    failure = cases["llama-8b"].find("failure")
    assert failure is not None
    assert failure.get("type") == "tap-shift-1"
    assert "reproduce: dflash-matrix run llama-8b" in (failure.text or "")
    error = cases["b"].find("error")
    assert error is not None
    assert error.get("message") == "crash: killed by SIGSEGV"
    assert {name for name, case in cases.items() if case.find("skipped") is not None} == {"c", "d"}
    assert len(cases["qwen3-4b"]) == 0


def test_nothing_hostile_breaks_junit(hostile: Report) -> None:
    root = ET.fromstring(hostile.junit())
    assert [child.tag for child in root.iter()] == [
        "testsuites",
        "testsuite",
        "testcase",
        "failure",
    ]
    assert "<script>alert(1)</script>" in (root[0][0][0].text or "")


def test_sarif_places_findings_in_sources_and_cells_in_their_logs(report: Report) -> None:
    log = json.loads(report.sarif())
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
    found = {
        (result["ruleId"], place["artifactLocation"]["uri"], place["region"]["startLine"])
        for result in run["results"]
        for place in [result["locations"][0]["physicalLocation"]]
    }
    (first, second, third) = sorted(found)
    assert [place[0] for place in (first, second)] == ["AUX-VALUE"] * 2
    assert {unquote(first[1]).rpartition("/")[2], unquote(second[1]).rpartition("/")[2]} == {
        "llama-8b.log",
        "journal.jsonl",
    }
    assert third == ("SRC-HOOK-MISSING", "vllm/models/x.py", 12)
    assert {result["level"] for result in run["results"]} == {"error"}
    cell = next(r for r in run["results"] if r["ruleId"] == "AUX-VALUE")
    assert cell["locations"][0]["logicalLocations"][0]["fullyQualifiedName"].endswith("AUX-VALUE")


def test_nothing_hostile_breaks_sarif(hostile: Report) -> None:
    (result,) = json.loads(hostile.sarif())["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert "<" not in place
    assert "\n" not in place


def test_annotations_are_one_for_each_fault_and_one_for_each_place(report: Report) -> None:
    lines = report.annotations().splitlines()
    assert [line.partition("::")[2].partition(" ")[0] for line in lines] == ["error"] * 3
    assert "title=tap-shift-1 (1 cell)::" in "".join(lines)
    assert lines[-1].startswith("::error file=vllm/models/x.py,line=12,title=SRC-HOOK-MISSING")
    assert "Reproduce: dflash-matrix run llama-8b" in "".join(lines)


def test_nothing_hostile_is_a_workflow_command_of_its_own(hostile: Report) -> None:
    (line,) = hostile.annotations().split("\n")
    assert line.startswith("::error title=unknown (1 cell)::")
    assert "\x1b" not in line
