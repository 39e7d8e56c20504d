"""What engines, models and users said is shown, and never obeyed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from scene import BASE, scene

from matrix.faults import Fault, Severity
from matrix.report import Known, write_report
from matrix.results import Found, Journal, Outcome, read

OWN = "document.title='owned'"
ATTACKS = {
    "script": f"</script><script>{OWN}</script>",
    "image": f'<img src=x onerror="{OWN}">',
    "svg": f"<svg onload={OWN}>",
    "quotes": f'"\' onmouseover="{OWN}" x="',
    "template": "{{7*7}} {% raw %} ${7*7}",
    "link": "javascript:document.title='owned' https://example.org/\"onclick=\"x",
    "ansi": "\x1b[31mred\x1b]0;owned\x07\x00 \u202eback",
    "command": "\n::error::owned\n##[error]owned",
    "close": "</textarea></title></style></pre></table></select><b id=owned>",
    "long": "x" * 1_000_000,
}


def hostile(folder: Path, text: str) -> Path:
    """A run with a red cell, every text of which is `text`."""
    record = read(BASE)
    cell = next(cell for cell in record.cells if cell.metrics.get("planes"))
    for name in (
        "engine",
        "pair",
        "clause",
        "detail",
        "target",
        "draft",
        "arch",
        "repro",
        "settings",
    ):
        setattr(cell, name, text)
    cell.outcome, cell.fault = Outcome.FAIL, Fault.UNKNOWN
    cell.faults = [Found(Fault.UNKNOWN, Severity.WRONG, evidence=text, example={text: [text]})]
    cell.expected, cell.actual, cell.example, cell.expectation = text, {text: text}, [text], text
    cell.metrics = {**cell.metrics, text: text, "verdict": text, "book": {text: [1, 2]}}
    cell.metrics |= {"profile": {text: [1]}, "steps": {text: 1}, "counts": {text: {text: 1}}}
    header = record.headers[0]
    header.device, header.inject = text, {"path": text, "sha256": text}
    header.engines = {text: {text: text}}
    with Journal(folder / "hostile") as journal:
        journal.write(header)
        journal.write(cell)
        journal.write(cell)
    return folder / "hostile"


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_executes(opening: Callable[..., Any], tmp_path: Path, name: str) -> None:
    text = ATTACKS[name]
    sentences = {text: text}
    journal = hostile(tmp_path, text)
    out = write_report([journal], tmp_path / "r.html", BASE, Known(sentences=sentences))
    assert out.stat().st_size < 2_000_000
    with opening(out) as page:
        page.hover(".grid tbody a")
        page.click(".grid tbody a")
        expect(page.locator("#cell-title")).to_be_visible()
        for link in page.locator("a[href]").all():
            assert (link.get_attribute("href") or "").startswith(("#", "./", "https://"))
        shown = page.inner_text("#cell")
        assert not {"\x1b", "\x00", "\u202e"} & set(shown)
        assert page.locator("#cell img, #cell b#owned, script:not([id])").count() == 1, "our own"
        assert page.locator("#cell button.copy").count() == 0, "no line to paste into a shell"
        assert page.title() == "1 unexpected - dflash-matrix"


@pytest.mark.parametrize(
    "hash",
    [
        "#cell=<img src=x onerror=alert(1)>&text=%3Cnothing%3E",
        "#engine=%22%5D&sort=constructor&show=__proto__&theme=<b>",
        "#cell=__proto__&outcome=constructor",
        "#%E0%A4%A&&&==",
    ],
)
def test_an_address_that_means_nothing_does_nothing(
    opening: Callable[..., Any], report: Path, hash: str
) -> None:
    with opening(report, hash) as page:
        assert page.locator("#cell").is_hidden()
        assert page.title() == "12 broken, 13 unexpected - dflash-matrix"
        page.click("#reset", force=True)
        expect(page.locator("#shown")).to_have_text("697 cells")


def test_a_journal_that_was_cut_is_shown_and_said_to_be(
    opening: Callable[..., Any], tmp_path: Path
) -> None:
    week = scene(tmp_path)
    journal = week.files[0] / "journal.jsonl"
    whole = journal.read_bytes()
    future = json.dumps({"kind": "weather", "schema": 7}).encode() + b"\n"
    journal.write_bytes(whole[:-200_000] + b"\nnot json\n" + future + b'{"kind": "cell", "pai')
    with opening(write_report([week.files[0]], tmp_path / "r.html")) as page:
        notes = page.inner_text("section.note")
        assert "half-written last line dropped" in notes
        assert notes.count("line skipped") == 2
        assert page.locator(".grid tbody a").count() > 100


def test_a_report_without_cells_is_a_report(opening: Callable[..., Any], tmp_path: Path) -> None:
    week = scene(tmp_path)
    scan = next(file for file in week.files if file.name == "scan.json")
    out = write_report([scan], tmp_path / "r.html")
    with opening(out) as page:
        assert "no cells" in page.inner_text("header")
        assert "SRC-HOOK-MISSING" in page.inner_text(".scan")
