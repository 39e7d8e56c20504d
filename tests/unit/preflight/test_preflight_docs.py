"""docs/preflight.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from config_samples import CONFIGS

from matrix.cli import main
from matrix.layouts import Layout
from matrix.preflight import CLAUSES, _cli
from matrix.preflight._resolvers import _RESOLVERS

ROOT = Path(__file__).parents[3]
DOCS = (ROOT / "docs" / "preflight.md").read_text()


def test_every_clause_layout_and_resolver_is_described() -> None:
    first = re.findall(r"^\| `([\w+-]+)`", DOCS, re.MULTILINE)
    assert [word for word in first if word.startswith("CFG-")] == list(CLAUSES)
    assert set(get_args(Layout)) <= set(first)
    assert all(f"`{name}`" in DOCS for _, name, _ in _RESOLVERS)


def test_the_quoted_run_is_word_for_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cli, "installed", dict)
    monkeypatch.chdir(ROOT)
    quoted = re.findall(r"```text\n(.*?)```", DOCS, re.DOTALL)[0].splitlines()
    assert main(quoted[0].split()[2:]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert {line for line in quoted[1:] if line != "[...]"} <= set(lines)
    assert CONFIGS.is_relative_to(ROOT)
