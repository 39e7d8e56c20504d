"""Everything that any form of the report shows, gathered once; nothing is laid out here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from matrix.report._inputs import Inputs, open_inputs
from matrix.report._logs import ends_of
from matrix.results import (
    Cell,
    Change,
    Diff,
    Outcome,
    Record,
    StartLine,
    Subject,
    diff,
    merge,
    read_baseline,
    relevant,
    unexpected,
    unmatched,
)

if TYPE_CHECKING:
    from matrix.registry import Expectation

__all__ = ["Gathered", "Known", "gather", "lists", "subject_of"]

StartKey = tuple[str, str, str, str]

_LISTS: Final = ("broken", "gone", "unstable", "fixed", "new")


@dataclass(frozen=True, kw_only=True)
class Known:
    """What a report can't read from its files."""

    sentences: Mapping[str, str] = field(default_factory=dict)
    """Clause id -> what must hold."""
    expectations: Sequence[Expectation] = ()
    gaps: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Pair -> ways of serving it that no run covers: `sglang page-size-256`."""
    engines: Sequence[str] = ()
    """Every engine that there is an adapter for."""
    strict: bool = False
    """`warn` cells are red."""
    xpass_warn: bool = False
    """`xpass` cells are `warn`."""


@dataclass(frozen=True)
class Gathered:
    """Journals merged and compared, and the results of other commands."""

    inputs: Inputs
    known: Known
    record: Record
    """All journals, oldest run first."""
    cells: Mapping[str, Cell]
    """Key -> the cell as the newest run has it."""
    ends: Mapping[str, int | None]
    """Key -> the line of its log before which the cell's part ends."""
    lines: Mapping[str, Sequence[Cell]]
    """Key -> every line of the cell, oldest run first."""
    histories: Mapping[Subject, Sequence[Cell]]
    """Every line of the cell at whatever version of its engine, oldest run first."""
    starts: Mapping[StartKey, StartLine]
    """The last start of each run, engine, pair and settings."""
    changes: Diff | None
    """Since the baseline; `None` without one."""
    unmatched: Sequence[Expectation]

    def red(self, cell: Cell) -> bool:
        """Whether the cell is unexpected."""
        return unexpected(cell, self.known.strict, self.known.xpass_warn)


def gather(files: Sequence[Path], baseline: Path | None, known: Known) -> Gathered:
    """Read and compare.

    A cell that several journals hold is shown as the newest run has it, whatever the order of the
    files; runs of one time stand as given.

    Args:
        files: journals, run folders, and the JSON of `scan`, `preflight` and `selfcheck`.
        baseline: a journal, a run's folder or a folder of journals.
        known: what the files don't say.

    Raises:
        UsageError: a file that is none of these; a journal or baseline that can't be read.
    """
    inputs = open_inputs(files)
    record = merge(sorted(inputs.journals, key=_began))
    lines: dict[str, list[Cell]] = defaultdict(list)
    histories: dict[Subject, list[Cell]] = defaultdict(list)
    ends: dict[str, int | None] = {}
    for cell, end in zip(record.cells, ends_of(record.cells), strict=True):
        lines[cell.key].append(cell)
        histories[subject_of(cell)].append(cell)
        ends[cell.key] = end
    cells = {key: history[-1] for key, history in lines.items()}
    return Gathered(
        inputs=inputs,
        known=known,
        record=record,
        cells=cells,
        ends=ends,
        lines=lines,
        histories=histories,
        starts={(s.run_id, s.engine, s.pair, s.settings): s for s in record.starts},
        changes=_changes(read_baseline(baseline), record, lines) if baseline else None,
        unmatched=unmatched(known.expectations, list(cells.values())),
    )


def lists(changes: Diff) -> dict[str, list[Change]]:
    """The lists of a diff by name, in the order in which they are shown."""
    return {name: getattr(changes, name) for name in _LISTS}


def _began(record: Record) -> str:
    return record.headers[0].time


def _changes(baseline: Record, record: Record, lines: Mapping[str, Sequence[Cell]]) -> Diff:
    """The newest run of each cell against the baseline.

    Of versions that the baseline hasn't, as nightly builds have one each, only the newest run
    counts. A cell that left a verdict and came back to it over the journals is unstable, too.
    """
    kept = {(cell.engine, cell.engine_version) for cell in baseline.cells}
    newest_run = {subject_of(cell): cell.run_id for cell in record.cells}
    last = {key: history[-1].run_id for key, history in lines.items()}
    now = [
        cell
        for cell in record.cells
        if cell.run_id == last[cell.key]
        and (
            (cell.engine, cell.engine_version) in kept
            or cell.run_id == newest_run[subject_of(cell)]
        )
    ]
    runs = {cell.run_id for cell in now}
    newest = Record(
        headers=[header for header in record.headers if header.run_id in runs],
        starts=[start for start in record.starts if start.run_id in runs],
        cells=now,
    )
    found = diff(relevant(baseline, newest), newest)
    for key, history in lines.items():
        if _flaps(history):
            _call_unstable(found, key, history)
    return found


def _call_unstable(found: Diff, key: str, history: Sequence[Cell]) -> None:
    mine = Change(subject_of(history[-1]), history[-2], history[-1])
    for changes in (found.broken, found.gone, found.fixed, found.new, found.unstable):
        for change in changes:
            if change.new is not None and change.new.key == key:
                mine = change
        changes[:] = [change for change in changes if change is not mine]
    found.unstable.append(mine)


def subject_of(cell: Cell) -> Subject:
    """What a cell is compared by: its key without the engine's version."""
    return Subject(cell.engine, cell.settings, cell.dtype, cell.pair, cell.clause)


def _flaps(history: Sequence[Cell]) -> bool:
    judged = [(c.outcome, c.fault) for c in history if c.outcome is not Outcome.SKIP]
    turns = sum(before != after for before, after in pairwise(judged))
    return turns >= 2
