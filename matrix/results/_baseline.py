"""The committed baseline: one journal per engine version, of runs that were as expected."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from matrix.errors import JournalError
from matrix.results._cell import Cell, Outcome, Reason
from matrix.results._diff import newest
from matrix.results._journal import Journal, Line
from matrix.results._outcomes import exit_code, unexpected
from matrix.results._record import Record, latest, merge, read

__all__ = ["read_baseline", "relevant", "update_baseline"]


def read_baseline(path: Path) -> Record:
    """The baseline at `path`: a journal, a run's folder, or a folder of journals.

    Raises:
        JournalError: nothing there, or nothing that can be read.
    """
    journals = sorted(path.glob("*.jsonl")) if path.is_dir() else []
    return merge(map(read, journals)) if journals else read(path)


def relevant(baseline: Record, run: Record) -> Record:
    """The part of `baseline` that `run` can be held against.

    Of each engine that was run: the versions that were run, or the newest one when none was.
    """
    asked = {name for header in run.headers for name in header.engines}
    asked |= {cell.engine for cell in run.cells}
    wanted: set[tuple[str, str]] = set()
    for engine in asked:
        ran = {cell.engine_version for cell in run.cells if cell.engine == engine}
        known = {cell.engine_version for cell in baseline.cells if cell.engine == engine}
        wanted |= {
            (engine, version) for version in (known & ran or {newest(known)} if known else ())
        }
    cells = [cell for cell in baseline.cells if (cell.engine, cell.engine_version) in wanted]
    runs = {cell.run_id for cell in cells}
    return Record(
        headers=[header for header in baseline.headers if header.run_id in runs],
        starts=[s for s in baseline.starts if (s.engine, s.engine_version) in wanted],
        cells=cells,
        problems=baseline.problems,
        folders=baseline.folders,
    )


def update_baseline(
    journal: Path, folder: Path, strict: bool = False, xpass_warn: bool = False
) -> list[Path]:
    """Make `journal` the baseline of the engine versions it holds; the files written.

    Each becomes `<engine>-<version>.jsonl`, without logs, in one step.

    Raises:
        JournalError: the run is no baseline: it was not as expected, was cut, was injected, or
            lacks cells that the present baseline has.
    """
    run = read(journal)
    cells = list(latest(run.cells))
    _refuse(journal, run, cells, strict, xpass_warn)
    versions = sorted({(cell.engine, cell.engine_version) for cell in cells})
    files = {key: folder / _name(*key) for key in versions}
    for key, file in files.items():
        _refuse_loss(file, [cell for cell in cells if (cell.engine, cell.engine_version) == key])
    for (engine, version), file in files.items():
        lines: list[Line] = [*run.headers]
        lines += [s for s in run.starts if (s.engine, s.engine_version) == (engine, version)]
        lines += [
            msgspec.structs.replace(cell, log=None, log_line=None)
            for cell in cells
            if (cell.engine, cell.engine_version) == (engine, version)
        ]
        _replace(file, lines)
    return list(files.values())


def _refuse(journal: Path, run: Record, cells: list[Cell], strict: bool, xpass_warn: bool) -> None:
    red = [cell.key for cell in cells if unexpected(cell, strict, xpass_warn)]
    injected = [header.inject for header in run.headers if header.inject]
    if red:
        problem = f"{len(red)} cells are not as expected, first {red[0]}"
    elif run.problems:
        problem = f"the journal is damaged ({run.problems[0]})"
    elif any(cell.reason_code is Reason.FILTERED for cell in cells):
        problem = "clauses were left out by --clause"
    elif injected:
        problem = f"{injected[0].get('path', 'a file')} was injected"
    elif exit_code(cells, strict, xpass_warn):
        problem = "no cell was judged"
    else:
        return
    raise JournalError(
        f"{journal}: no baseline: {problem}; a baseline is a run that is as expected"
    )


def _refuse_loss(file: Path, cells: list[Cell]) -> None:
    if not file.exists():
        return
    judged = {cell.key for cell in cells if cell.outcome is not Outcome.SKIP}
    present = [cell.key for cell in read(file).cells if cell.outcome is not Outcome.SKIP]
    if lost := [key for key in present if key not in judged]:
        raise JournalError(
            f"{file}: {len(lost)} cells of the baseline are not in the run, first {lost[0]}; "
            "run them too, or delete the file first"
        )


def _name(engine: str, version: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]", "_", f"{engine}-{version}") + ".jsonl"


def _replace(file: Path, lines: Iterable[Line]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=".baseline-") as folder:
            draft = Path(folder) / file.name
            with Journal(draft) as journal:
                for line in lines:
                    journal.write(line)
            draft.replace(file)
    except OSError as error:
        raise JournalError(
            f"{file}: the baseline can't be written ({error.strerror or error}); "
            "it needs a writable folder with free space"
        ) from error
