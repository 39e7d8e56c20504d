"""The `scan` and `support` subcommands."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from matrix import __version__
from matrix.errors import SourceError, UsageError
from matrix.faults import Severity, worst_first
from matrix.scan._diff import Diff, compare
from matrix.scan._output import as_json, diff_text, placed_in, sarif, text, workflow_commands
from matrix.scan._result import Problem, ScanResult, load_result
from matrix.scan._scan import scan
from matrix.scan._source import ENGINES, Source, installed, open_source, release

if TYPE_CHECKING:
    import argparse
    from contextlib import AbstractContextManager

__all__ = ["register"]

_NEVER = "never"


def register(sub: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `scan` and `support` to a command line."""
    _add_scan(sub.add_parser("scan", help="who supports DFlash, read from an engine's sources"))
    _add_support(sub.add_parser("support", help="which release supports an architecture"))


def _add_scan(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--source", type=Path, metavar="DIR", help="a checkout or a package")
    what.add_argument("--wheel", type=Path, metavar="FILE", help="a wheel, read without unpacking")
    what.add_argument("--release", metavar="ENGINE==VERSION", help="a release, through pip")
    what.add_argument("--installed", metavar="ENGINE", help="what this environment has")
    what.add_argument(
        "--diff",
        nargs=2,
        metavar=("OLD", "NEW"),
        help="two of: folder, wheel, scan JSON, ENGINE==VERSION",
    )
    parser.add_argument("--engine", choices=sorted(ENGINES), help="default: the tree decides")
    parser.add_argument("--arch", default="*", metavar="GLOB", help="architectures to show")
    severities = [severity.value for severity in Severity]
    parser.add_argument(
        "--fail-on",
        choices=[*severities, _NEVER],
        default=Severity.DIES.value,
        help="exit 1 at a finding of this severity or worse (default: dies)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--sarif", type=Path, metavar="FILE", help="write SARIF 2.1.0")
    parser.add_argument("--annotate", action="store_true", help="print workflow annotations too")
    parser.add_argument("--no-cache", action="store_true", help="keep nothing between scans")
    parser.set_defaults(handler=_scan)


def _add_support(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("arch", metavar="ARCH", help="an architecture, as a config.json names it")
    parser.add_argument("--engine", choices=sorted(ENGINES), help="default: all")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(handler=_support)


def _scan(args: argparse.Namespace) -> int:
    if args.diff:
        old, _ = _side(args.diff[0], args)
        new, prefix = _side(args.diff[1], args)
        if old.engine != new.engine:
            raise UsageError(f"--diff: {old.engine} against {new.engine}; give one engine twice")
        diff = compare(old, new)
        _print(args, diff, diff_text(diff), prefix)
        return _code(args, diff, [*old.errors, *new.errors], lost=bool(diff.lost))
    with _open(args) as source:
        result = scan(source, args.arch, cache=not args.no_cache)
        prefix = source.prefix
    if not result.architectures:
        raise UsageError(f"--arch {args.arch}: no architecture of {result.source} matches")
    _print(args, result, text(result), prefix)
    return _code(args, result, result.errors)


def _open(args: argparse.Namespace) -> AbstractContextManager[Source]:
    if args.release:
        return release(args.release, args.engine)
    if args.installed:
        return installed(args.installed)
    if args.wheel and args.wheel.is_dir():
        raise SourceError(f"--wheel {args.wheel}: a folder; give it as --source")
    return open_source(args.wheel or args.source, args.engine)


def _side(what: str, args: argparse.Namespace) -> tuple[ScanResult, str]:
    """One side of a diff: its scan, and what stands before its paths."""
    path = Path(what)
    if path.suffix == ".json" and path.is_file():
        return load_result(path), ""
    known = {dist for dists in ENGINES.values() for dist in dists}
    if not path.exists() and re.split(r"==", what)[0].lower() in known:
        opened = release(what, args.engine)
    else:
        opened = open_source(path, args.engine)
    with opened as source:
        return scan(source, args.arch, cache=not args.no_cache), source.prefix


def _print(args: argparse.Namespace, value: ScanResult | Diff, words: str, prefix: str) -> None:
    placed = placed_in(value)
    if args.sarif:
        try:
            args.sarif.write_text(sarif(placed, __version__, prefix), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--sarif {args.sarif}: {error.strerror}") from None
    print(as_json(value) if args.json else words)
    if args.annotate and placed:
        print(workflow_commands(placed, prefix), file=sys.stderr if args.json else sys.stdout)


def _code(
    args: argparse.Namespace, value: ScanResult | Diff, errors: list[Problem], *, lost: bool = False
) -> int:
    """2 when files were left out, 1 when something was found or lost, else 0."""
    for problem in errors:
        print(f"{problem.file}: {problem.message}", file=sys.stderr)
    if errors:
        return 2
    if args.fail_on == _NEVER:
        return 0
    worst = worst_first(Severity(args.fail_on))
    found = any(worst_first(Severity(f.severity)) <= worst for _, f in placed_in(value))
    return 1 if found or lost else 0


def _support(args: argparse.Namespace) -> int:
    from matrix.scan._support import support
    from matrix.scan._support import text as answer_text

    engines = [args.engine] if args.engine else sorted(ENGINES)
    answers = support(args.arch, engines)
    if args.json:
        print(msgspec.json.format(msgspec.json.encode(answers), indent=2).decode())
    else:
        print("\n".join(answer_text(answer) for answer in answers))
    return 0
