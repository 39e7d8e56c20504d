"""The report in a real browser; skipped where Playwright or Chromium is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from matrix.report import write_report
from matrix.results import Cell, Outcome

pytest.importorskip("playwright", reason="needs the extra `report`")
from playwright.sync_api import Page, expect, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on the path")
HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def opened(
    browser: Any,
    tmp_path: Path,
    write_run: Callable[..., Path],
    make_cell: Callable[..., Cell],
    shifted: Cell,
) -> Iterator[Page]:
    cells = [make_cell(pair=f"pair-{i}") for i in range(30)]
    run = write_run("run", *cells, shifted, make_cell(detail=HOSTILE, outcome=Outcome.ERROR))
    file = write_report([run], tmp_path / "report.html", sentences={"AUX-VALUE": HOSTILE})
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(file.as_uri())
    yield page
    assert page.title() == "2 unexpected - dflash-matrix"
    assert said == [], "no error, and nothing that the policy had to stop"
    page.close()


def shows(page: Page, cells: int) -> None:
    """Wait until so many cells are visible: a filter is applied a moment after its click."""
    expect(page.locator(".cell:visible")).to_have_count(cells)


def test_a_grid_letter_opens_its_cell(opened: Page) -> None:
    opened.click(".grid a.fail")
    cell = opened.locator(".cell.at")
    assert cell.get_attribute("open") is not None
    assert "tap-shift-1" in cell.inner_text()
    assert "#cell=" in opened.url
    opened.go_back()
    assert opened.locator(".cell.at").count() == 0


def test_filters_are_in_the_address(opened: Page) -> None:
    shows(opened, 32)
    opened.click('#filters button[data-outcome="fail"]')
    shows(opened, 1)
    assert opened.locator(".grid tbody tr:visible").count() == 1
    opened.click('#filters button[data-outcome="error"]')
    shows(opened, 2)
    assert opened.inner_text("#shown") == "2 of 32 cells"
    opened.keyboard.press("/")
    opened.keyboard.type("llama TAP-shift")
    shows(opened, 1)
    opened.reload()
    shows(opened, 1)
    assert opened.input_value("#text") == "llama TAP-shift"
    opened.focus("#text")
    opened.keyboard.press("Escape")
    shows(opened, 2)


def test_a_deep_link_opens_the_cell_and_hostile_ones_do_nothing(opened: Page) -> None:
    link = opened.get_attribute(".grid a.fail", "href")
    opened.goto(opened.url.partition("#")[0] + f"{link}&outcome=pass")
    opened.reload()
    assert opened.locator(".cell.at").is_visible()
    opened.goto(
        opened.url.partition("#")[0] + "#cell=<img src=x onerror=alert(1)>&text=%3Cnothing%3E"
    )
    opened.reload()
    shows(opened, 0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_can_be_read_in_light_and_dark(opened: Page, scheme: Any) -> None:
    opened.emulate_media(color_scheme=scheme)
    contrasts = opened.evaluate(
        """() => {
          const light = (colour) => {
            const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map((v) => v / 255)
              .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const outcomes = "pass fail xfail xpass warn skip error crash timeout oom".split(" ");
          return outcomes.map((outcome) => {
            const letter = document.createElement("b");
            letter.className = "o " + outcome;
            document.body.append(letter);
            const style = getComputedStyle(letter);
            const [a, b] = [light(style.color), light(style.backgroundColor)];
            letter.remove();
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
          });
        }"""
    )
    assert len(contrasts) == 10
    assert min(contrasts) >= 4.5, "WCAG AA"
