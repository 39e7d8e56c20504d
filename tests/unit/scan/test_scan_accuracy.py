"""The comparison with a running engine: what it says when there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from matrix.errors import UsageError
from matrix.scan._accuracy import ask, main


def test_an_interpreter_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--engine", "vllm", "--python", "/nonexistent/python"]) == 2
    assert "--python /nonexistent/python: No such file" in capsys.readouterr().err


def test_an_interpreter_without_the_engine(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"sglang doesn't answer \(ModuleNotFoundError: .*sglang"):
        ask("sglang", Path(sys.executable), tmp_path / "answers.json")
