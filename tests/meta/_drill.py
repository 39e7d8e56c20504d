"""Runs the tiny row under a planted file, and tells what turned red."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from matrix import cache, registry
from matrix._plan import Plan
from matrix.engines import Deadlines
from matrix.reference import Reference
from matrix.registry import Expectation
from matrix.results import Cell, Found, Outcome, apply, unexpected
from matrix.session import Session, new_run_id

HERE = Path(__file__).parent
ROWS = next(
    rows
    for home in Path(__file__).parents
    for rows in (home / "fixtures/rows/tiny.toml", home / "_fixtures/rows/tiny.toml")
    if rows.exists()
)
ROW = "tiny-qwen3"


@dataclass(frozen=True)
class Subject:
    """An engine that faults are planted in."""

    name: str
    python: str | None
    """Its interpreter; `None` where the environment names none."""
    deadlines: Deadlines
    memory_mb: float
    passes: int
    """Cells that at least pass under a harmless change."""


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("transformers", sys.executable, Deadlines(call=20.0), 2500.0, 20),
        Subject("vllm", os.environ.get("DFLASH_MATRIX_PYTHON_VLLM"), Deadlines(), 6000.0, 20),
    )
}


def table() -> dict[str, dict[str, dict[str, str]]]:
    """The committed consequences: engine -> planted file -> clause -> label or outcome."""
    return {name: faults for name, faults in _committed().items() if name != "ci"}


def in_ci(engine: str) -> frozenset[str]:
    """The files that every CI run drills; the others are drilled by hand."""
    files = {file.stem for kind in ("planted", "harmless") for file in planted(kind, engine)}
    return frozenset(_committed()["ci"].get(engine, files))


def _committed() -> dict[str, Any]:
    return tomllib.loads((HERE / "consequences.toml").read_text())


def planted(kind: str, engine: str) -> list[Path]:
    """The files of `planted` or `harmless` for an engine."""
    return sorted((HERE / kind / engine).glob("*.py"))


def drill(
    subject: Subject, inject: Path | None, reference: Reference, out: Path, **options: Any
) -> list[Cell]:
    """Every cell of the tiny row, with `inject` run first in the worker."""
    assert subject.python is not None, "skipped where the environment names no interpreter"
    cache.clear("examples")  # what one drill shrank to says nothing about another
    known = registry.load([ROWS])
    plan = Plan(
        engine=subject.name,
        pairs=known.select([ROW]),
        out=out,
        python=subject.python,
        expectations=known.expectations,
        shrink_seconds=1.0,
        deadlines=subject.deadlines,
        memory_mb=subject.memory_mb,
        inject=inject,
        registry=(ROWS,),
        **({"max_examples": 4} | options),
    )
    with Session(plan, new_run_id(), reference) as session:
        return session.run()


def red(cells: Sequence[Cell]) -> dict[str, str]:
    """Clause -> what it says, for every cell that is not as expected, warnings included.

    Beside faults that rows expect, the first other one counts.
    """
    rows = registry.load([ROWS]).expectations
    return {cell.clause: _says(cell, rows) for cell in cells if unexpected(cell, strict=True)}


def _says(cell: Cell, rows: Sequence[Expectation]) -> str:
    new = (found.label for found in cell.faults if not _expected(cell, found, rows))
    return str(next(new, cell.fault or cell.outcome))


def _expected(cell: Cell, found: Found, rows: Sequence[Expectation]) -> bool:
    alone = replace(cell, faults=[found], fault=found.label)
    return apply(alone, rows, {}).outcome is Outcome.XFAIL
