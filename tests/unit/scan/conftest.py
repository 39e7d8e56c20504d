from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from small_engine import BASES, Judge, Write

from matrix.scan import ScanResult, open_source, scan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFLASH_MATRIX_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a small engine: its base files, then `files` over them; a `(old, new)` pair edits."""

    def write_(
        engine: str, files: Mapping[str, str | tuple[str, str]], where: str = "tree"
    ) -> Path:
        root = tmp_path / where
        every: dict[str, str] = dict(BASES[engine])
        for path, content in files.items():
            if isinstance(content, tuple):
                old, new = content
                assert old in every[path], f"{path} has no {old!r}"
                content = every[path].replace(old, new)
            every[path] = content
        for path, text in every.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        return root

    return write_


@pytest.fixture
def judge(write: Write) -> Judge:
    """The scan of a small engine."""

    def judge_(engine: str, files: Mapping[str, str | tuple[str, str]] = {}) -> ScanResult:
        with open_source(write(engine, files)) as source:
            return scan(source)

    return judge_
