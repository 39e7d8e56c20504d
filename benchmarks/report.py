"""Building the report of a small run, of every row, and of many engine versions."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks._figure import RATIO, Figure, seconds
from matrix.contract import CLAUSES
from matrix.faces import sentences
from matrix.report import write_report
from matrix.results import SCHEMA, Cell, Journal, Outcome, RunHeader

__all__ = ["figures"]

_SIZES = (500, 2000, 8000)
_ENGINE, _VERSION = "transformers", "0.1.0"


def figures() -> list[Figure]:
    """Seconds at three sizes, and whether four times the cells take about four times as long."""
    took = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in _SIZES:
            journal, out = _journal(Path(folder) / str(size), size), Path(folder) / "report.html"
            took[size] = seconds(
                lambda journal=journal, out=out: write_report(  # type: ignore[misc]
                    [journal], out, sentences=sentences()
                )
            )
    small, middle, large = _SIZES
    growth = (took[large] / took[middle]) / (large / middle)
    return [
        Figure(f"report of {small} cells", "s", took[small], 1),
        Figure(f"report of {middle} cells", "s", took[middle], 3),
        Figure(f"report of {large} cells", "s", took[large], 12),
        Figure("report, growth of time / growth of cells", RATIO, growth, 1.5),
    ]


def _journal(folder: Path, size: int) -> Path:
    """A run of `size` cells, one in ten of them red."""
    with Journal(folder) as journal:
        journal.write(_header())
        for index in range(size):
            journal.write(_cell(index))
    return journal.path


def _header() -> RunHeader:
    return RunHeader(
        schema=SCHEMA,
        run_id="bench",
        time="2026-01-01T00:00:00Z",
        engines={_ENGINE: {"version": _VERSION, "standins": []}},
        harness="bench",
        commit=None,
        device="cpu",
        driver=None,
        seed=0,
        settings={"main": {}},
    )


def _cell(index: int) -> Cell:
    row, place = divmod(index, len(CLAUSES))
    clause = list(CLAUSES.values())[place]
    return Cell(
        run_id="bench",
        time="2026-01-01T00:00:00Z",
        engine=_ENGINE,
        engine_version=_VERSION,
        settings="main",
        dtype="float32",
        pair=f"pair-{row:04}",
        pair_kind="synthetic",
        target="bench/target",
        draft="bench/draft",
        arch="Qwen3ForCausalLM",
        tier=clause.tier,
        clause=clause.id,
        clause_version=clause.version,
        outcome=Outcome.PASS if index % 10 else Outcome.CRASH,
        detail=clause.sentence,
        repro=f"dflash-matrix run pair-{row:04} --engine {_ENGINE} --clause {clause.id}",
    )
