"""The report of 60 pairs, every clause and six engines: its size, and how long it takes to build and to use."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from benchmarks._figure import RATIO, ROUNDS, Figure, seconds
from matrix.contract import CLAUSES
from matrix.faces import known
from matrix.faults import Fault, Severity
from matrix.report import write_report
from matrix.results import Cell, Found, Journal, Outcome, RunHeader
from matrix.results import read as read_journal

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["figures"]

_PAIRS: Final = 60
_CLAUSES: Final = 45
_ENGINES: Final = 6
_SIZES: Final = (15, 30, 60)
"""Pairs, for the growth of cost with cells."""
_BASE: Final = Path(__file__).parents[1] / "reports" / "baseline" / "transformers-0.1.0.jsonl"
"""Real cells, of which the others are made: planes, details and metrics as large as they are."""
_CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome")


def figures() -> list[Figure]:
    """Size and seconds at full size, seconds at three sizes, and what a browser needs."""
    took: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for pairs in _SIZES:
            journal, out = _journal(Path(folder) / str(pairs), pairs), Path(folder) / "report.html"
            took[pairs] = seconds(
                lambda journal=journal, out=out: write_report(  # type: ignore[misc]
                    [journal], out, known=known((), ())
                ),
                rounds=3,
            )
        size = out.stat().st_size / 1e6
        browser = _in_browser(out)
    small, middle, large = _SIZES
    cells = {pairs: pairs * _CLAUSES * _ENGINES for pairs in _SIZES}
    return [
        Figure(f"report of {cells[large]} cells, the file", "MB", size, 5),
        *(Figure(f"report of {cells[n]} cells", "s", took[n], 5 * n / large) for n in _SIZES),
        Figure(
            "report, growth of time / growth of cells", RATIO, took[large] / took[middle] / 2, 1.5
        ),
        Figure("the same from the smallest", RATIO, took[large] / took[small] / 4, 1.5),
        *browser,
    ]


def _journal(folder: Path, pairs: int) -> Path:
    """A run of `pairs` x 45 clauses x 6 engines, one cell in ten of them red."""
    header, rows = _real()
    with Journal(folder) as journal:
        journal.write(header)
        for cell in _cells(rows, pairs):
            journal.write(cell)
    return journal.path


def _real() -> tuple[RunHeader, list[dict[str, Cell]]]:
    """A header, and of each row of the baseline its cells by clause."""
    record = read_journal(_BASE)
    rows: dict[str, dict[str, Cell]] = {}
    for cell in record.cells:
        rows.setdefault(cell.pair, {})[cell.clause] = cell
    return record.headers[-1], list(rows.values())


def _cells(rows: list[dict[str, Cell]], pairs: int) -> Iterator[Cell]:
    clauses = [*CLAUSES, *(f"MADE-UP-{i}" for i in range(_CLAUSES))][:_CLAUSES]
    for number in range(_ENGINES * pairs * _CLAUSES):
        engine, place = divmod(number, pairs * _CLAUSES)
        row, column = divmod(place, _CLAUSES)
        models = rows[(row + engine) % len(rows)]
        model = models.get(clauses[column]) or list(models.values())[column % len(models)]
        cell = replace(
            model,
            engine=("vllm", "sglang")[engine % 2],
            engine_version=f"0.{engine}.0",
            pair=f"pair-{row:02}-dflash-b16",
            clause=clauses[column],
            detail=f"{model.detail} {number}".strip(),
            metrics=_jittered(model.metrics, number),
        )
        yield _red(cell) if number % 10 == 0 else cell


def _jittered(metrics: dict[str, Any], number: int) -> dict[str, Any]:
    """The same metrics with other digits: no two rows measure the same distances."""
    planes = metrics.get("planes")
    if not planes:
        return metrics
    factor = 1 + (number * 2654435761 % 1000) / 3000
    return {
        **metrics,
        "planes": [
            {
                **plane,
                "distances": [d * (factor + i % 7 / 100) for i, d in enumerate(plane["distances"])],
            }
            for plane in planes
        ],
    }


def _red(cell: Cell) -> Cell:
    evidence = f"plane 1 is layer 8's output, expected layer 9 ({cell.pair}, {cell.engine_version})"
    found = Found(
        Fault.TAP_SHIFT_BEFORE, Severity.WRONG, example={"ids": [1, 9]}, evidence=evidence
    )
    return replace(cell, outcome=Outcome.FAIL, fault=found.label, faults=[found], detail=evidence)


def _in_browser(file: Path) -> list[Figure]:
    """First paint, until the cells can be filtered, and one filter; without Chromium a line says so."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return _no_browser("the extra `report` is not installed")
    if _CHROMIUM is None:
        return _no_browser("no Chromium is on the path")
    paints, ready, filters = [], [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        for _ in range(ROUNDS):
            page = browser.new_page()
            began = time.perf_counter()
            page.goto(file.as_uri(), wait_until="commit")
            page.wait_for_selector("html[data-ready]", timeout=60_000)
            ready.append(time.perf_counter() - began)
            paints.append(page.evaluate(_FIRST_PAINT) / 1000)
            filters.append(page.evaluate(_FILTER) / 1000)
            page.close()
        browser.close()
    return [
        Figure(name, "s", sorted(values)[len(values) // 2], target)
        for name, values, target in (
            ("the largest report, first paint", paints, 1),
            ("the largest report, until it can be filtered", ready, 4),
            ("the largest report, one filter until painted", filters, 0.5),
        )
    ]


_FIRST_PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
_FILTER: Final = """async () => {
  const began = performance.now();
  document.querySelector('button[data-outcome="fail"]').click();
  await new Promise((done) => addEventListener("hashchange", done, { once: true }));
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
}"""


def _no_browser(why: str) -> list[Figure]:
    print(f"left out: how a browser shows the report: {why}")
    return []
