from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from matrix.errors import JournalError, UsageError
from matrix.faults import Fault, Severity
from matrix.registry import Expectation
from matrix.report import write_report
from matrix.results import Cell, Found, Outcome, Reason

Make = Callable[..., Any]
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
    tmp_path: Path, write_run: Make, make_cell: Make, shifted: Cell
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
        expectation="known.toml#1: guesses (https://example.org/issues/7)",
    )
    after = make_cell(pair="llama-8b", clause="AUX-LONG", log=shifted.log, log_line=301)
    run = write_run("run", shifted, after, skipped, known)
    (run / "logs").mkdir()
    (run / "logs" / "llama-8b.log").write_text("".join(f"<i>line {i}</i>\n" for i in range(1, 401)))
    html = html_of([run], run / "report.html", sentences=SENTENCES)
    page = Elements(html)

    for text in (
        "1 of 4 cells unexpected",
        "2026-01-05T10:00:00Z, transformers 0.1.0, cpu, commit abc1234",
        "Each plane is the output of the layer asked for.",
        "tap-shift-1",
        "plane 1 is layer 2's output, expected layer 3",
        '{"layer": 3}',
        "0.0002",
        '"1"',
        "dflash-matrix run llama-8b --engine transformers --clause AUX-VALUE",
        "<i>line 300</i>",
        "no capture hook here",
        "skip not-applicable",
        "version 0.1.0, torch 2.13.0",
        "No baseline was given.",
    ):
        assert text in page.text, text
    assert page.text.count("line 300<") == 1, "each cell has its own part of the log"
    assert page.text.count("line 400<") == 1
    assert "line 100<" not in page.text
    assert page.all("a", href="https://example.org/issues/7")
    assert page.all("a", href="./logs/llama-8b.log")
    assert len(page.all("rect", **{"class": "asked"})) == 1
    assert len(page.all("rect", **{"class": "matched"})) == 1
    assert len(page.all("rect")) == 5
    linked = {a["href"] for a in page.all("a") if (a["href"] or "").startswith("#cell=")}
    ids = {f"#{attrs['id']}" for attrs in page.all("details") if attrs.get("id")}
    assert linked == ids
    assert len(ids) == 4


def test_it_is_one_file_that_loads_nothing_and_runs_only_its_own_script(
    tmp_path: Path, write_run: Make, shifted: Cell
) -> None:
    html = html_of([write_run("run", shifted)], tmp_path / "report.html")
    page = Elements(html)
    assert len(page.all("script")) == len(page.all("style")) == 1
    fetching = {"src", "srcset", "action", "formaction", "background", "poster", "data"}
    for tag, attrs in page.tags:
        assert tag not in ("link", "iframe", "object", "embed", "img", "base"), tag
        assert not fetching & attrs.keys()
        assert not any(name.startswith("on") or name == "style" for name in attrs), attrs
    (meta,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    policy = meta["content"] or ""
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


HOSTILE = (
    "</pre></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'\x1b[31m\x00{{7*7}}"
)


def test_nothing_in_a_journal_becomes_markup(
    tmp_path: Path, write_run: Make, make_cell: Make
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
    bad = html_of([write_run("bad", hostile, **header)], tmp_path / "bad.html", sentences=sentences)
    good = html_of(
        [write_run("good", harmless, **clean)], tmp_path / "good.html", sentences={"AUX-VALUE": "x"}
    )
    assert [tag for tag, _ in Elements(bad).tags] == [tag for tag, _ in Elements(good).tags]
    assert not {"\x1b", "\x00"} & set(bad)
    assert "{{7*7}}" in Elements(bad).text
    assert not [a for a in Elements(bad).all("a") if "javascript" in (a["href"] or "")]


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
    tmp_path: Path, write_run: Make, make_cell: Make, text: str, link: str | None
) -> None:
    cell = make_cell(outcome=Outcome.XFAIL, expectation=text)
    page = Elements(html_of([write_run("run", cell)], tmp_path))
    links = [a["href"] for a in page.all("a") if not (a["href"] or "").startswith("#cell=")]
    assert links == ([link] if link else [])


def test_what_changed_since_the_baseline(
    tmp_path: Path, write_run: Make, make_cell: Make, shifted: Cell
) -> None:
    held = make_cell(pair="llama-8b")
    old = write_run("old", make_cell(), held, make_cell(pair="lost"), make_cell(engine="vllm"))
    new = write_run("new", make_cell(), shifted, device="H200")
    page = Elements(html_of([new], tmp_path / "r.html", old))
    assert [d["class"] for d in page.all("details") if "open" in d] == ["broken", "gone"]
    assert "device: cpu before, H200 now" in page.text
    assert "pass (0.1.0) \N{RIGHTWARDS ARROW} fail tap-shift-1 (0.1.0)" in page.text
    assert "/lost/AUX-VALUE" in page.text
    assert "vllm" not in page.text, "an engine that was not asked for is not lost"
    assert "nothing unstable, fixed, new" in page.text
    same = Elements(html_of([new], tmp_path / "same.html", new))
    assert "nothing broken, gone, unstable, fixed, new" in same.text


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
        html_of([write_run("run", make_cell())], tmp_path / "r.html", expectations=[lonely])
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


def test_a_huge_line_is_cut_and_building_is_deterministic(
    tmp_path: Path, write_run: Make, make_cell: Make
) -> None:
    run = write_run("run", make_cell(detail="x" * 10_000_000, actual=["y" * 10_000_000]))
    first = html_of([run], tmp_path / "a.html")
    assert len(first) < 150_000
    assert "9980000 more characters" in first
    assert html_of([run], tmp_path / "b.html") == first


def test_a_later_journal_wins(tmp_path: Path, write_run: Make, make_cell: Make) -> None:
    runs = [
        write_run("first", make_cell(outcome=Outcome.ERROR)),
        write_run("second", make_cell(run_id="r2"), run_id="r2"),
    ]
    page = Elements(html_of(runs, tmp_path / "r.html"))
    assert "1 cells, all as expected" in page.text
    assert len(page.all("details", id=None)) == len(page.all("details")) - 1 == 0


def test_flags_say_what_is_red(tmp_path: Path, write_run: Make, make_cell: Make) -> None:
    run = write_run(
        "run", make_cell(outcome=Outcome.WARN), make_cell(pair="b", outcome=Outcome.XPASS)
    )
    assert "1 of 2 cells unexpected" in html_of([run], tmp_path / "r.html")
    assert "2 of 2 cells unexpected" in html_of([run], tmp_path / "r.html", strict=True)
    assert "all as expected" in html_of([run], tmp_path / "r.html", xpass_warn=True)


def test_what_is_refused(tmp_path: Path, write_run: Make, make_cell: Make) -> None:
    with pytest.raises(UsageError, match="no journal given"):
        write_report([], tmp_path)
    with pytest.raises(JournalError, match="can't be read"):
        write_report([tmp_path / "none"], tmp_path)
    run = write_run("run", make_cell())
    with pytest.raises(JournalError, match="can't be read"):
        write_report([run], tmp_path, tmp_path / "no-baseline")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        write_report([run], tmp_path / "file" / "report.html")
