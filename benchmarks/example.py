"""What the harness adds to one fuzz example, on the embedded engine."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

from benchmarks._figure import RATIO, ROUNDS, Figure
from benchmarks._scene import scene
from matrix.contract import CLAUSES, Bench, Examples, Verdict

__all__ = ["figures"]

_PAIR = "qwen3-4b-dflash-b16"
_EXAMPLES = 20


def figures() -> list[Figure]:
    """The clause TAP-VALID against the bare loop, on the same examples, round by round."""
    with scene(_PAIR) as bench:
        rounds = [_round(bench, seed) for seed in range(ROUNDS)]
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks._bare"]
        command += [bench.twin.target, bench.twin.draft]
        examples = json.dumps([examples for _, examples in rounds])
        out = subprocess.run(command, input=examples, check=True, stdout=subprocess.PIPE, text=True)
    pairs = [
        (whole / len(examples), bare / len(examples))
        for (whole, examples), bare in zip(rounds, json.loads(out.stdout), strict=True)
    ]
    return [
        Figure("fuzz example, whole harness", "ms", 1000 * statistics.median(w for w, _ in pairs)),
        Figure("fuzz example, bare loop", "ms", 1000 * statistics.median(b for _, b in pairs)),
        Figure(
            "fuzz example, harness / bare", RATIO, statistics.median(w / b for w, b in pairs), 2
        ),
    ]


def _round(bench: Bench, seed: int) -> tuple[float, list[object]]:
    """Seconds of one search that starts cold, and the examples it tried."""
    bench.examples = Examples(count=_EXAMPLES, seed=seed)
    began = time.perf_counter()
    verdict = CLAUSES["TAP-VALID"].check(bench)
    took = time.perf_counter() - began
    assert isinstance(verdict, Verdict), f"TAP-VALID was not judged: {verdict}"
    assert not verdict.findings, f"TAP-VALID must hold to be measured: {verdict.findings}"
    return took, [json.loads(key) for key in bench.tried]
