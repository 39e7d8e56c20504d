"""The subcommands `report`, `diff` and `baseline`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matrix.errors import UsageError

if TYPE_CHECKING:
    import argparse

__all__ = ["register"]


def register(sub: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `report`, `diff` and `baseline` to a command line."""
    _report(sub.add_parser("report", help="write the report of journals and other results"))
    _diff(sub.add_parser("diff", help="what changed between two journals"))
    _baseline(sub.add_parser("baseline", help="make a run the baseline"))


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--strict", action="store_true", help="warnings are red")
    parser.add_argument("--xpass", choices=("fail", "warn"), default="fail")


def _report(parser: argparse.ArgumentParser) -> None:
    what = "a journal, a run's folder, or what scan, preflight or selfcheck print with --json"
    add = parser.add_argument
    add("files", nargs="+", type=Path, metavar="FILE", help=what)
    add("--baseline", type=Path, metavar="J", help="a journal, a run, or a folder of journals")
    add("--registry", action="append", type=Path, default=[], metavar="FILE")
    add("--out", type=Path, default=Path("report.html"), metavar="FILE")
    add("--markdown", type=Path, metavar="FILE", help="for a CI job's summary")
    add("--junit", type=Path, metavar="FILE", help="JUnit XML, a case for each cell")
    add("--sarif", type=Path, metavar="FILE", help="SARIF 2.1.0: scan findings, unexpected cells")
    add("--annotate", action="store_true", help="print workflow annotations")
    _flags(parser)
    parser.set_defaults(handler=_do_report)


def _do_report(args: argparse.Namespace) -> int:
    from matrix.faces import known
    from matrix.registry import load, user_config
    from matrix.report import make_report, save

    registry = load((*user_config(Path.cwd()).registry, *args.registry))
    file = args.out / "report.html" if args.out.is_dir() else args.out
    report = make_report(
        args.files,
        file.parent,
        args.baseline,
        known(
            registry.pairs.values(),
            registry.expectations,
            strict=args.strict,
            xpass_warn=args.xpass == "warn",
        ),
    )
    print(save(file, report.html()))
    for path, form in (
        (args.markdown, report.markdown),
        (args.junit, report.junit),
        (args.sarif, report.sarif),
    ):
        if path is not None:
            print(save(path, form()))
    if args.annotate and (commands := report.annotations()):
        print(commands)
    return 0


def _diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(handler=_do_diff)


def _do_diff(args: argparse.Namespace) -> int:
    from matrix.faces import show_diff

    return show_diff(args.old, args.new, as_json=args.json)


def _baseline(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("update",))
    parser.add_argument("journal", type=Path)
    parser.add_argument("--into", type=Path, default=Path("reports/baseline"), metavar="DIR")
    _flags(parser)
    parser.set_defaults(handler=_do_baseline)


def _do_baseline(args: argparse.Namespace) -> int:
    from matrix.results import update_baseline

    if args.into.is_file():
        raise UsageError(f"--into {args.into}: a file; name the folder that holds the baseline")
    warn = args.xpass == "warn"
    print(*update_baseline(args.journal, args.into, args.strict, warn), sep="\n")
    return 0
