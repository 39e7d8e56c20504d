"""Runs the tiny row under a planted file, and tells what turned red."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from matrix import cache, registry
from matrix._plan import Plan
from matrix.engines import Deadlines
from matrix.reference import Reference
from matrix.results import Cell, unexpected
from matrix.session import Session, new_run_id

HERE = Path(__file__).parent
ROW = "tiny-qwen3"


def table() -> dict[str, dict[str, Any]]:
    """The committed consequences: planted file -> clause -> label or outcome."""
    return tomllib.loads((HERE / "consequences.toml").read_text())


def planted(kind: str, engine: str) -> list[Path]:
    """The files of `planted` or `harmless` for an engine."""
    return sorted((HERE / kind / engine).glob("*.py"))


def drill(
    inject: Path | None, reference: Reference, out: Path, rows: Path, **options: Any
) -> list[Cell]:
    """Every cell of the tiny row, with `inject` run first in the worker."""
    cache.clear("examples")  # what one drill shrank to says nothing about another
    known = registry.load([rows])
    common = {
        "engine": "transformers",
        "max_examples": 4,
        "shrink_seconds": 1.0,
        "deadlines": Deadlines(call=20.0),
        "memory_mb": 2500.0,
    }
    plan = Plan(
        pairs=known.select([ROW]),
        out=out,
        expectations=known.expectations,
        inject=inject,
        registry=(rows,),
        **(common | options),
    )
    with Session(plan, new_run_id(), reference) as session:
        return session.run()


def red(cells: list[Cell]) -> dict[str, str]:
    """Clause -> what it says, for every cell that is not as expected, warnings included."""
    return {
        cell.clause: str(cell.fault or cell.outcome)
        for cell in cells
        if unexpected(cell, strict=True)
    }
