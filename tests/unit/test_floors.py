"""The floors: an arrow between modules never runs up, and torch stays in the workers."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import matrix

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE: Final = Path(matrix.__file__).parent

# ARCHITECTURE.md draws these. A module may import from its own floor and from those below.
FLOORS: Final = (
    {"errors", "faults", "layouts", "strategies", "cache", "shipped"},
    {"registry", "engines", "twins", "reference", "scan", "canary"},
    {"results", "contract", "preflight"},
    {"_plan", "_examples", "_cells", "runner", "report"},
    {"session", "faces", "serving", "selfcheck", "_report_cli", "_selfcheck_cli", "executors"},
    {"cli", "plugin", "__main__"},
)
FLOOR: Final = {name: number for number, names in enumerate(FLOORS, 1) for name in names}

HEAVY: Final = frozenset({"torch", "transformers", "dflash", "safetensors", "vllm", "sglang"})
# Loaded only in worker processes: the adapters, the reference's server, the making of a twin, the
# training of a canary, the script that asks an engine's own resolver.
IN_WORKERS: Final = frozenset(
    {
        "canary._planes",
        "canary._target",
        "canary._train",
        "engines._sglang_classes",
        "engines._sglang_core",
        "engines._sglang_ids",
        "engines._sglang_probe",
        "engines._sglang_start",
        "engines._standins._place",
        "engines._tensors",
        "engines._vllm_classes",
        "engines._vllm_ids",
        "engines._vllm_start",
        "engines._vllm_watch",
        "engines._watch",
        "engines.sglang",
        "engines.transformers",
        "engines.vllm",
        "preflight._ask",
        "reference._layers",
        "reference._models",
        "reference._serve",
        "twins._models",
        "twins._weights",
    }
)


# They import no such package themselves, but modules above that do.
BESIDE_THEM: Final = frozenset({"__main__", "engines._vllm_ranks"})


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package by its name below `matrix`, parsed."""
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        # The suite and the proofs that a wheel carries are tests, not floors.
        if parts[0] not in {"_suite", "_meta", "_fixtures", "__init__"}:
            yield ".".join(parts), ast.parse(file.read_text(), str(file))


def imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """What a module imports anywhere in it, as dotted names, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import; write the whole name"
            base = node.module or ""
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)


def own(tree: ast.Module) -> Iterator[tuple[list[str], int]]:
    """Imports from this package, below `matrix`."""
    for name, line in imports(tree):
        top, *rest = name.split(".")
        if top == "matrix" and rest != ["__version__"]:
            yield rest, line


MODULES: Final = dict(modules())


def test_every_module_stands_on_a_floor() -> None:
    homeless = {name.partition(".")[0] for name in MODULES} - FLOOR.keys()
    assert not homeless, f"give these a floor, here and in ARCHITECTURE.md: {sorted(homeless)}"


@pytest.mark.parametrize("name", MODULES)
def test_no_arrow_runs_up(name: str) -> None:
    mine = FLOOR[name.partition(".")[0]]
    up = [
        f"line {line} imports {'.'.join(rest)} of floor {FLOOR[rest[0]]}"
        for rest, line in own(MODULES[name])
        if FLOOR[rest[0]] > mine
    ]
    assert not up, f"{name} of floor {mine}: {'; '.join(up)}"


def test_nobody_reaches_into_another_part_s_private_modules() -> None:
    # The worker serves both halves: it may name an adapter and the reference's server. Twins and
    # the reference share how layers are found, and the messages' arrays; a canary is trained from a
    # twin's random models.
    shared = {
        ("twins", "reference._layers"),
        ("reference", "engines._messages"),
        ("canary", "reference._layers"),
        ("canary", "twins._models"),
    }
    found = [
        f"{name}:{line} imports {'.'.join(rest)}"
        for name, tree in MODULES.items()
        for rest, line in own(tree)
        if len(rest) > 2
        and rest[1].startswith("_")
        and rest[0] != name.partition(".")[0]
        and (name.partition(".")[0], ".".join(rest[:2])) not in shared
    ]
    assert not found, f"import from the package, not from its private module: {found}"


def test_clauses_know_the_protocol_and_never_an_engine() -> None:
    private = {"_messages", "_process", "_protocol", "_remote", "_rpc", "_guard", "_worker"}
    engines = {
        name.partition(".")[2]
        for name in MODULES
        if name.startswith("engines.") and not name.startswith("engines._")
    }
    assert "transformers" in engines, "the embedded engine's adapter should be found"
    for name, tree in MODULES.items():
        if name.startswith("contract."):
            named = {r[1] for r, _ in own(tree) if r[0] == "engines" and len(r) > 1}
            assert not named & (engines | private), f"{name} imports engines.{named & engines}"


def test_engines_know_no_clause() -> None:
    for name, tree in MODULES.items():
        if name.startswith("engines."):
            known = {rest[0] for rest, _ in own(tree)}
            known -= {"engines", "errors", "scan"}
            assert not known, f"{name} imports {known}"


def test_only_the_worker_names_adapters() -> None:
    adapters = [
        f"matrix.{name}" for name in MODULES if name.startswith("engines.") and "._" not in name
    ]
    assert adapters, "there is at least one adapter"
    for name in MODULES:
        source = (PACKAGE / Path(*name.split("."))).with_suffix(".py").read_text()
        named = [adapter for adapter in adapters if adapter in source]
        assert bool(named) <= (name == "engines._worker"), f"{name} names {named}"


def test_torch_and_engines_are_imported_only_in_workers() -> None:
    heavy = {
        name
        for name, tree in MODULES.items()
        if any(imported.partition(".")[0] in HEAVY for imported, _ in imports(tree))
    }
    assert heavy == IN_WORKERS


def test_what_the_driver_imports_brings_no_torch() -> None:
    driver = [f"matrix.{name}" for name in MODULES if name not in IN_WORKERS | BESIDE_THEM]
    code = f"import sys, {', '.join(driver)}; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    loaded = {name.partition(".")[0] for name in out.split()}
    assert "matrix" in loaded
    assert not loaded & HEAVY, f"the driver imports {sorted(loaded & HEAVY)}"
