"""What a user waits for before anything runs: the import, and `list`."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys

from benchmarks._figure import ROUNDS, Figure, seconds

__all__ = ["figures"]

_LINE = re.compile(r"import time:\s*\d+ \|\s*(\d+) \|\s*(\S+)")
_HEAVY = ("torch", "transformers", "dflash", "vllm", "sglang")


def figures() -> list[Figure]:
    """Import times by `-X importtime`, heavy packages imported, and `dflash-matrix list`."""
    package = [_imported("matrix") for _ in range(ROUNDS)]
    faces = [_imported("matrix.cli", "matrix.session", "matrix.faces") for _ in range(ROUNDS)]
    heavy = sum(name.partition(".")[0] in _HEAVY for name in {*package[0], *faces[0]})
    bare = [sys.executable, "-c", "pass"]
    listing = [sys.executable, "-m", "matrix", "list"]
    return [
        Figure("import matrix", "ms", statistics.median(t["matrix"] for t in package), 20),
        Figure("torch and engine modules imported by the driver", "modules", heavy, 0),
        Figure("python -c pass", "s", seconds(lambda: _run(bare))),
        Figure("dflash-matrix list", "s", seconds(lambda: _run(listing)), 1),
    ]


def _imported(*modules: str) -> dict[str, float]:
    """Every module that the statement imported -> milliseconds, its own imports included."""
    command = [sys.executable, "-X", "importtime", "-c", f"import {', '.join(modules)}"]
    return {name: int(micro) / 1000 for micro, name in _LINE.findall(_run(command))}


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stderr
