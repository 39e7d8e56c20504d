"""The `preflight` and `new` subcommands."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from matrix.errors import RegistryError, UsageError
from matrix.preflight._installed import installed, with_installed
from matrix.preflight._judge import judge
from matrix.preflight._new import row
from matrix.preflight._resolvers import ENGINES
from matrix.preflight._sides import open_draft, open_target
from matrix.preflight._subject import Subject, examine
from matrix.registry import Registry, load, user_config

if TYPE_CHECKING:
    import argparse

__all__ = ["register"]

_SIDE = "a folder, a config.json, or a hub id (owner/name, owner/name@revision)"


def register(sub: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `preflight` and `new` to a command line."""
    parser = sub.add_parser("preflight", help="do the configs of a target and a draft fit")
    _sides(parser)
    parser.add_argument("--engine", metavar="E[==VERSION]", help=f"one of {', '.join(ENGINES)}")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="E=PATH",
        help="an interpreter that has the engine, to ask the engine's own resolver",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(handler=_preflight)
    parser = sub.add_parser("new", help="a registry row from the configs of a target and a draft")
    _sides(parser)
    parser.set_defaults(handler=_new)


def _sides(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", help=_SIDE)
    parser.add_argument("draft", metavar="DRAFT", help=_SIDE)
    parser.add_argument("--registry", action="append", type=Path, default=[], metavar="FILE")


def _preflight(args: argparse.Namespace) -> int:
    """1 when a clause failed; bad input is an error."""
    engine, version = _engine(args.engine)
    python = {**installed(), **user_config(Path.cwd()).python, **_pythons(args.python)}
    pair = _pair(args, _registry(args), engine, version)
    result = judge(with_installed(pair, python))
    print(json.dumps(result.as_json(), indent=1) if args.json else result.as_text())
    return 1 if result.failed else 0


def _new(args: argparse.Namespace) -> int:
    registry = _registry(args)
    pair = _pair(args, registry, None, None)
    text = row(pair, registry.pairs)
    with tempfile.TemporaryDirectory() as folder:
        # What is printed is loaded first: a row that the registry refuses is no row.
        file = Path(folder, "new.toml")
        file.write_text(text, encoding="utf-8")
        try:
            load((*registry.files, file))
        except RegistryError as error:
            raise RegistryError(pair.draft.name, error.row, error.field, error.problem) from None
    print(text)
    return 0


def _registry(args: argparse.Namespace) -> Registry:
    return load((*user_config(Path.cwd()).registry, *args.registry))


def _pair(
    args: argparse.Namespace, registry: Registry, engine: str | None, version: str | None
) -> Subject:
    target, draft = open_target(args.target), open_draft(args.draft)
    return examine(target, draft, tuple(registry.pairs.values()), engine, version)


def _engine(text: str | None) -> tuple[str | None, str | None]:
    if text is None:
        return None, None
    engine, _, version = text.partition("==")
    if engine not in ENGINES or (version and engine == "transformers") or text.endswith("=="):
        raise UsageError(
            f"--engine {text}: want one of {', '.join(ENGINES)}, and of vllm and sglang a release "
            "if you like (vllm==0.32.0)"
        )
    return engine, version or None


def _pythons(given: list[str]) -> dict[str, str]:
    found = {}
    for text in given:
        engine, _, path = text.partition("=")
        if engine not in ENGINES or not Path(path).is_file():
            raise UsageError(f"--python {text}: want ENGINE=PATH, with {', '.join(ENGINES)}")
        found[engine] = path
    return found
