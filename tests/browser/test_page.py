"""The report as a reader uses it: filter, sort, open, go back, by mouse, by key and by address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from scene import CRASHED, SHIFTED

VLLM = 'section[data-engine^="vllm"]'
LETTERS = ".grid tbody a:not(.dim):visible"


def letters(page: Page, count: int) -> None:
    """Wait until so many letters stand out: a filter is applied a moment after its click."""
    expect(page.locator(LETTERS)).to_have_count(count)


def order(page: Page) -> list[str]:
    return page.locator(f"{VLLM} tbody tr:visible th").all_text_contents()


def at(page: Page) -> str:
    """The title of the cell that is seen."""
    expect(page.locator("#cell-title")).to_be_visible()
    return page.inner_text("#cell-title span")


# --- what broke, why, and how to reproduce it ---------------------------------------------------


def test_what_broke_is_on_the_first_screen(page: Page, keep: Callable[..., Path]) -> None:
    assert page.title() == "12 broken, 13 unexpected - dflash-matrix"
    tiles = page.locator(".tiles li").all_inner_texts()
    assert [" ".join(tile.split()) for tile in tiles] == [
        "12 broken",
        "29 gone",
        "1 unstable",
        "8 fixed",
        "0 new",
    ]
    first = page.locator(".broken .group").first
    assert first.bounding_box()["y"] < 400, "seen without scrolling"  # type: ignore[index]
    text = first.inner_text()
    assert "fail tap-shift-1 was pass, xfail tap-late" in text
    assert "vllm 0.32.0, float32 · 11 cells" in text
    assert "plane 0 is layer 0's output" in text
    assert f"dflash-matrix run {SHIFTED} --engine vllm --clause AUX-COUNT" in text
    unstable = page.locator(".unstable .group").inner_text()
    assert "OUTPUT-STOP" in unstable
    keep(page, "report-diff")


def test_a_tile_filters_the_grid(page: Page) -> None:
    page.click(".tiles .unstable a")
    letters(page, 1)
    assert page.url.endswith("#change=unstable")
    expect(page.locator("#shown")).to_have_text("1 of 697 cells")


def test_a_row_of_faults_filters_the_grid(page: Page) -> None:
    row = page.locator("#faults tr.unexpected").first
    assert row.locator("th a").inner_text() == "tap-shift-1"
    row.locator("th a").click()
    letters(page, 11)
    assert order(page) == [SHIFTED, "canary-qwen3"]


def test_what_did_not_run_the_score_and_the_other_commands_are_there(page: Page) -> None:
    page.click("#absent summary")
    assert "no journal of this engine was given" in page.inner_text("#absent")
    assert "Sliding window is not supported" in page.inner_text("#absent")
    assert "caught 4 of 4, named 4 of 4" in page.inner_text(".score summary")
    assert "CFG-IDS" in page.inner_text(".preflight tbody tr:first-child")
    assert "qwen3_next.py:1102" in page.inner_text(".scan tbody")


# --- the grid -----------------------------------------------------------------------------------


def test_filters_are_in_the_address_and_going_back_undoes_them(
    page: Page, keep: Callable[..., Path]
) -> None:
    page.evaluate("document.getElementById('grids').scrollIntoView()")
    keep(page, "report-grid")
    page.click('button[data-outcome="crash"]')
    letters(page, 1)
    page.click('button[data-outcome="fail"]')
    letters(page, 13)
    assert page.get_attribute('button[data-outcome="fail"]', "aria-pressed") == "true"
    assert order(page) == [
        SHIFTED,
        "llama3.1-8b-instruct-dflash-ultrachat",
        CRASHED,
        "canary-qwen3",
    ]
    assert page.locator(f"{VLLM} th.clause:visible").count() < 15, (
        "clauses without a cell are hidden"
    )
    page.select_option('select[data-field="clause"]', "OUTPUT-STOP")
    letters(page, 1)
    page.reload()
    letters(page, 1)
    assert page.input_value('select[data-field="clause"]') == "OUTPUT-STOP"
    page.go_back()
    letters(page, 13)
    page.click("#reset")
    letters(page, 697)
    assert page.locator("tbody tr:visible").count() > 24


@pytest.mark.parametrize(
    ("field", "value", "count"),
    [
        ("engine", "transformers 0.1.0, float32", 348),
        ("pair", SHIFTED, 58),
        ("clause", "AUX-VALUE", 24),
        ("fault", "output-differs", 1),
        ("severity", "wrong", 38),
        ("change", "broken", 12),
    ],
)
def test_each_filter_by_itself(page: Page, field: str, value: str, count: int) -> None:
    page.select_option(f'select[data-field="{field}"]', value)
    letters(page, count)


def test_text_is_looked_for_in_evidence_too(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("SLIDING window")
    letters(page, 1)
    page.keyboard.press("Escape")
    letters(page, 697)


def test_a_clause_sorts_its_pairs_worst_first(page: Page) -> None:
    as_given = order(page)
    head = page.locator(f'{VLLM} th:has(button[data-sort="AUX-VALUE"])')
    head.locator("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert order(page)[0] == SHIFTED
    head.locator("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    assert order(page)[-1] == SHIFTED or order(page)[-1] == "canary-qwen3"
    assert "sort=-AUX-VALUE" in page.url
    head.locator("button").click()
    expect(head).not_to_have_attribute("aria-sort", "descending")
    assert order(page) == as_given
    page.click(f'{VLLM} button[data-sort="pair"]')
    expect(page.locator(f"{VLLM} th.corner")).to_have_attribute("aria-sort", "ascending")
    assert order(page) == sorted(as_given)


@pytest.mark.parametrize(("name", "like"), [("margin", "."), ("seconds", "."), ("acceptance", "%")])
def test_a_metric_stands_in_the_cell_on_demand(page: Page, name: str, like: str) -> None:
    page.select_option('select[data-field="show"]', name)
    expect(page.locator("#grids")).to_have_attribute("data-show", name)
    shown = page.locator(".grid a[data-metric]").evaluate_all(
        "links => links.map((link) => link.dataset.metric).filter(Boolean)"
    )
    assert shown
    assert any(like in value for value in shown)
    seen = page.locator('.grid a[data-metric]:not([data-metric=""])').first
    content = seen.evaluate("link => getComputedStyle(link, '::after').content")
    assert seen.get_attribute("data-metric") in content


def test_heads_and_names_stay_in_sight(opening: Any, report: Path) -> None:
    with opening(report) as page:
        page.set_viewport_size({"width": 500, "height": 420})
        box = page.locator(f"{VLLM} .scroll")
        box.evaluate("box => { box.scrollTo(400, 200); }")
        frame = box.bounding_box()
        name = page.locator(f"{VLLM} tbody tr:nth-child(9) th").bounding_box()
        head = page.locator(f"{VLLM} thead tr").last.locator("th").nth(12).bounding_box()
        assert abs(name["x"] - frame["x"]) < 3, "the pair's name at the left edge"
        assert frame["y"] <= head["y"] < frame["y"] + 40, "clauses at the upper edge"


# --- a cell's page ------------------------------------------------------------------------------


def test_a_letter_opens_its_cell_and_going_back_returns_to_it(
    page: Page, keep: Callable[..., Path]
) -> None:
    link = page.locator(f"{VLLM} a.fail[aria-label^='AUX-VALUE']")
    link.click()
    assert at(page) == f"{SHIFTED} / AUX-VALUE"
    text = page.inner_text("#cell")
    for part in (
        "fail tap-shift-1",
        "broken, was pass",
        "Must hold:",
        "plane 0 is layer 0's output (relative distance 7.1e-08), expected layer 1",
        "outputs of layers [1, 9, 17, 25, 33]",
        "outputs of layers [0, 8, 16, 24, 32]",
        '{"ids": [1, 9, 17, 25, 33]}',
        "0.0001",
        "21.4 s, 1423 MB resident",
        "z-lab/Qwen3-8B-DFlash-b16",
        "step 199",
    ):
        assert part in text, part
    assert page.locator("#cell .plot").count() == 5
    first = page.locator("#cell .plot").first
    assert first.locator("rect").count() == 36
    asked, matched = (
        first.locator(f"rect.{role} title").text_content() for role in ("asked", "matched")
    )
    assert (asked, matched) == ("layer 1: about 0.13 (asked)", "layer 0: about 6.3e-8 (matched)")
    assert page.locator(".dots b").all_inner_texts() == ["P", "P", "F"]
    assert (
        page.get_attribute("#cell a:has-text('whole log')", "href")
        == f"./night-3/logs/vllm-{SHIFTED}.log"
    )
    keep(page, "report-cell", full_page=True)
    page.go_back()
    expect(page.locator("#overview")).to_be_visible()
    assert page.locator("#cell").is_hidden()
    expect(link).to_be_focused()


def test_a_known_failure_names_its_expectation(page: Page) -> None:
    page.select_option('select[data-field="clause"]', "TAP-RANGE")
    page.locator(LETTERS).first.click()
    link = page.locator("#cell section:has-text('Expected, by') a").first
    assert (link.get_attribute("href") or "").startswith("https://github.com/")


def test_a_deep_link_opens_the_cell(opening: Any, report: Path, page: Page) -> None:
    link = page.locator(f"{VLLM} a.crash").get_attribute("href") or ""
    with opening(report, f"{link}&outcome=pass") as other:
        assert at(other) == f"{CRASHED} / START-LOAD"
        assert "killed by SIGSEGV while it loaded" in other.inner_text("#cell")
        other.click(".back")
        letters(other, 448)


def test_a_canary_is_drawn_against_its_code_book(page: Page, keep: Callable[..., Path]) -> None:
    page.select_option('select[data-field="pair"]', "canary-qwen3")
    page.locator(LETTERS).click()
    assert at(page) == "canary-qwen3 / CANARY-PROFILE"
    assert page.locator("#cell .plot").count() == 2
    family = page.locator("#cell .plot").first
    rates = family.locator("rect.rate title").all_text_contents()
    assert rates[0] == "draft 1: accepted in 100.0% of steps"
    assert rates[-1] == "draft 7: accepted in 0.0% of steps"
    assert family.locator("path title").all_text_contents() == ["correct", "tap-shift-1"]
    words = page.locator(".book tbody tr")
    assert words.count() == 6
    assert page.locator(".book tr.decoded").inner_text().split() == ["tap-shift-1decoded", "5", "2"]
    assert "4 accepted in 1 step, 5 accepted in 63 steps" in page.inner_text("#cell")
    keep(page, "report-canary", full_page=True)


# --- keys ---------------------------------------------------------------------------------------


def test_a_reader_without_a_mouse(page: Page) -> None:
    page.select_option('select[data-field="engine"]', "vllm 0.32.0, float32")
    letters(page, 349)
    stops = page.locator(f'{VLLM} tbody a[tabindex="0"]')
    assert stops.count() == 1, "one stop of the tab key, not one for each letter"
    stops.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    focused = page.evaluate("document.activeElement.closest('tr').cells[0].textContent")
    assert focused == SHIFTED
    label = page.evaluate("document.activeElement.getAttribute('aria-label')")
    page.keyboard.press("Enter")
    assert at(page).endswith(label.partition(":")[0])
    assert page.evaluate("document.activeElement.id") == "cell-title"
    here = at(page)
    page.keyboard.press("n")
    expect(page.locator("#cell-title span")).not_to_have_text(here)
    page.keyboard.press("p")
    expect(page.locator("#cell-title span")).to_have_text(here)
    page.keyboard.press("Escape")
    expect(page.locator("#overview")).to_be_visible()


def test_next_and_previous_keep_to_what_the_filters_show(page: Page) -> None:
    page.click('button[data-outcome="fail"]')
    letters(page, 12)
    page.locator(LETTERS).first.click()
    seen = [at(page)]
    while page.locator('a[aria-label="next cell"]').count():
        page.keyboard.press("n")
        expect(page.locator("#cell-title span")).not_to_have_text(seen[-1])
        seen.append(at(page))
    assert len(seen) == 12
    assert len(set(seen)) == 12
    assert "12 of 12 shown" in page.inner_text("#cell nav")


# --- colours ------------------------------------------------------------------------------------


def test_dark_by_the_system_and_by_choice(
    opening: Any, report: Path, keep: Callable[..., Path]
) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    with opening(report, color_scheme="dark") as page:
        dark = page.evaluate(colour)
        page.evaluate("document.getElementById('grids').scrollIntoView()")
        keep(page, "report-grid-dark")
    with opening(report, color_scheme="light") as page:
        light = page.evaluate(colour)
        page.click("#theme")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        assert page.evaluate(colour) == dark
        assert page.url.endswith("#theme=dark")
        page.reload()
        page.wait_for_selector("html[data-ready]")
        assert page.evaluate(colour) == dark
    assert dark != light
