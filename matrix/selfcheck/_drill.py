"""Runs the tiny row under a planted file, and tells what turned red."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from matrix import cache, registry
from matrix._plan import Plan
from matrix.contract import CLAUSES
from matrix.engines import Deadlines
from matrix.reference import Reference
from matrix.registry import Expectation
from matrix.results import Cell, Found, Outcome, apply, unexpected
from matrix.session import Session, new_run_id
from matrix.shipped import shipped

__all__ = ["ROW", "ROWS", "Drilled", "Subject", "drill", "red", "subject"]

ROWS: Final = shipped("fixtures") / "rows" / "tiny.toml"
ROW: Final = "tiny-qwen3"


@dataclass(frozen=True)
class Subject:
    """An engine that faults are planted in."""

    name: str
    python: str | None
    """Its interpreter; `None` where the environment names none."""
    deadlines: Deadlines = field(default_factory=Deadlines)
    memory_mb: float = 6000.0
    passes: int = 20
    """Cells that at least pass under a harmless change."""
    clauses: frozenset[str] = frozenset(CLAUSES)
    """What a drill judges."""
    whole: frozenset[str] = frozenset()
    """Faults whose drill judges every clause all the same."""
    max_examples: int = 4


# One clause of each kind, so that a drill takes seconds where nothing can be drafted.
_ON_SGLANG: Final = frozenset(
    {
        *("HOOK-PRESENT", "HOOK-REACH", "HOOK-SHIFT", "HOOK-NONE", "HOOK-PP"),
        *("AUX-COUNT", "AUX-VALUE", "AUX-DECODE", "AUX-CHUNK", "AUX-INERT"),
        *("TAP-RANGE", "TAP-RECONF"),
    }
)


def subject(engine: str) -> Subject:
    """An engine as drills run it, on the interpreter that the environment names for it."""
    python = os.environ.get(f"DFLASH_MATRIX_PYTHON_{engine.upper()}") or None
    match engine:
        case "transformers":
            return Subject(engine, sys.executable, Deadlines(call=20.0), memory_mb=2500.0)
        case "sglang":
            return Subject(
                engine,
                python,
                Deadlines(call=120.0, clause=600.0),
                memory_mb=2500.0,
                passes=11,
                clauses=_ON_SGLANG,
                whole=frozenset({"worker_killed"}),
                max_examples=1,
            )
    return Subject(engine, python)


@dataclass(frozen=True)
class Drilled:
    """One planted file and the cells it gave."""

    file: str
    harmless: bool
    cells: Sequence[Cell]


def drill(
    subject: Subject, inject: Path | None, reference: Reference, out: Path, **options: Any
) -> list[Cell]:
    """Every cell of the tiny row, with `inject` run first in the worker."""
    assert subject.python is not None, "skipped where the environment names no interpreter"
    cache.clear("examples")  # what one drill shrank to says nothing about another
    known = registry.load([ROWS])
    everything = inject is not None and inject.stem in subject.whole
    plan = Plan(
        engine=subject.name,
        pairs=known.select([ROW]),
        out=out,
        python=subject.python,
        clauses=frozenset(CLAUSES) if everything else subject.clauses,
        expectations=known.expectations,
        shrink_seconds=1.0,
        deadlines=subject.deadlines,
        memory_mb=subject.memory_mb,
        inject=inject,
        registry=(ROWS,),
        **({"max_examples": subject.max_examples} | options),
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
