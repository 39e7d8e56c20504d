"""One Chromium for all tests, and one report of a week of nightly runs, opened anew for each."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scene import scene

from matrix.cli import main

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))  # runs whose engine is the fake one

PLAYWRIGHT = find_spec("playwright") is not None
collect_ignore_glob = [] if PLAYWRIGHT else ["test_*.py"]
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


def pytest_report_header() -> str | None:
    return None if PLAYWRIGHT else "tests/browser is left out: it needs the extra `report`"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium on the path")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a week, as the command writes it."""
    folder = tmp_path_factory.mktemp("week")
    week = scene(folder)
    files = [str(file) for file in week.files]
    out = folder / "report.html"
    assert main(["report", *files, "--baseline", str(week.baseline), "--out", str(out)]) == 0
    return out


Opened = Callable[..., Any]


@pytest.fixture(scope="session")
def opening(browser: Browser) -> Opened:
    """Opens a file in a window of its own; whatever the page complained of fails the test."""

    @contextmanager
    def opened(file: Path, hash: str = "", **options: Any) -> Iterator[Page]:
        context = browser.new_context(viewport={"width": 1360, "height": 900}, **options)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        page = context.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on(
            "request",
            lambda request: (
                said.append(f"asked for {request.url}")
                if not request.url.startswith(("file:", "blob:"))
                else None
            ),
        )
        page.goto(file.as_uri() + hash)
        page.wait_for_selector("html[data-ready]")
        yield page
        context.close()
        assert said == [], "no error, nothing that the policy had to stop, nothing loaded"

    return opened


@pytest.fixture
def page(opening: Opened, report: Path) -> Iterator[Page]:
    with opening(report) as opened:
        yield opened


@pytest.fixture(scope="session")
def keep(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Keeps a picture of a page where DFLASH_MATRIX_SCREENSHOTS says, or nowhere in particular."""
    given = os.environ.get("DFLASH_MATRIX_SCREENSHOTS")
    folder = Path(given) if given else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)

    def shoot(page: Page, name: str, **options: Any) -> Path:
        file = folder / f"{name}.png"
        page.screenshot(path=file, **options)
        return file

    return shoot
