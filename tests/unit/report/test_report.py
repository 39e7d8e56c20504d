from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from matrix.errors import JournalError, UsageError
from matrix.faults import Fault, Severity
from matrix.registry import Expectation
from matrix.report import Known, write_report
from matrix.report._entry import pasted
from matrix.results import Cell, Found, Outcome, Reason, StartLine

Make = Callable[..., Any]
Cells = Callable[[str], list[dict[str, Any]]]
SENTENCES = {"AUX-VALUE": "Each plane is the output of the layer asked for."}


class Elements(HTMLParser):
    """Tags with their attributes, and the text, as a browser would see them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        return [
            attrs
            for name, attrs in self.tags
            if name == tag and all(attrs.get(key) == value for key, value in wanted.items())
        ]


def html_of(*args: Any, **more: Any) -> str:
    return write_report(*args, **more).read_text(encoding="utf-8")


def test_what_the_report_shows(
    tmp_path: Path, write_run: Make, make_cell: Make, shifted: Cell, cells_of: Cells
) -> None:
    skipped = make_cell(
        clause="HOOK-REACH",
        outcome=Outcome.SKIP,
        reason_code=Reason.NOT_APPLICABLE,
        detail="no capture hook here",
    )
    known = make_cell(
        clause="TAP-RANGE",
        outcome=Outcome.XFAIL,
        fault=Fault.TAP_GUESS,
        faults=[Found(Fault.TAP_GUESS, Severity.WRONG)],
        expectation="known.toml#1: guesses (https://example.org/issues/7)",
    )
    after = make_cell(pair="llama-8b", clause="AUX-LONG", log=shifted.log, log_line=301)
    run = write_run("run", shifted, after, skipped, known)
    (run / "logs").mkdir()
    (run / "logs" / "llama-8b.log").write_text("".join(f"<i>line {i}</i>\n" for i in range(1, 401)))
    html = html_of([run], run / "report.html", known=Known(sentences=SENTENCES))
    page = Elements(html)

    for text in (
        "1 of 4 cells unexpected",
        "transformers 0.1.0 on cpu, 2026-01-05 10:00, commit abc1234",
        "plane 1 is layer 2's output, expected layer 3",
        "no capture hook here",
        "not-applicable",
        "version 0.1.0, torch 2.13.0",
        "No baseline was given.",
    ):
        assert text in page.text, text
    assert page.all("button", title=SENTENCES["AUX-VALUE"])
    assert page.all("a", href="https://example.org/issues/7")
    linked = [a["href"] for a in page.all("a") if "o" in (a.get("class") or "").split()]
    cells = {cell["clause"]: cell for cell in cells_of(html)}
    assert linked == [f"#cell={c['id']}" for c in (cells["AUX-VALUE"], cells["AUX-LONG"])] + [
        f"#cell={c['id']}" for c in (cells["HOOK-REACH"], cells["TAP-RANGE"])
    ]


def test_what_a_cell_shows(
    tmp_path: Path, write_run: Make, make_cell: Make, shifted: Cell, cells_of: Cells
) -> None:
    after = make_cell(pair="llama-8b", clause="AUX-LONG", log=shifted.log, log_line=301)
    start = StartLine(
        run_id="r1",
        engine="transformers",
        engine_version="0.1.0",
        pair="llama-8b",
        settings="main",
        seconds=2.34,
        outcome=Outcome.PASS,
        rss_mb=812.4,
    )
    run = write_run("run", start, shifted, after)
    (run / "logs").mkdir()
    (run / "logs" / "llama-8b.log").write_text("".join(f"line {i};\n" for i in range(1, 401)))
    cell, other = cells_of(html_of([run], run / "report.html"))
    log = cell.pop("log")
    assert cell == {
        "id": cell["id"],
        "key": "transformers@0.1.0[main]:float32/llama-8b/AUX-VALUE",
        "engine": "transformers 0.1.0, float32",
        "pair": "llama-8b",
        "clause": "AUX-VALUE",
        "outcome": "fail",
        "verdict": "fail tap-shift-1",
        "target": "Qwen/Qwen3-4B",
        "draft": "z-lab/Qwen3-4B-DFlash-b16",
        "arch": "Qwen3ForCausalLM",
        "settings": "main",
        "dtype": "float32",
        "red": True,
        "severity": "wrong",
        "detail": "1 of 2 planes is wrong",
        "faults": [
            {
                "label": "tap-shift-1",
                "severity": "wrong",
                "phase": "all",
                "evidence": "plane 1 is layer 2's output, expected layer 3",
                "example": "[1, 3]",
            }
        ],
        "expected": '{"layer": 3}',
        "actual": '{"layer": 2}',
        "tolerance": 1e-4,
        "margin": 0.0002,
        "example": '"1"',
        "facts": [["rows", "57"]],
        "planes": [
            {"asked": 3, "matched": 2, "to_asked": 0.5, "to_matched": 2e-7, "levels": "on,lo"}
        ],
        "start": [2.3, 812],
        "repro": "dflash-matrix run llama-8b --engine transformers --clause AUX-VALUE",
    }
    assert log["href"] == "./logs/llama-8b.log"
    assert log["text"].splitlines()[0] == "line 101;"
    assert log["text"].splitlines()[-1] == "line 300;"
    assert other["log"]["text"].splitlines()[-1] == "line 400;"


def test_it_is_one_file_that_loads_nothing_and_runs_only_its_own_script(
    tmp_path: Path, write_run: Make, shifted: Cell
) -> None:
    html = html_of([write_run("run", shifted)], tmp_path / "report.html")
    page = Elements(html)
    assert [script.get("type") for script in page.all("script")] == [
        "application/octet-stream",
        None,
    ]
    assert len(page.all("style")) == 1
    fetching = {"src", "srcset", "action", "formaction", "background", "poster", "data"}
    for tag, attrs in page.tags:
        assert tag not in ("link", "iframe", "object", "embed", "img", "base"), tag
        assert not fetching & attrs.keys()
        assert not any(name.startswith("on") or name == "style" for name in attrs), attrs
    (meta,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    policy = meta["content"] or ""
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    for tag in ("script", "style"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


HOSTILE = (
    "</pre></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'\x1b[31m\x00{{7*7}}"
)


def test_nothing_in_a_journal_becomes_markup(
    tmp_path: Path, write_run: Make, make_cell: Make, cells_of: Cells
) -> None:
    harmless = make_cell(
        outcome=Outcome.FAIL,
        fault=Fault.UNKNOWN,
        faults=[Found(Fault.UNKNOWN, Severity.WRONG, example=["x"], evidence="x")],
        detail="x",
        expected="x",
        actual="x",
        metrics={"planes": [{"asked": "x", "matched": "x", "distances": [1.0]}], "x": "x"},
        expectation="x",
        standins=["x"],
        log="x",
    )
    every = dict.fromkeys(
        ("engine", "engine_version", "settings", "dtype", "pair", "target", "draft"), HOSTILE
    ) | dict.fromkeys(("arch", "clause", "detail", "repro", "expected", "actual"), HOSTILE)
    hostile = make_cell(
        **every,
        outcome=Outcome.FAIL,
        fault=Fault.UNKNOWN,
        faults=[Found(Fault.UNKNOWN, Severity.WRONG, example=[HOSTILE], evidence=HOSTILE)],
        metrics={
            "planes": [{"asked": HOSTILE, "matched": HOSTILE, "distances": [1.0]}],
            HOSTILE: HOSTILE,
        },
        expectation=f"{HOSTILE} javascript:alert(1)",
        standins=[HOSTILE],
        log=HOSTILE,
    )
    header = {
        "device": HOSTILE,
        "commit": HOSTILE,
        "engines": {HOSTILE: {HOSTILE: HOSTILE}},
        "settings": {HOSTILE: {HOSTILE: HOSTILE}},
        "inject": {"path": HOSTILE, "sha256": HOSTILE},
    }
    sentences = {HOSTILE: HOSTILE}
    clean = {"device": "x", "engines": {"x": {}}, "settings": {"x": {}}, "inject": {"path": "x"}}
    bad = html_of(
        [write_run("bad", hostile, **header)],
        tmp_path / "bad.html",
        known=Known(sentences=sentences),
    )
    good = html_of(
        [write_run("good", harmless, **clean)],
        tmp_path / "good.html",
        known=Known(sentences={"AUX-VALUE": "x"}),
    )
    assert [tag for tag, _ in Elements(bad).tags] == [tag for tag, _ in Elements(good).tags]
    assert not {"\x1b", "\x00"} & set(bad)
    assert "{{7*7}}" in Elements(bad).text
    assert not [a for a in Elements(bad).all("a") if "javascript" in (a["href"] or "")]
    (cell,) = cells_of(bad)
    assert not re.search(r"(?<!\\)\\u00(1b|00)", json.dumps(cell)), "escaped as text, or gone"
    assert not cell.get("repro"), "no line that a shell would take for more than one command"


@pytest.mark.parametrize(
    ("repro", "kept"),
    [
        ("dflash-matrix run a --example '{\"ids\":[1,2]}' --seed 0", True),
        ('dflash-matrix run a --example \'{"x":"it\'"\'"\'s  two"}\'', True),
        ("dflash-matrix run a; rm -rf x", False),
        ("dflash-matrix run $(id)", False),
        ("dflash-matrix run 'a' `id`", False),
        ("dflash-matrix run a\nid", False),
        ("dflash-matrix run 'a", False),
        ("curl example.org", False),
    ],
)
def test_only_a_line_that_is_one_command_can_be_copied(repro: str, kept: bool) -> None:
    assert bool(pasted(repro)) is kept
    if kept:
        assert shlex.join(shlex.split(repro)) == repro


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("a (https://example.org/1)", "https://example.org/1"),
        ("http://example.org", "http://example.org"),
        ("javascript:alert(1)//http", None),
        ("data:text/html,x", None),
        ("https://", None),
        ("https://[broken", None),
    ],
)
def test_only_web_links_are_followed(
    tmp_path: Path, write_run: Make, make_cell: Make, cells_of: Cells, text: str, link: str | None
) -> None:
    cell = make_cell(outcome=Outcome.XFAIL, expectation=text)
    html = html_of([write_run("run", cell)], tmp_path)
    links = [a["href"] for a in Elements(html).all("a") if not (a["href"] or "").startswith("#")]
    assert links == ([link] if link else [])
    assert cells_of(html)[0]["known"] == [{"text": text, "link": link}]


def test_expectations_that_nothing_needed(tmp_path: Path, write_run: Make, make_cell: Make) -> None:
    lonely = Expectation(
        engine="transformers",
        version="",
        clause="AUX-*",
        pair="*",
        fault=Fault.TAP_ORDER,
        reason="<b>sorted</b>",
        link="https://example.org/2",
        file="known.toml",
        position=4,
    )
    page = Elements(
        html_of(
            [write_run("run", make_cell())], tmp_path / "r.html", known=Known(expectations=[lonely])
        )
    )
    assert page.all("a", href="https://example.org/2")
    assert "known.toml#4: <b>sorted</b>" in page.text


def test_it_builds_from_a_journal_that_was_cut(
    tmp_path: Path, write_run: Make, make_cell: Make, shifted: Cell
) -> None:
    run = write_run("run", make_cell(), shifted)
    journal = run / "journal.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole[: whole.rindex(b'"llama-8b"')])
    page = Elements(html_of([run], tmp_path / "report.html"))
    assert "1 cells, all as expected" in page.text
    assert "journal.jsonl:3: half-written last line dropped" in page.text
    journal.write_bytes(whole[: whole.index(b"\n") + 1])
    assert "no cells" in Elements(html_of([run], tmp_path / "report.html")).text


def test_a_huge_line_is_cut(
    tmp_path: Path, write_run: Make, make_cell: Make, cells_of: Cells
) -> None:
    html = html_of([write_run("run", make_cell(detail="x" * 10_000_000))], tmp_path / "a.html")
    assert len(html) < 150_000
    (cell,) = cells_of(html)
    assert cell["detail"].endswith("... (9980000 more characters)")


def test_the_same_journals_make_the_same_file(
    tmp_path: Path, write_run: Make, make_cell: Make, shifted: Cell
) -> None:
    run = write_run("run", make_cell(), shifted)
    assert html_of([run], tmp_path / "a.html") == html_of([run], tmp_path / "b.html")


def test_flags_say_what_is_red(tmp_path: Path, write_run: Make, make_cell: Make) -> None:
    run = write_run(
        "run", make_cell(outcome=Outcome.WARN), make_cell(pair="b", outcome=Outcome.XPASS)
    )
    assert "1 of 2 cells unexpected" in html_of([run], tmp_path / "r.html")
    assert "2 of 2 cells unexpected" in html_of(
        [run], tmp_path / "r.html", known=Known(strict=True)
    )
    assert "all as expected" in html_of([run], tmp_path / "r.html", known=Known(xpass_warn=True))


def test_what_is_refused(tmp_path: Path, write_run: Make, make_cell: Make) -> None:
    with pytest.raises(UsageError, match="no file given"):
        write_report([], tmp_path)
    with pytest.raises(JournalError, match="can't be read"):
        write_report([tmp_path / "none"], tmp_path)
    run = write_run("run", make_cell())
    with pytest.raises(JournalError, match="can't be read"):
        write_report([run], tmp_path, tmp_path / "no-baseline")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        write_report([run], tmp_path / "file" / "report.html")
