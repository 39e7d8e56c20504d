"""Runs whose engine is the fake one, in a real worker, and whose reference is the fake one too."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
sys.path.insert(0, str(HERE / "contract"))

import fake_engine  # noqa: E402 - it lies in the folder above
from fake_engine import PAIR  # noqa: E402

from matrix._plan import Plan  # noqa: E402
from matrix.engines import RemoteEngine, Worker  # noqa: E402
from matrix.results import Cell, Outcome, StartLine  # noqa: E402
from matrix.runner import Row  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matrix.registry import Pair
    from matrix.twins import Twin

__all__ = [
    "HERE",
    "PAIR",
    "QUICK",
    "FakeReference",
    "Ran",
    "below",
    "cli",
    "command",
    "injected",
    "plan",
    "rows_file",
    "started",
]

INJECT = """
import ctypes, os, signal, sys, time
sys.path.insert(0, {here!r})
import fake_engine
import matrix.engines._worker as worker
from fake_engine import FakeEngine
from matrix.errors import AdapterError, EngineError, PlatformRefused
{body}
fake_engine.Served = lambda: FakeEngine({seams})
worker.SERVED["transformers"] = "fake_engine:Served"
"""

PAIR_TOML = """
[[pair]]
key = "{key}"
kind = "synthetic"
target = "dflash-matrix/tiny-qwen3"
speculative_model = "dflash-matrix/tiny-qwen3-dflash"
arch = "Qwen3ForCausalLM"
num_target_layers = 8
target_layer_ids = [1, 3, 5]
block_size = 8
mask_token_id = 511
final_tap = "raw"
final_tap_source = "made up"
is_available_online = false
source = "made up"
"""

QUICK: Final = ("START-DECODE", "START-SPEC", "OUTPUT-LOSSLESS", "OUTPUT-COUNTERS")
"""Clauses that take next to no time, in the order in which they are judged."""


class FakeReference(fake_engine.FakeOracle):
    """What is right, in this process."""

    def __init__(self, log: Path | None = None) -> None:
        self.log = log

    def wake(self) -> None:
        return None

    def twin(self, pair: Pair, dtype: str) -> Twin:
        return fake_engine.TWIN

    def close(self) -> None:
        return None


def injected(folder: Path, seams: str = "", body: str = "") -> Path:
    """A file that has the worker serve the fake engine, with these seams."""
    file = folder / "serve_the_fake.py"
    file.write_text(INJECT.format(here=str(HERE / "contract"), body=body, seams=seams))
    return file


def plan(folder: Path, *clauses: str, **changes: Any) -> Plan:
    """A plan of one fake pair; without `clauses`, of every clause."""
    options: dict[str, Any] = {"inject": changes.pop("inject", None) or injected(folder)}
    if clauses:
        options["clauses"] = frozenset(clauses)
    return Plan("transformers", (PAIR,), folder / "run", **options, **changes)


class Ran:
    """What one row gave."""

    def __init__(self, planned: Plan) -> None:
        self.lines: list[Cell | StartLine] = []
        worker = Worker(
            planned.engine,
            planned.out / "w.log",
            planned.python,
            planned.inject,
            memory_mb=planned.memory_mb,
        )
        identity = RemoteEngine(worker, planned.deadlines).identify()
        self.row = Row(
            planned,
            planned.pairs[0],
            "run-1",
            identity,
            FakeReference(),  # type: ignore[arg-type]
            self.lines.append,
            worker,
        )
        self.row.run()

    @property
    def cells(self) -> dict[str, Cell]:
        cells = [line for line in self.lines if isinstance(line, Cell)]
        assert len({cell.clause for cell in cells}) == len(cells), "one cell a clause"
        return {cell.clause: cell for cell in cells}

    @property
    def judged(self) -> dict[str, Outcome]:
        """Outcomes of the clauses that were selected."""
        return {
            key: cell.outcome for key, cell in self.cells.items() if cell.reason_code != "filtered"
        }

    @property
    def starts(self) -> list[tuple[str, Outcome]]:
        return [(line.settings, line.outcome) for line in self.lines if isinstance(line, StartLine)]


def command(folder: Path, *args: str) -> tuple[list[str], dict[str, str]]:
    """`dflash-matrix` in a process of its own, with the fake reference in the real one's place."""
    code = (
        f"import sys; sys.path.insert(0, {str(HERE)!r}); import running, matrix.reference, matrix.cli\n"
        "matrix.reference.Reference = running.FakeReference\n"
        "sys.exit(matrix.cli.main())"
    )
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "DFLASH_MATRIX_CACHE": str(folder / "cache"),
        "COLUMNS": "200",
    }
    return [sys.executable, "-c", code, *args], env


def rows_file(folder: Path, *keys: str) -> Path:
    """A registry file with these keys."""
    file = folder / "rows.toml"
    file.write_text("\n".join(PAIR_TOML.format(key=key) for key in keys))
    return file


def cli(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in `folder`."""
    words, env = command(folder, *args)
    return subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=folder, env=env, timeout=120
    )


@contextmanager
def started(folder: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    """A command under way."""
    words, env = command(folder, *args)
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=env
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def below(root: int) -> list[int]:
    """Processes below one, by id."""
    from matrix.engines import _guard

    return _guard.descendants(root)
