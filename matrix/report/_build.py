"""From journals to one file of HTML."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from matrix.errors import UsageError
from matrix.report._entry import Frame
from matrix.report._page import Page, build_page, changes_of
from matrix.results import diff, merge, read, read_baseline, relevant, unmatched

if TYPE_CHECKING:
    from matrix.registry import Expectation

__all__ = ["write_report"]

_NO_SENTENCES: Final[Mapping[str, str]] = MappingProxyType({})


def write_report(
    journals: Sequence[Path],
    out: Path,
    baseline: Path | None = None,
    *,
    sentences: Mapping[str, str] = _NO_SENTENCES,
    expectations: Sequence[Expectation] = (),
    strict: bool = False,
    xpass_warn: bool = False,
) -> Path:
    """Write the report of `journals`; the path of the file.

    A cell that several journals hold is shown as the last one has it.

    Args:
        journals: journals or folders of runs.
        out: the file, or an existing folder, in which it becomes `report.html`.
        baseline: a journal, a run's folder or a folder of journals to compare with.
        sentences: clause id -> what must hold.
        expectations: rows, for the list of those that no cell needed.
        strict: `warn` cells are red.
        xpass_warn: `xpass` cells are `warn`.

    Raises:
        JournalError: a journal or the baseline can't be read.
        UsageError: no journal was given, or `out` can't be written.
    """
    if not journals:
        raise UsageError("report: no journal given; name at least one journal or run folder")
    file = out / "report.html" if out.is_dir() else out
    record = merge(map(read, journals))
    compared = diff(relevant(read_baseline(baseline), record), record) if baseline else None
    frame = Frame(
        folders=record.folders,
        changes=changes_of(compared) if compared else {},
        sentences=sentences,
        beside=file.parent,
        strict=strict,
        xpass_warn=xpass_warn,
    )
    lonely = (f"{r.name}: {r.reason} ({r.link})" for r in unmatched(expectations, record.cells))
    html = _render(build_page(record, compared, lonely, frame))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(html.encode("utf-8", "replace"))
    except OSError as error:
        raise UsageError(
            f"{file}: the report can't be written ({error.strerror or error}); "
            "it needs a writable folder with free space"
        ) from error
    return file


def _render(page: Page) -> str:
    loader = PackageLoader("matrix.report", "templates")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = (loader.get_source(environment, f"report.{kind}")[0] for kind in ("css", "js"))
    # Ours, from the package: the only text that is not escaped. The policy lets nothing else run.
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return environment.get_template("report.html").render(
        page=page,
        policy=policy,
        style=Markup(style),  # noqa: S704
        script=Markup(script),  # noqa: S704
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
