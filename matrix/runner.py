"""One (pair, engine): start, every clause, journal. The one place where the two meet."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from matrix import _examples
from matrix._cells import At, CellWriter
from matrix._plan import Plan
from matrix.contract import CLAUSES, STARTS, Bench, Clause, Examples, Finding, Skip, Verdict, death
from matrix.engines import Identity, RemoteEngine, Started, StartSpec, Worker
from matrix.errors import (
    AdapterError,
    EngineError,
    HarnessError,
    MissingDependency,
    PlatformRefused,
    WorkerGone,
)
from matrix.faults import Fault
from matrix.reference import Reference
from matrix.registry import Pair, gated
from matrix.results import Cell, Outcome, Reason, StartLine
from matrix.twins import Twin, lacking, served_as, unbuilt

__all__ = ["Row"]

SETTINGS: Final = ("plain", "main", "public", "tp2", "pp2")
"""The starts of a row, in their order; those behind `main` only where a row asks for them."""
RESTARTS: Final = 3
"""Starts after a worker died in the middle; then the rest of the row is `engine-gone`."""


class _Stopped(Exception):  # noqa: N818 - a signal to the row, not an error
    """The run is broken off: what is under way has no outcome."""


@dataclass(frozen=True)
class _Said:
    """What asking one clause came to: a verdict, or why there is none."""

    verdict: Verdict | Skip | None = None
    outcome: Outcome = Outcome.ERROR
    reason: Reason | None = None
    detail: str = ""
    gone: bool = False
    """The worker is lost."""
    adapter: HarnessError | None = None
    """The adapter no longer fits the engine: nothing more can be asked of it."""


@dataclass
class Row:
    """One pair on one engine.

    Args:
        plan: what the run is asked to do.
        pair: the row.
        run_id: the run's name.
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
    write: Callable[[Cell | StartLine], None]
    worker: Worker | None = None
    _restarts: int = 0
    _stopped: bool = False
    _until: float = float("inf")

    def __post_init__(self) -> None:
        """Make the writer of this row's cells."""
        self._writer = CellWriter(self.plan, self.pair, self.run_id, self.identity, self.write)

    @property
    def cells(self) -> list[Cell]:
        """The cells so far."""
        return self._writer.cells

    def run(self) -> list[Cell]:
        """Judge every clause of the plan on this row; whatever happens becomes a cell."""
        self._until = time.monotonic() + self.plan.deadlines.row
        todo = [clause for clause in CLAUSES.values() if self._selected(clause)]
        try:
            twin = self._twin()
        except MissingDependency as error:
            self._writer.skip(todo, Reason.MISSING_DEPENDENCY, str(error))
        except HarnessError as error:
            for clause in todo:
                self._writer.put(clause, Outcome.ERROR, None, str(error))
        else:
            with contextlib.suppress(_Stopped):
                self._judge(twin, todo)
        finally:
            if self.worker:
                self.worker.close()
        return self.cells

    def _twin(self) -> Twin:
        who = self.identity
        if "start" in who.lacks:  # classes alone: nothing is loaded, so no release is too old
            return unbuilt(self.pair)
        why = gated(self.pair, self.plan.engine, who.version, who.transformers)
        if why := why or lacking(self.pair):
            raise MissingDependency(why)
        return self.reference.twin(self.pair, self.plan.dtype)

    def stop(self) -> None:
        """Break the row off, from any thread; its cells so far stay."""
        self._stopped = True
        if self.worker:
            self.worker.kill()

    def not_run(self, outcome: Outcome, reason: Reason | None, why: str) -> None:
        """Write one cell a clause for an engine that couldn't even be identified."""
        for clause in CLAUSES.values():
            if clause.id in self.plan.clauses:
                self._writer.put(clause, outcome, reason, why)

    def _selected(self, clause: Clause) -> bool:
        """Write the skip of a clause that isn't judged here at all."""
        lacks = self.identity.lacks
        if clause.id not in self.plan.clauses:
            self._writer.skip([clause], Reason.FILTERED, "left out by --clause")
        elif lacking := [need for need in clause.needs if need in lacks]:
            why = f"no {lacking[0]}: {lacks[lacking[0]]}"
            self._writer.skip([clause], Reason.NOT_APPLICABLE, why)
        elif clause.settings[-1] not in ("plain", "main", *self.pair.starts):
            why = f"the row asks for no start `{clause.settings[-1]}`"
            self._writer.skip([clause], Reason.NOT_APPLICABLE, why)
        else:
            return True
        return False

    def _judge(self, twin: Twin, todo: list[Clause]) -> None:
        """One start after the other, each with the clauses that are judged on it."""
        bench = Bench(
            self.pair,
            twin,
            self._engine(),
            self.reference,
            lacks=self.identity.lacks,
            dtype=self.plan.dtype,
            seed=self.plan.seed,
        )
        for settings in ("main",) if "settings" in self.identity.lacks else SETTINGS:
            waiting = [c for c in todo if settings in c.settings and not self._writer.done(c)]
            mine = [c for c in waiting if c.settings[-1] == settings]
            if "main" in bench.refused and settings != "main":
                self._writer.skip(mine, Reason.START_FAILED, f"main: {bench.refused['main']}")
                continue
            # What the whole platform refuses already without a draft is refused for all.
            concerned = todo if settings == "plain" else mine or waiting
            if waiting and self._start(bench, settings, concerned):
                self._clauses(bench, mine, settings)

    def _go_on(self) -> None:
        if self._stopped:
            raise _Stopped

    def _engine(self) -> RemoteEngine:
        if self.worker is None or self.worker.gone:
            log = self.plan.out / "logs" / f"{self.plan.engine}-{self.pair.key}.log"
            self.worker = self.plan.worker(log)
        return RemoteEngine(self.worker, self.plan.deadlines, self._until)

    def _start(self, bench: Bench, settings: str, todo: list[Clause]) -> bool:
        """Start the engine; whether its clauses can be judged. Writes the `start` line."""
        bench.engine = self._engine()
        self._go_on()
        began, outcome = time.monotonic(), Outcome.PASS
        gone: WorkerGone | None = None
        try:
            bench.engine.stop()
            started = bench.engine.start(self._spec(bench.twin, settings))
            bench.started = {**bench.started, settings: started}
            bench.lacks = {**self.identity.lacks, **started.lacks, **started.needs_gpu}
            self._lacking(todo, started)
        except PlatformRefused as error:
            outcome = Outcome.SKIP
            self._writer.skip(todo, Reason.NEEDS_GPU, error.text)
        except EngineError as error:
            outcome = Outcome.FAIL
            bench.refused = {**bench.refused, settings: error}
        except HarnessError as error:
            outcome = Outcome.ERROR
            self._harness_failed(todo[0], error, self._here(began))
        except WorkerGone as error:
            self._go_on()
            outcome, gone = Outcome(error.outcome), error
        seconds = round(time.monotonic() - began, 3)
        rss = round(self.worker.peak_mb, 1) if self.worker else 0.0
        if "start" not in self.identity.lacks:
            self._writer.started(settings, seconds, outcome, rss, bench.twin.fingerprint)
        metrics = {"seconds": seconds, "rss_mb": rss}
        bench.start_metrics = {**bench.start_metrics, settings: metrics}
        if gone is not None:
            self._start_lost(todo, settings, gone)
        return outcome in (Outcome.PASS, Outcome.FAIL)

    def _lacking(self, todo: list[Clause], started: Started) -> None:
        """Skip what this start can't have; for want of a GPU with the engine's own sentence."""
        for clause in todo:
            for need in clause.needs:
                if why := started.needs_gpu.get(need):
                    self._writer.skip([clause], Reason.NEEDS_GPU, why)
                elif why := started.lacks.get(need):
                    self._writer.skip([clause], Reason.NOT_APPLICABLE, f"no {need}: {why}")

    def _spec(self, twin: Twin, settings: str) -> StartSpec:
        return StartSpec(
            arch=self.pair.arch,
            target=twin.target,
            draft=None if settings == "plain" else twin.draft,
            settings=settings,
            method=self.pair.speculative_method,
            dtype=self.plan.dtype,
            device="cuda" if self.identity.device != "cpu" else "cpu",
            drafts=twin.drafts,
            max_model_len=1024,
            trust_remote_code=self.pair.trust_remote_code,
            args=dict(self.pair.engine_args.get(self.plan.engine, {})),
            served_as=served_as(self.pair, twin),
            hub_id=self.pair.target,
            layer_ids=list(twin.layer_ids),
        )

    def _start_lost(self, todo: list[Clause], settings: str, gone: WorkerGone) -> None:
        """The worker ended while it started: the start's own clause says so, if it is judged."""
        mine = [clause for clause in todo if clause.settings[-1] == settings]
        for clause in mine:
            if clause.id == STARTS.get(settings) and not self._writer.done(clause):
                self._writer.put(clause, Outcome(gone.outcome), None, gone.how)
        self._writer.skip(mine, Reason.START_FAILED, f"start: {gone.how}")

    def _clauses(self, bench: Bench, todo: list[Clause], settings: str) -> None:
        left = [clause for clause in todo if not self._writer.done(clause)]
        while left:
            refusal = bench.refused.get(settings)
            # Of a refused start its own clause is judged, wherever it stands.
            left.sort(key=lambda clause: refusal is None or clause.id != STARTS.get(settings))
            clause = left[0]
            if refusal is not None and clause.id != STARTS.get(settings):
                self._writer.skip(left, Reason.START_FAILED, f"start refused: {refusal}")
                return
            alive = self._one(bench, clause)
            left = [clause for clause in left if not self._writer.done(clause)]
            if not alive and left and not self._restart(bench, settings, left):
                return

    def _restart(self, bench: Bench, settings: str, left: list[Clause]) -> bool:
        """Go on in a new start after a worker died; `False` when that is not to be had."""
        self._restarts += 1
        if self._restarts > RESTARTS or time.monotonic() > self._until:
            why = "time is up" if self._restarts <= RESTARTS else f"it died {self._restarts} times"
            self._writer.skip(left, Reason.ENGINE_GONE, f"the worker is gone: {why}")
            return False
        return self._start(bench, settings, left) and settings not in bench.refused

    def _here(self, since: float) -> At:
        worker = self.worker
        return At(since, worker.log, worker.log_line() + 1) if worker else At(since, None, 0)

    def _one(self, bench: Bench, clause: Clause) -> bool:
        """Judge one clause; whether the worker is still there."""
        assert self.worker is not None, "the row was started"
        at, flooded = self._here(time.monotonic()), self.worker.flooded
        bench.examples = self._examples(clause)
        bench.shrunk, bench.tried = {}, {}
        if isinstance(bench.engine, RemoteEngine):
            bench.engine.until = min(self._until, at.since + self.plan.deadlines.clause)
        said = self._ask(bench, clause)
        verdict = said.verdict
        if not flooded and self.worker.flooded and not said.gone:
            verdict = Verdict((Finding(Fault.LOG_FLOOD, "the output passed its ceiling"),))
        _examples.save(self.plan.engine, self.pair.key, clause.id, bench.shrunk.values())
        if said.adapter is not None:
            self._harness_failed(clause, said.adapter, at)
        elif isinstance(verdict, Verdict):
            self._writer.judged(clause, verdict, bench.tried, at)
        elif isinstance(verdict, Skip):
            self._writer.put(clause, Outcome.SKIP, Reason(verdict.code), verdict.reason, at)
        else:
            self._writer.put(clause, said.outcome, said.reason, said.detail, at)
        return not said.gone

    def _ask(self, bench: Bench, clause: Clause) -> _Said:
        try:
            try:
                return _Said(clause.check(bench))
            except PlatformRefused:
                raise
            except EngineError as error:
                return _Said(Verdict(death(bench, error, clause.gives), detail=str(error)))
        except WorkerGone as error:
            self._go_on()
            return _Said(outcome=Outcome(error.outcome), detail=error.how, gone=True)
        except AdapterError as error:
            return _Said(adapter=error)
        except PlatformRefused as error:
            return _Said(outcome=Outcome.SKIP, reason=Reason.NEEDS_GPU, detail=error.text)
        except HarnessError as error:
            return _Said(detail=str(error))
        except KeyError as error:
            lacks = f"--example lacks {error}" if self.plan.example is not None else repr(error)
            return _Said(detail=lacks)
        except Exception as error:  # a clause of ours that fails must not end the run
            return _Said(detail=f"{type(error).__name__}: {error}")

    def _examples(self, clause: Clause) -> Examples:
        rows = self._writer.expected(clause)
        return Examples(
            count=self.plan.max_examples,
            seed=self.plan.seed,
            only=self.plan.example,
            pinned=tuple(example for row in rows for example in row.examples),
            saved=_examples.load(self.plan.engine, self.pair.key, clause.id),
            known=frozenset(row.fault for row in rows),
            shrink_seconds=self.plan.shrink_seconds,
            profile=self.plan.profile,
        )

    def _harness_failed(self, clause: Clause, error: HarnessError, at: At) -> None:
        """One `error` cell, and the rest of the row skipped: never forty reds for one cause."""
        self._writer.put(clause, Outcome.ERROR, None, str(error), at)
        self._writer.skip(list(CLAUSES.values()), Reason.ENGINE_GONE, str(error))
