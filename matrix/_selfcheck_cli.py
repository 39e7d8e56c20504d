"""The subcommand `selfcheck`."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import closing, contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from matrix.errors import MissingDependency, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from matrix.selfcheck import Drilled, Subject

__all__ = ["register"]

_ENGINES: Final = ("transformers", "vllm", "sglang")


def register(sub: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `selfcheck` to a command line."""
    what = "plant faults in an engine and see whether the matrix finds and names them"
    parser = sub.add_parser("selfcheck", help=what, description=what)
    add = parser.add_argument
    add("--engine", default="transformers", choices=_ENGINES)
    add("--python", metavar="E=PATH", help="the engine's interpreter")
    add("--fault", action="append", default=[], metavar="GLOB", help="only these files")
    add("--out", type=Path, metavar="DIR", help="keep each drill's journal here")
    add("--json", action="store_true", help="print JSON")
    parser.set_defaults(handler=_selfcheck)


def _selfcheck(args: argparse.Namespace) -> int:
    """1: a fault was missed or misnamed, or something turned red without a cause; 3: no engine."""
    import msgspec

    from matrix.selfcheck import score, score_text, table
    from matrix.session import INSTALL

    subject = _subject(args)
    files = _files(args)
    try:
        with _own_cache(), tempfile.TemporaryDirectory() as folder:
            drills = list(_drills(subject, files, args.out or Path(folder)))
    except MissingDependency as error:
        print(f"{args.engine}: {error}; {INSTALL[args.engine]}", file=sys.stderr)
        return 3
    found = score(args.engine, drills, table()[args.engine])
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=1).decode())
    else:
        print(score_text(found))
    return int(found.failed)


def _subject(args: argparse.Namespace) -> Subject:
    from matrix.registry import user_config
    from matrix.selfcheck import subject

    found = subject(args.engine)
    python = user_config(Path.cwd()).python.get(args.engine, found.python)
    if args.python:
        engine, _, python = args.python.partition("=")
        if engine != args.engine or not Path(python).is_file():
            raise UsageError(
                f"--python {args.python}: want {args.engine}=PATH of an interpreter that has it"
            )
    if python is None:
        raise UsageError(
            f"--engine {args.engine}: no interpreter that has it is named; "
            f"give --python {args.engine}=PATH"
        )
    return replace(found, python=python)


def _files(args: argparse.Namespace) -> list[tuple[bool, Path]]:
    """Whether it is harmless, and the file, of all that the globs select."""
    from matrix.selfcheck import planted

    every = [
        (kind == "harmless", file)
        for kind in ("planted", "harmless")
        for file in planted(kind, args.engine)
    ]
    for glob in args.fault:
        if not any(fnmatchcase(file.stem, glob) for _, file in every):
            names = ", ".join(file.stem for _, file in every)
            raise UsageError(f"--fault {glob}: no such file; there are {names}")
    return [
        one
        for one in every
        if not args.fault or any(fnmatchcase(one[1].stem, glob) for glob in args.fault)
    ]


def _drills(subject: Subject, files: Sequence[tuple[bool, Path]], out: Path) -> Iterator[Drilled]:
    from matrix.reference import Reference
    from matrix.results import Outcome, one_line
    from matrix.selfcheck import Drilled, drill

    with closing(Reference(out / "reference.log")) as reference:
        for number, (harmless, file) in enumerate(files, 1):
            print(f"{number}/{len(files)} {file.stem}", file=sys.stderr)
            cells = drill(subject, file, reference, out / file.stem)
            if all(cell.outcome is Outcome.SKIP for cell in cells):
                raise MissingDependency(one_line(cells[0].detail))
            yield Drilled(file.stem, harmless, cells)


@contextmanager
def _own_cache() -> Iterator[None]:
    """A cache of its own while it runs: drills clear the saved examples."""
    before: Any = os.environ.get("DFLASH_MATRIX_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DFLASH_MATRIX_CACHE"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["DFLASH_MATRIX_CACHE"]
            else:
                os.environ["DFLASH_MATRIX_CACHE"] = before
