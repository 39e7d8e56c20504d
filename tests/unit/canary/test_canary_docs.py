"""docs/canary.md tells of the code book as it is."""

from __future__ import annotations

from pathlib import Path

from matrix import registry
from matrix.canary import BOOK
from matrix.canary._draw import draw_book
from matrix.contract import CLAUSES

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "canary.md").read_text()


def test_the_picture_is_what_the_code_draws() -> None:
    due = draw_book()
    assert (DOCS / "canary-book.svg").read_text() == due, (
        "draw it anew: python -m matrix.canary._draw docs/canary-book.svg"
    )


def test_the_page_has_every_fault_of_the_book() -> None:
    for name, entry in BOOK.items():
        assert f"| `{name}` | `{entry.label}` | {entry.sentence} |" in PAGE


def test_the_page_has_every_clause_and_every_canary() -> None:
    named = [f"`{name}`" for name in CLAUSES if name.startswith("CANARY-")]
    named += [f"`{pair.key}`" for pair in registry.load([]).pairs.values() if pair.kind == "canary"]
    assert len(named) == 9
    assert [name for name in named if name not in PAGE] == []
