"""One (pair, engine): start, every clause, journal. The one place where the two meet."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from matrix import _examples
from matrix._plan import Plan
from matrix.contract import CLAUSES, Bench, Clause, Examples, Finding, Skip, Verdict, death
from matrix.engines import Identity, RemoteEngine, StartSpec, Worker
from matrix.errors import (
    AdapterError,
    EngineError,
    HarnessError,
    MissingDependency,
    PlatformRefused,
    ReferenceFailed,
    WorkerGone,
)
from matrix.faults import Fault, Severity, worst_first
from matrix.reference import Reference
from matrix.registry import Expectation, Pair
from matrix.results import Cell, Found, Outcome, Reason, StartLine, apply
from matrix.twins import Twin

__all__ = ["Row"]

RESTARTS: Final = 3
"""Starts after a worker died in the middle; then the rest of the row is `engine-gone`."""

Write = Callable[[Cell | StartLine], None]


class _Stopped(Exception):  # noqa: N818 - a signal to the row, not an error
    """The run is broken off: what is under way has no outcome."""


@dataclass
class Row:
    """One pair on one engine.

    Args:
        plan: what the run is asked to do.
        pair: the row.
        identity: who the engine is.
        reference: what is right.
        write: takes every cell and start line the moment it is known.
        worker: a worker that is ready, or `None` to start one.
    """

    plan: Plan
    pair: Pair
    run_id: str
    identity: Identity
    reference: Reference
    write: Write
    worker: Worker | None = None
    cells: list[Cell] = field(default_factory=list)
    _restarts: int = 0
    _stopped: bool = False
    _until: float = float("inf")

    def run(self) -> list[Cell]:
        """Judge every clause of the plan on this row; whatever happens becomes a cell."""
        self._until = time.monotonic() + self.plan.deadlines.row
        todo = [clause for clause in CLAUSES.values() if self._selected(clause)]
        try:
            twin = self.reference.twin(self.pair, self.plan.dtype)
        except MissingDependency as error:
            self._skip_all(todo, Reason.MISSING_DEPENDENCY, str(error))
        except HarnessError as error:
            for clause in todo:
                self._cell(clause, Outcome.ERROR, detail=str(error))
        else:
            with contextlib.suppress(_Stopped):
                self._judge(twin, todo)
        finally:
            if self.worker:
                self.worker.close()
        return self.cells

    def stop(self) -> None:
        """Break the row off, from any thread; its cells so far stay."""
        self._stopped = True
        if self.worker:
            self.worker.kill()

    def not_run(self, outcome: Outcome, reason: Reason | None, why: str) -> None:
        """Write one cell a clause for an engine that couldn't even be identified."""
        for clause in CLAUSES.values():
            if clause.id in self.plan.clauses:
                self._cell(clause, outcome, reason, why)

    def _selected(self, clause: Clause) -> bool:
        """Write the skip of a clause that isn't judged here at all."""
        if clause.id not in self.plan.clauses:
            self._cell(clause, Outcome.SKIP, Reason.FILTERED, "left out by --clause")
        elif lacking := [need for need in clause.needs if need in self.identity.lacks]:
            why = self.identity.lacks[lacking[0]]
            self._cell(clause, Outcome.SKIP, Reason.NOT_APPLICABLE, f"no {lacking[0]}: {why}")
        else:
            return True
        return False

    def _judge(self, twin: Twin, todo: list[Clause]) -> None:
        """A plain start first where a clause needs one, then the main start and its clauses."""
        bench = Bench(self.pair, twin, self._engine(), self.reference)
        bench = replace(
            bench, lacks=self.identity.lacks, dtype=self.plan.dtype, seed=self.plan.seed
        )
        if any("plain" in clause.settings for clause in todo):
            self._start(bench, "plain", todo)
            plain = [clause for clause in todo if clause.settings[-1] == "plain"]
            self._clauses(bench, plain, "plain")
        main = [clause for clause in todo if clause.settings[-1] == "main" and not self._done(clause)]
        if main and self._start(bench, "main", main):
            self._clauses(bench, main, "main")

    def _go_on(self) -> None:
        if self._stopped:
            raise _Stopped

    def _engine(self) -> RemoteEngine:
        if self.worker is None or self.worker.gone:
            log = self.plan.out / "logs" / f"{self.plan.engine}-{self.pair.key}.log"
            env = {"HF_HUB_OFFLINE": "1"} if self.plan.offline else {}
            self.worker = Worker(
                self.plan.engine,
                log,
                self.plan.python,
                self.plan.inject,
                env={"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", **env},
                memory_mb=self.plan.memory_mb,
            )
        return RemoteEngine(self.worker, self.plan.deadlines, self._until)

    def _start(self, bench: Bench, settings: str, todo: list[Clause]) -> bool:
        """Start the engine; whether its clauses can be judged. Writes the `start` line."""
        bench.engine = self._engine()
        self._go_on()
        began, outcome, gone = time.monotonic(), Outcome.PASS, None
        try:
            bench.engine.stop()
            started = bench.engine.start(self._spec(bench.twin, settings))
            bench.started = {**bench.started, settings: started}
        except PlatformRefused as error:
            outcome = Outcome.SKIP
            self._skip_all(todo, Reason.NEEDS_GPU, error.text)
        except EngineError as error:
            outcome = Outcome.FAIL
            bench.refused = {**bench.refused, settings: error}
        except HarnessError as error:
            outcome = Outcome.ERROR
            self._harness_failed(todo, error)
        except WorkerGone as error:
            self._go_on()
            outcome, gone = Outcome(error.outcome), error
        seconds = time.monotonic() - began
        assert self.worker is not None, "there is one after `_engine`"
        rss = round(self.worker.peak_mb, 1)
        self.write(
            StartLine(
                run_id=self.run_id,
                engine=self.plan.engine,
                engine_version=self.identity.version,
                pair=self.pair.key,
                settings=settings,
                seconds=round(seconds, 3),
                outcome=outcome,
                rss_mb=rss,
            )
        )
        metrics = {"seconds": round(seconds, 3), "rss_mb": rss}
        bench.start_metrics = {**bench.start_metrics, settings: metrics}
        if gone is not None:
            self._start_lost(todo, settings, gone)
        return outcome in (Outcome.PASS, Outcome.FAIL)

    def _spec(self, twin: Twin, settings: str) -> StartSpec:
        return StartSpec(
            target=twin.target,
            draft=None if settings == "plain" else twin.draft,
            settings=settings,
            method=self.pair.speculative_method,
            dtype=self.plan.dtype,
            device="cuda" if self.identity.device != "cpu" else "cpu",
            drafts=twin.block_size - 1,
            max_model_len=1024,
            trust_remote_code=self.pair.trust_remote_code,
            args=dict(self.pair.engine_args.get(self.plan.engine, {})),
        )

    def _start_lost(self, todo: list[Clause], settings: str, gone: WorkerGone) -> None:
        """The worker ended while it started: the start's own clause says so."""
        start = "START-PLAIN" if settings == "plain" else "START-LOAD"
        for clause in todo:
            if clause.settings[-1] != settings:
                continue
            if clause.id == start:
                self._cell(clause, Outcome(gone.outcome), detail=gone.how)
            else:
                self._cell(clause, Outcome.SKIP, Reason.START_FAILED, f"start: {gone.how}")

    def _clauses(self, bench: Bench, todo: list[Clause], settings: str) -> None:
        left = list(todo)
        while left:
            clause = left.pop(0)
            if self._done(clause):
                continue
            refusal = bench.refused.get(settings)
            if refusal is not None and clause.id not in ("START-PLAIN", "START-LOAD"):
                self._cell(clause, Outcome.SKIP, Reason.START_FAILED, f"start refused: {refusal}")
                continue
            alive = self._one(bench, clause)
            left = [clause for clause in left if not self._done(clause)]
            if not alive and left and not self._restart(bench, settings, left):
                return

    def _done(self, clause: Clause) -> bool:
        return any(cell.clause == clause.id for cell in self.cells)

    def _restart(self, bench: Bench, settings: str, left: list[Clause]) -> bool:
        """Go on in a new start after a worker died; `False` when that is not to be had."""
        self._restarts += 1
        if self._restarts > RESTARTS or time.monotonic() > self._until:
            why = "time is up" if self._restarts <= RESTARTS else f"it died {self._restarts} times"
            self._skip_all(left, Reason.ENGINE_GONE, f"the worker is gone: {why}")
            return False
        return self._start(bench, settings, left) and settings not in bench.refused

    def _one(self, bench: Bench, clause: Clause) -> bool:
        """Judge one clause; whether the worker is still there."""
        assert self.worker is not None, "the row was started"
        began, log_line = time.monotonic(), self.worker.log_line() + 1
        flooded = self.worker.flooded
        bench.examples = self._examples(clause)
        bench.shrunk, bench.tried = {}, {}
        if isinstance(bench.engine, RemoteEngine):
            bench.engine.until = min(self._until, began + self.plan.deadlines.clause)
        gone = False
        verdict: Verdict | Skip | None = None
        outcome, reason, detail = Outcome.ERROR, None, ""
        try:
            verdict = clause.check(bench)
        except WorkerGone as error:
            self._go_on()
            gone, outcome, detail = True, Outcome(error.outcome), error.how
        except ReferenceFailed as error:
            detail = str(error)
        except AdapterError as error:
            self._harness_failed([clause], error, since=began, log_line=log_line)
            return False
        except PlatformRefused as error:
            outcome, reason, detail = Outcome.SKIP, Reason.NEEDS_GPU, error.text
        except EngineError as error:
            verdict = Verdict(death(bench, error, clause.gives), detail=str(error))
        except Exception as error:  # a clause of ours that fails must not end the run
            detail = f"{type(error).__name__}: {error}"
        if not flooded and self.worker.flooded and not gone:
            verdict = Verdict((Finding(Fault.LOG_FLOOD, "the output passed its ceiling"),))
        _examples.save(self.plan.engine, self.pair.key, clause.id, bench.shrunk.values())
        times = {"since": began, "log_line": log_line}
        if isinstance(verdict, Verdict):
            self._judged(bench, clause, verdict, **times)
        elif isinstance(verdict, Skip):
            self._cell(clause, Outcome.SKIP, Reason(verdict.code), verdict.reason, **times)
        else:
            self._cell(clause, outcome, reason, detail, **times)
        return not gone

    def _examples(self, clause: Clause) -> Examples:
        rows = [row for row in self.plan.expectations if self._covers(row, clause)]
        return Examples(
            count=self.plan.max_examples,
            seed=self.plan.seed,
            only=self.plan.example,
            pinned=tuple(example for row in rows for example in row.examples),
            saved=_examples.load(self.plan.engine, self.pair.key, clause.id),
            known=frozenset(row.fault for row in rows),
            derandomize=self.plan.derandomize,
        )

    def _covers(self, row: Expectation, clause: Clause) -> bool:
        """Whether an expectation speaks of this clause here: it would turn a failure into xfail."""
        blank = self._blank(clause, Outcome.FAIL)
        found = [Found(row.fault, Severity.WRONG)]
        trial = msgspec.structs.replace(blank, faults=found, fault=row.fault)
        if row.outcome == Outcome.WARN:
            trial = msgspec.structs.replace(trial, outcome=Outcome.WARN)
        return apply(trial, [row], {}).outcome is Outcome.XFAIL

    def _judged(
        self, bench: Bench, clause: Clause, verdict: Verdict, *, since: float, log_line: int
    ) -> None:
        if stray := [f.label for f in verdict.findings if f.label not in clause.gives]:
            text = f"{clause.id} gave {stray[0]}, which matrix.faults.GIVES doesn't list for it"
            self._cell(clause, Outcome.ERROR, detail=text, since=since, log_line=log_line)
            return
        faults = sorted(
            (
                Found(f.label, clause.severity_of(f.label), f.phase, f.example, f.evidence)
                for f in verdict.findings
            ),
            key=lambda found: worst_first(found.severity),
        )
        red = any(found.severity is not Severity.GUARD for found in faults)
        outcome = Outcome.FAIL if red else Outcome.WARN if faults else Outcome.PASS
        detail = verdict.detail or (faults[0].evidence if faults else "")
        self._cell(
            clause,
            outcome,
            detail=detail,
            since=since,
            log_line=log_line,
            pinned=bench.tried,
            faults=faults,
            fault=faults[0].label if faults else None,
            expected=verdict.expected,
            actual=verdict.actual,
            tolerance=verdict.tolerance,
            margin=verdict.margin,
            example=faults[0].example if faults else self.plan.example,
            metrics=dict(verdict.metrics),
        )

    def _harness_failed(
        self, todo: list[Clause], error: HarnessError, *, since: float = 0.0, log_line: int = 0
    ) -> None:
        """One `error` cell, and the rest of the row skipped: never forty reds for one cause."""
        first, *rest = todo or [None]
        if first is not None:
            self._cell(first, Outcome.ERROR, detail=str(error), since=since, log_line=log_line)
        rest = [clause for clause in rest if clause is not None]
        left = [clause for clause in CLAUSES.values() if not self._done(clause)]
        self._skip_all([*rest, *left], Reason.ENGINE_GONE, str(error))

    def _skip_all(self, clauses: list[Clause], reason: Reason, why: str) -> None:
        for clause in clauses:
            if not self._done(clause):
                self._cell(clause, Outcome.SKIP, reason, why)

    def _blank(self, clause: Clause, outcome: Outcome) -> Cell:
        return Cell(
            run_id=self.run_id,
            time=_now(),
            engine=self.plan.engine,
            engine_version=self.identity.version,
            settings=clause.settings[-1],
            dtype=self.plan.dtype,
            pair=self.pair.key,
            pair_kind=self.pair.kind,
            target=self.pair.target,
            draft=self.pair.speculative_model,
            arch=self.pair.arch,
            tier=clause.tier,
            clause=clause.id,
            clause_version=clause.version,
            outcome=outcome,
            standins=list(self.identity.standins),
        )

    def _cell(
        self,
        clause: Clause,
        outcome: Outcome,
        reason: Reason | None = None,
        detail: str = "",
        *,
        since: float = 0.0,
        log_line: int = 0,
        pinned: dict[str, tuple[Finding, ...]] | None = None,
        **values: Any,
    ) -> None:
        cell = msgspec.structs.replace(
            self._blank(clause, outcome),
            reason_code=reason,
            detail=detail,
            seconds=round(time.monotonic() - since, 4) if since else 0.0,
            log=str(self.worker.log.relative_to(self.plan.out)) if self.worker else None,
            log_line=log_line or None,
            repro=self.plan.repro(self.pair, clause.id, values.get("example")),
            **values,
        )
        gave = {
            key: frozenset(finding.label for finding in found)
            for key, found in (pinned or {}).items()
        }
        cell = apply(cell, self.plan.expectations, gave)
        self.cells.append(cell)
        self.write(cell)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
