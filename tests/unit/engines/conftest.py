"""Workers that serve `drill.Drill`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from matrix.engines import Worker

HERE = Path(__file__).parent
INJECT = """
import sys
import matrix.engines._worker as worker
sys.path.insert(0, {here!r})
worker.SERVED["transformers"] = "drill:Drill"
"""

Start = Callable[..., Worker]


@pytest.fixture
def inject(tmp_path: Path) -> Path:
    """A file that has the worker serve the drill."""
    file = tmp_path / "serve_the_drill.py"
    file.write_text(INJECT.format(here=str(HERE)))
    return file


@pytest.fixture
def start(tmp_path: Path, inject: Path) -> Iterator[Start]:
    """Start workers that are closed in the end."""
    workers: list[Worker] = []

    def make(**options: Any) -> Worker:
        log = tmp_path / "logs" / f"worker-{len(workers)}.log"
        worker = Worker("transformers", log, **{"inject": inject, **options})
        workers.append(worker)
        return worker

    yield make
    for worker in workers:
        worker.close()


@pytest.fixture
def worker(start: Start) -> Worker:
    return start()
