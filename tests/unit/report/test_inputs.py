"""The other commands' JSON: told apart, shown, or refused with one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from matrix.errors import JournalError, UsageError
from matrix.preflight import examine, judge, open_draft, open_target
from matrix.report import make_report
from matrix.report._page import Page

Make = Callable[..., Any]
ROOT = Path(__file__).parents[3]

FINDING = {
    "rule": "SRC-HOOK-MISSING",
    "fault": "hook-missing",
    "severity": "dies",
    "file": "vllm/models/x.py",
    "line": 12,
    "message": "<b>no hook</b>",
    "fix": "class X(SupportsEagle3)",
}
SCAN: dict[str, Any] = {
    "engine": "vllm",
    "version": "0.23.0",
    "source": "a wheel",
    "architectures": [
        {
            "arch": name,
            "module": "x",
            "class": name,
            "body": None,
            "hook": {"dflash": "missing"},
            "inherited_from": None,
            "captures": {"before": True, "after": None, "final": None},
            "findings": [FINDING],
        }
        for name in ("AForCausalLM", "BForCausalLM")
    ],
    "errors": [{"file": "broken.py", "message": "a syntax error"}],
}
DIFF: dict[str, Any] = {
    "engine": "vllm",
    "old": "0.23.0",
    "new": "0.24.0",
    "gained": [{"arch": "AForCausalLM", "what": "hook dflash"}],
    "lost": [],
    "new_findings": [{"arch": "BForCausalLM", "finding": FINDING}],
    "fixed_findings": [],
}
SCORE: dict[str, Any] = {
    "engine": "vllm",
    "engine_version": "0.32.0",
    "planted": ["low", "high"],
    "harmless": ["copies"],
    "caught": ["low", "high"],
    "named": ["low"],
    "missed": [],
    "misnamed": [{"fault": "high", "clause": "AUX-VALUE", "expected": "a", "actual": "b"}],
    "false_alarms": [],
    "never_red": ["OUTPUT-K"],
}


def page_of(tmp_path: Path, value: Any, name: str = "result.json") -> Page:
    file = tmp_path / name
    file.write_text(json.dumps(value, indent=1))
    return make_report([file], tmp_path).page


def test_a_scan_is_a_section(tmp_path: Path) -> None:
    (scan,) = page_of(tmp_path, SCAN).scans
    assert scan.title == "vllm 0.23.0 (result.json)"
    assert scan.lines == ("2 architectures", "dflash: 0 offered, 2 missing, 0 unknown")
    (finding,) = scan.findings
    assert finding.place == "vllm/models/x.py:12"
    assert finding.archs == ("AForCausalLM", "BForCausalLM")
    assert scan.worst == 1
    assert scan.problems == ("broken.py: a syntax error",)


def test_a_diff_of_scans_shows_what_was_gained_and_what_broke(tmp_path: Path) -> None:
    (scan,) = page_of(tmp_path, DIFF).scans
    assert scan.lines == ("gained hook dflash: AForCausalLM",)
    assert [finding.archs for finding in scan.findings] == [("BForCausalLM",)]


def test_a_preflight_is_a_section_with_what_failed_first(tmp_path: Path) -> None:
    folder = ROOT / "fixtures" / "configs" / "bad" / "wrong-pair"
    target = open_target(str(folder / "target.json"))
    draft = open_draft(str(folder / "draft.json"))
    found = judge(examine(target, draft, (), None, None))
    (section,) = page_of(tmp_path, found.as_json()).preflights
    assert section.outcome == "fail"
    outcomes = [clause.outcome for clause in section.clauses]
    assert outcomes == sorted(outcomes, key=["fail", "warn", "skip", "pass"].index)
    assert len(outcomes) == 20
    first = section.clauses[0]
    assert (first.clause, first.fault) == ("CFG-IDS", "config-invalid")
    assert first.actual == "[1, 9, 17, 25, 33]"
    assert section.ids.startswith("layers 1, 9, 17, 25, 33 (from dflash_config.target_layer_ids")
    first_release = found.as_json()["engines"]["vllm"]["first"]
    assert dict(section.engines)["vllm"] == f"since {first_release}"


def test_a_score_says_what_was_misnamed(tmp_path: Path) -> None:
    (score,) = page_of(tmp_path, SCORE).scores
    assert score.title == "vllm 0.32.0"
    assert not score.good
    assert dict(score.facts)["named"] == "1 of 2"
    assert [(word, stray.fault, stray.actual) for word, stray in score.strays] == [
        ("misnamed", "high", "b")
    ]
    assert score.never_red == ("OUTPUT-K",)


def test_markup_in_them_stays_text(tmp_path: Path) -> None:
    file = tmp_path / "scan.json"
    file.write_text(json.dumps(SCAN))
    html = make_report([file], tmp_path).html()
    assert "&lt;b&gt;no hook&lt;/b&gt;" in html
    assert "<b>no hook" not in html


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"engines": []}, r"neither a journal nor what scan, .* \(its keys: engines\)"),
        ({**SCAN, "architectures": 3}, r"not the JSON of `scan`: Expected `array`, got `int`"),
        ({**DIFF, "lost": [{"arch": 1}]}, r"not the JSON of `scan --diff`"),
        ({**SCORE, "planted": None}, r"not the JSON of `selfcheck`"),
        ({"clauses": [], "draft": "x"}, r"not the JSON of `preflight`: .*`target`"),
        (
            {**DIFF, "new_findings": [{"arch": "A", "finding": {**FINDING, "severity": "mild"}}]},
            r"not the JSON of `scan --diff`: 'mild' is not a valid Severity",
        ),
    ],
)
def test_other_json_is_refused_with_one_line(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        page_of(tmp_path, value)
    assert str(caught.value).count("\n") == 0
    assert "result.json" in str(caught.value)


@pytest.mark.parametrize("text", ["", "hello", "[1, 2]", "[" * 100_000, "\x00\xff", "{}\n{}"])
def test_what_is_neither_is_no_journal(tmp_path: Path, text: str) -> None:
    file = tmp_path / "notes.txt"
    file.write_text(text)
    with pytest.raises(JournalError, match=r"not a journal: it holds no `run` header"):
        make_report([file], tmp_path)


def test_a_journal_may_have_any_name(tmp_path: Path, write_run: Make, make_cell: Make) -> None:
    run = write_run("run", make_cell())
    (run / "journal.jsonl").rename(run / "last-night.json")
    assert make_report([run / "last-night.json"], tmp_path).page.total == 1


def test_a_higher_schema_is_refused(tmp_path: Path, write_run: Make, make_cell: Make) -> None:
    run = write_run("run", make_cell(), schema=9)
    with pytest.raises(JournalError, match=r"schema 9 is newer than 1, the newest known here"):
        make_report([run], tmp_path)


def test_fields_and_kinds_of_tomorrow_are_left_alone(
    tmp_path: Path, write_run: Make, make_cell: Make
) -> None:
    run = write_run("run", make_cell())
    file = run / "journal.jsonl"
    lines = [json.loads(line) | {"tomorrow": {"x": [1]}} for line in file.read_text().splitlines()]
    lines.append({"kind": "weather", "rain": True})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = make_report([run], tmp_path).page
    assert (page.total, page.problems) == (1, ())
