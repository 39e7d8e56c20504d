"""From files to the forms of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matrix.errors import UsageError
from matrix.report._ci import junit, notes, sarif
from matrix.report._gather import Gathered, Known, gather
from matrix.report._html import html
from matrix.report._markdown import markdown
from matrix.report._page import Page, page_of

__all__ = ["Report", "make_report", "save", "write_report"]


@dataclass(frozen=True)
class Report:
    """One report, in whatever form is asked for."""

    gathered: Gathered
    page: Page

    def html(self) -> str:
        """One file that loads nothing."""
        return html(self.page)

    def markdown(self) -> str:
        """In short, for a CI job's summary."""
        return markdown(self.page)

    def junit(self) -> str:
        """JUnit XML, a case for each cell."""
        return junit(self.page)

    def sarif(self) -> str:
        """SARIF 2.1.0: findings of scans, and unexpected cells."""
        return sarif(self.page, self.gathered)

    def annotations(self) -> str:
        """Workflow commands, one a line; empty where there is nothing to say."""
        return notes(self.page, self.gathered)


def make_report(
    files: Sequence[Path], beside: Path, baseline: Path | None = None, known: Known | None = None
) -> Report:
    """The report of journals, and of what other commands print.

    Args:
        files: journals or folders of runs, and what `scan`, `preflight` and `selfcheck` print with
            `--json`.
        beside: the folder that it will lie in; links to logs are relative to it.
        baseline: a journal, a run's folder or a folder of journals to compare with.
        known: what the files don't say: sentences, expectations, gaps, what is red.

    Raises:
        JournalError: a journal or the baseline can't be read.
        UsageError: a file is none of these.
    """
    gathered = gather(files, baseline, known or Known())
    return Report(gathered, page_of(gathered, beside))


def write_report(
    files: Sequence[Path],
    out: Path,
    baseline: Path | None = None,
    known: Known | None = None,
) -> Path:
    """Write the HTML report; the path of the file.

    Args:
        files: as for `make_report`.
        out: the file, or an existing folder, in which it becomes `report.html`.
        baseline: as for `make_report`.
        known: as for `make_report`.

    Raises:
        JournalError: a journal or the baseline can't be read.
        UsageError: a file is none of these, or `out` can't be written.
    """
    file = out / "report.html" if out.is_dir() else out
    return save(file, make_report(files, file.parent, baseline, known).html())


def save(file: Path, text: str) -> Path:
    """Write one form of a report; the path.

    Raises:
        UsageError: it can't be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("utf-8", "replace"))
    except OSError as error:
        raise UsageError(
            f"{file}: the report can't be written ({error.strerror or error}); "
            "it needs a writable folder with free space"
        ) from error
    return file
