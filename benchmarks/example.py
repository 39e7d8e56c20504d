"""What the harness adds to one fuzz example, on each engine."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from dataclasses import dataclass

from benchmarks._figure import RATIO, ROUNDS, Figure
from benchmarks._rounds import asking
from benchmarks._scene import scene, vllm_python
from matrix.contract import CLAUSES, Bench, Examples, Verdict
from matrix.engines import ENVIRONMENT

__all__ = ["figures"]

_EXAMPLES = 20


@dataclass(frozen=True)
class _Subject:
    """One engine and its bare loop."""

    engine: str
    python: str
    pair: str
    bare: str
    target: float


def figures() -> list[Figure]:
    """The clause TAP-VALID against the bare loop, on the same examples, in turns."""
    embedded = _Subject("transformers", sys.executable, "qwen3-4b-dflash-b16", "_bare", 2)
    found = _measured(embedded)
    if python := vllm_python():
        found += _measured(_Subject("vllm", python, "tiny-qwen3", "_bare_vllm", 1.25))
    return found


def _measured(subject: _Subject) -> list[Figure]:
    env = {**ENVIRONMENT[subject.engine], **os.environ}
    with scene(subject.engine, subject.python, subject.pair) as bench:
        twin, module = bench.twin, f"benchmarks.{subject.bare}"
        pairs = []
        with asking(subject.python, module, twin.target, twin.draft, env=env) as bare:
            # Loads it, and pays for what is set up lazily.
            bare([{"ids": bench.ids, "prompt": bench.prompts(6)[0]}])
            for seed in range(ROUNDS):
                whole, examples = _round(bench, seed)
                pairs.append((whole / len(examples), bare(examples) / len(examples)))
    name = f"fuzz example, {subject.engine}"
    ratio = statistics.median(w / b for w, b in pairs)
    return [
        Figure(f"{name}, whole harness", "ms", 1000 * statistics.median(w for w, _ in pairs)),
        Figure(f"{name}, bare loop", "ms", 1000 * statistics.median(b for _, b in pairs)),
        Figure(f"{name}, harness / bare", RATIO, ratio, subject.target),
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
