"""The command line: `dflash-matrix`."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from matrix import __version__
from matrix.errors import MatrixError, UsageError

if TYPE_CHECKING:
    from matrix._plan import Plan
    from matrix.engines import Endpoint
    from matrix.registry import Registry

__all__ = ["main", "make_plan", "parse"]

INTERRUPTED: Final = 130
ENGINES: Final = ("transformers", "vllm", "sglang", "server")
"""The engines that `run` knows."""
PROFILES: Final = {"ci": 12, "nightly": 500}
"""Hypothesis profile -> inputs that a fuzzed clause tries, unless `--max-examples` says it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code.

    0 as expected, 1 something unexpected, 2 bad input or usage, 3 everything was skipped,
    130 interrupted.
    """
    try:
        args = parse(argv)
        return int(args.handler(args))
    except UsageError as error:
        print(f"dflash-matrix: {error}", file=sys.stderr)
        return 2
    except MatrixError as error:
        print(f"dflash-matrix: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("dflash-matrix: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse a command line; a usage error ends the process with exit code 2, as argparse does."""
    from matrix._report_cli import register as register_report
    from matrix._selfcheck_cli import register as register_selfcheck
    from matrix.preflight import register as register_preflight
    from matrix.scan import register as register_scan
    from matrix.serving import register as register_serving

    parser = argparse.ArgumentParser(
        prog="dflash-matrix", description="Contract test matrix for DFlash speculative decoding."
    )
    parser.add_argument("--version", action="version", version=f"dflash-matrix {__version__}")
    sub = parser.add_subparsers(required=True, metavar="COMMAND")
    _list(sub)
    _import(sub)
    _clauses(sub)
    _run(sub)
    _cache(sub)
    register_report(sub)
    register_selfcheck(sub)
    register_scan(sub)
    register_preflight(sub)
    register_serving(sub)
    return parser.parse_args(argv)


Sub = Any
"""What argparse gives for subparsers; it has no public type."""


def _command(sub: Sub, name: str, handler: Any, help: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = sub.add_parser(name, help=help, description=help)
    parser.set_defaults(handler=handler)
    return parser


def _selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "pairs", nargs="*", metavar="PAIR", help="key, target or draft id, architecture, or a glob"
    )
    parser.add_argument("--kind", choices=("real", "synthetic", "canary"))
    parser.add_argument("--registry", action="append", type=Path, default=[], metavar="FILE")
    parser.add_argument("--trust-remote-code", action="store_true")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _registry(args: argparse.Namespace) -> tuple[Registry, tuple[Path, ...]]:
    from matrix.registry import load, user_config

    files = (*user_config(Path.cwd()).registry, *args.registry)
    return load(files, allow_remote_code=args.trust_remote_code), files


# --- list, import, clauses ---------------------------------------------------------------------


def _list(sub: Sub) -> None:
    _selection(_command(sub, "list", _do_list, "show the registry's pairs"))


def _do_list(args: argparse.Namespace) -> int:
    from matrix.registry import as_json, as_line

    registry, _ = _registry(args)
    pairs = registry.select(args.pairs, args.kind)
    if args.json:
        print(json.dumps([as_json(pair) for pair in pairs], indent=1))
        return 0
    print(*map(as_line, pairs), sep="\n")
    return 0


def _import(sub: Sub) -> None:
    parser = _command(sub, "import", _do_import, "compare an engine's own table with our rows")
    parser.add_argument("engine", choices=("vllm",))
    parser.add_argument("table", type=Path, metavar="PATH/tests/models/registry.py")
    parser.add_argument("--registry", action="append", type=Path, default=[], metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(trust_remote_code=False)


def _do_import(args: argparse.Namespace) -> int:
    from matrix.registry import import_vllm, imported_lines

    registry, _ = _registry(args)
    found = import_vllm(args.table, registry)
    if args.json:
        print(json.dumps(found.as_json(), indent=1))
        return 0
    print(*imported_lines(found), sep="\n")
    return 0


def _clauses(sub: Sub) -> None:
    parser = _command(sub, "clauses", _do_clauses, "show the clauses")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _do_clauses(args: argparse.Namespace) -> int:
    from matrix import contract, preflight

    clauses: list[contract.Clause | preflight.Clause] = [
        *contract.CLAUSES.values(),
        *preflight.CLAUSES.values(),
    ]
    rows = [
        {
            "id": clause.id,
            "version": clause.version,
            "tier": clause.tier,
            "severity": clause.severity,
            "sentence": clause.sentence,
            "needs": clause.needs,
            "faults": dict(clause.gives),
            "catches": clause.catches,
        }
        for clause in clauses
    ]
    if args.json:
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        print(f"{row['id']:<16} {row['tier']:<6} {row['severity']:<6} {row['sentence']}")
    return 0


# --- run ---------------------------------------------------------------------------------------


def _run(sub: Sub) -> None:
    parser = _command(sub, "run", _do_run, "judge pairs on an engine")
    _selection(parser)
    add = parser.add_argument
    add("--engine", required=True, choices=ENGINES)
    add("--python", action="append", default=[], metavar="E=PATH", help="an engine's interpreter")
    add("--engine-path", type=Path, metavar="DIR_OR_WHEEL", help="look at its classes only")
    add("--clause", action="append", default=[], metavar="GLOB")
    add("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    add("--out", type=Path, default=Path("reports"), metavar="DIR")
    add("--max-examples", type=_positive, default=None, metavar="N")
    add("--seed", type=int, default=None, metavar="S")
    add("--profile", choices=tuple(PROFILES), default="ci", help="of Hypothesis")
    add("--example", metavar="JSON", help="replay one input")
    add("--timeout", default="", metavar="start=..,call=..,clause=..,row=..")
    add("--inject", type=Path, metavar="FILE.py", help="run first in the worker: a planted fault")
    add("--url", metavar="U", help="where the engine `server` is")
    add("--metrics-url", metavar="U", help="its metrics page; default: URL/metrics")
    add("--api-key-env", metavar="NAME", help="the variable that holds its key")
    add("--memory-mb", type=_positive, default=None, metavar="MB", help="a worker's ceiling")
    add("--slots", type=_positive, default=None, metavar="N", help="rows side by side")
    add("--offline", action="store_true", help="never reach for the hub")
    add("--strict", action="store_true", help="warnings are red")
    add("--xpass", choices=("fail", "warn"), default="fail")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: want 1 or more")
    return value


def _do_run(args: argparse.Namespace) -> int:
    from matrix.faces import finish
    from matrix.reference import Reference
    from matrix.session import Session, new_run_id

    run_id = new_run_id()
    plan = make_plan(args, args.out / run_id)
    reference = Reference(plan.out / "logs" / "reference.log")
    with closing(reference), Session(plan, run_id, reference) as session:
        try:
            session.run()
        finally:
            code = finish(
                session, strict=args.strict, xpass_warn=args.xpass == "warn", as_json=args.json
            )
    return code


def make_plan(args: argparse.Namespace, out: Path) -> Plan:
    """The plan that the arguments of `run` describe, with `out` as its folder.

    Raises:
        UsageError: an argument that is not well formed, or names what doesn't exist.
    """
    from matrix._plan import Plan, select_clauses
    from matrix.engines import Deadlines
    from matrix.registry import user_config
    from matrix.scan import not_installed

    registry, files = _registry(args)
    python = {**user_config(Path.cwd()).python, **_pythons(args.python)}
    if args.inject and not args.inject.is_file():
        raise UsageError(f"--inject {args.inject}: no such file")
    # A nightly run looks at new inputs every time; the journal keeps the seed that gave them.
    seed = args.seed if args.seed is not None else 0
    if args.seed is None and args.profile == "nightly":
        seed = secrets.randbelow(1 << 32)
    if args.engine_path and args.engine in ("transformers", "server"):
        raise UsageError(f"--engine-path: the engine `{args.engine}` has no classes of its own")
    server = _server(args)
    optional = {
        "server": server,
        "engine_path": not_installed(args.engine, args.engine_path) if args.engine_path else None,
        "max_examples": args.max_examples or PROFILES[args.profile],
        "memory_mb": args.memory_mb,
        "python": python.get(args.engine),
    }
    return Plan(
        engine=args.engine,
        pairs=registry.select(args.pairs, args.kind),
        out=out,
        clauses=select_clauses(args.clause),
        expectations=registry.expectations,
        dtype=args.dtype,
        seed=seed,
        profile=args.profile,
        example=_json(args.example),
        deadlines=Deadlines.parse(args.timeout),
        inject=args.inject,
        slots=1 if server else args.slots or os.cpu_count() or 1,
        offline=args.offline,
        registry=files,
        **{name: value for name, value in optional.items() if value is not None},
    )


def _server(args: argparse.Namespace) -> Endpoint | None:
    """Where the engine `server` is; rows side by side would be one another's foreign traffic."""
    from matrix.engines import Endpoint

    if args.engine != "server":
        for name in ("url", "metrics_url", "api_key_env"):
            if getattr(args, name):
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option}: only for --engine server, not for {args.engine}")
        return None
    if args.url is None:
        raise UsageError("--engine server: want --url http://HOST:PORT of a running server")
    if args.inject:
        raise UsageError(
            "--inject: nothing can be planted in a server; it is for the other engines"
        )
    return Endpoint.parse(args.url, args.metrics_url, args.api_key_env)


def _pythons(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in given:
        engine, _, path = text.partition("=")
        if engine not in ENGINES:
            raise UsageError(
                f"--python {text}: no engine {engine!r}; there is {', '.join(ENGINES)}"
            )
        if not path or not Path(path).is_file() or not os.access(path, os.X_OK):
            raise UsageError(f"--python {text}: want ENGINE=PATH of an interpreter that can be run")
        found[engine] = path
    return found


def _json(text: str | None) -> Any:
    if text is None:
        return None
    try:
        from matrix.contract import example_problem

        example = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--example: not JSON: {error}") from None
    if said := example_problem(example):
        raise UsageError(f"--example: {said}")
    return example


# --- cache -------------------------------------------------------------------------------------


def _cache(sub: Sub) -> None:
    from matrix.cache import KINDS

    parser = _command(sub, "cache", _do_cache, "show or clear what is cached")
    parser.add_argument("action", choices=("show", "clear"), nargs="?", default="show")
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--json", action="store_true", help="print JSON")


def _do_cache(args: argparse.Namespace) -> int:
    from matrix import cache

    if args.action == "clear":
        print(f"{cache.clear(args.kind) / 1e6:.1f} MB freed in {cache.root()}")
        return 0
    entries = [entry for entry in cache.entries() if args.kind in (None, entry.kind)]
    if args.json:
        rows = [{"kind": e.kind, "name": e.name, "bytes": e.bytes} for e in entries]
        print(json.dumps({"root": str(cache.root()), "entries": rows}, indent=1))
        return 0
    for entry in entries:
        print(f"{entry.kind:<10} {entry.bytes / 1e6:>9.1f} MB  {entry.name}")
    total = sum(entry.bytes for entry in entries)
    print(f"{'total':<10} {total / 1e6:>9.1f} MB  {cache.root()}")
    return 0
