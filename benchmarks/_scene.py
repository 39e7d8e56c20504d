"""A started engine, its twin and the reference, as a run has them, with a cache of its own."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from matrix._plan import Plan
from matrix.contract import Bench
from matrix.engines import Deadlines, RemoteEngine, StartSpec, Worker
from matrix.reference import Reference
from matrix.registry import load

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cold_cache", "plan", "scene"]

_TINY = Path("fixtures/rows/tiny.toml")


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


def plan(pair: str, out: Path) -> Plan:
    """A run of one row on the embedded engine."""
    registry = load((_TINY,))
    return Plan("transformers", registry.select([pair], None), out, slots=1)


@contextmanager
def scene(pair: str) -> Iterator[Bench]:
    """The embedded engine, started on the row's twin."""
    with cold_cache() as folder:
        row = plan(pair, folder).pairs[0]
        reference = Reference(folder / "reference.log")
        worker = Worker("transformers", folder / "engine.log")
        try:
            twin = reference.twin(row, "float32")
            engine = RemoteEngine(worker, Deadlines())
            lacks = engine.identify().lacks
            engine.start(_spec(twin.target, twin.draft, twin.block_size - 1))
            yield Bench(row, twin, engine, reference, lacks=lacks)
        finally:
            worker.close()
            reference.close()


def _spec(target: str, draft: str, drafts: int) -> StartSpec:
    return StartSpec(
        target=target,
        draft=draft,
        settings="main",
        method="dflash",
        dtype="float32",
        device="cpu",
        drafts=drafts,
        max_model_len=1024,
    )
