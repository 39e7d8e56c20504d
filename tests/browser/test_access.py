"""axe-core finds no serious violation; `nox -s report` gets it from npm."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

AXE = os.environ.get("DFLASH_MATRIX_AXE", "")
pytestmark = pytest.mark.skipif(not AXE, reason="DFLASH_MATRIX_AXE names no axe.min.js")


def violations(page: Page) -> list[str]:
    """The serious and critical ones, each with its first element."""
    page.evaluate(Path(AXE).read_text(encoding="utf-8"))
    found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    assert found["passes"], "axe should have looked at something"
    return [
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("place", ["", "#pair=canary-qwen3"])
def test_no_serious_violation(
    opening: Callable[..., Any], report: Path, scheme: str, place: str
) -> None:
    with opening(report, place, color_scheme=scheme) as page:
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert violations(page) == []
        page.locator(".grid tbody a:not(.dim):visible").first.click()
        page.wait_for_selector("#cell-title")
        assert violations(page) == []


def test_axe_would_have_found_one(opening: Callable[..., Any], tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><html data-ready><title>x</title><button></button></html>")
    with opening(bad) as page:
        assert any(found.startswith("button-name") for found in violations(page))
