"""The `canary` subcommands."""

from __future__ import annotations

import shlex
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from matrix.errors import UsageError
from matrix.serving._serve_args import ENGINES, serve_args

if TYPE_CHECKING:
    import argparse

__all__ = ["register"]


def register(sub: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `canary` to a command line."""
    said = "what goes with a server that is judged over HTTP"
    commands = sub.add_parser("canary", help=said, description=said).add_subparsers(
        required=True, metavar="COMMAND"
    )
    _add_serve_args(commands)


def _add_serve_args(sub: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    said = "print the line that starts a server on a row's target and draft"
    parser = sub.add_parser("serve-args", help=said, description=said)
    parser.set_defaults(handler=_do_serve_args)
    parser.add_argument("engine", choices=tuple(ENGINES))
    parser.add_argument("pair", metavar="PAIR", help="one row: key, target or draft id, or a glob")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--port", type=int, default=8000, metavar="N")
    parser.add_argument(
        "--planes", action="store_true", help="SGLang: give planes instead of drafting"
    )
    parser.add_argument("--registry", action="append", type=Path, default=[], metavar="FILE")


def _do_serve_args(args: argparse.Namespace) -> int:
    from matrix.reference import Reference
    from matrix.registry import load, user_config

    if not 0 < args.port < 1 << 16:
        raise UsageError(f"--port {args.port}: want a number from 1 to {(1 << 16) - 1}")
    if args.planes and args.engine != "sglang":
        raise UsageError(f"--planes: a server of {args.engine} gives no planes, only SGLang's does")
    registry = load((*user_config(Path.cwd()).registry, *args.registry))
    pairs = registry.select([args.pair])
    if len(pairs) != 1:
        keys = ", ".join(pair.key for pair in pairs[:5])
        raise UsageError(f"{args.pair}: {len(pairs)} rows, such as {keys}; a server serves one")
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Reference(Path(folder) / "reference.log")) as reference,
    ):
        twin = reference.twin(pairs[0], args.dtype)
    words = serve_args(args.engine, pairs[0], twin, args.port, planes=args.planes)
    print(shlex.join(words))
    return 0
