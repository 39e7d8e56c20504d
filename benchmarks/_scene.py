"""A started engine, its twin and the reference, as a run has them, with a cache of its own."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from matrix._plan import Plan
from matrix.contract import Bench
from matrix.engines import RemoteEngine, StartSpec
from matrix.reference import Reference
from matrix.registry import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matrix.registry import Pair
    from matrix.twins import Twin

__all__ = ["cold_cache", "plan", "scene", "vllm_python"]

_TINY = Path("fixtures/rows/tiny.toml")
_VLLM = "DFLASH_MATRIX_PYTHON_VLLM"


def vllm_python() -> str | None:
    """The interpreter of an environment that has vLLM; says so where none is named."""
    python = os.environ.get(_VLLM)
    if not python:
        print(f"left out: figures on vLLM, {_VLLM} names no interpreter", file=sys.stderr)
    return python


@contextmanager
def cold_cache() -> Iterator[Path]:
    """An empty cache for the time being: nothing that earlier runs left makes a figure small."""
    name = "DFLASH_MATRIX_CACHE"
    before = os.environ.get(name)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[name] = folder
        try:
            yield Path(folder)
        finally:
            if before is None:
                del os.environ[name]
            else:
                os.environ[name] = before


def plan(engine: str, python: str, pair: str, out: Path) -> Plan:
    """A run of one row on one engine."""
    registry = load((_TINY,))
    return Plan(engine, registry.select([pair], None), out, python=python)


@contextmanager
def scene(engine: str, python: str, pair: str) -> Iterator[Bench]:
    """The engine, started on the row's twin."""
    with cold_cache() as folder:
        run = plan(engine, python, pair, folder)
        row = run.pairs[0]
        reference = Reference(folder / "reference.log")
        worker = run.worker(folder / "engine.log")
        try:
            twin = reference.twin(row, run.dtype)
            remote = RemoteEngine(worker, run.deadlines)
            lacks = remote.identify().lacks
            remote.start(_spec(row, twin))
            yield Bench(row, twin, remote, reference, lacks=lacks)
        finally:
            worker.close()
            reference.close()


def _spec(pair: Pair, twin: Twin) -> StartSpec:
    return StartSpec(
        arch=pair.arch,
        target=twin.target,
        draft=twin.draft,
        settings="main",
        method=pair.speculative_method,
        dtype=twin.dtype,
        device="cpu",
        drafts=twin.block_size - 1,
        max_model_len=1024,
    )
