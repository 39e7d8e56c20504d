"""Rounds of a bare loop: asked by the benchmark, answered by a process that runs beside it.

A line of JSON, the examples of one round, asks for the seconds that they took, which come back as a
line. So the two sides take turns, and meet the same load.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["answer", "asking"]


def answer(one: Callable[[Any], None]) -> None:
    """Time `one` on the examples of every round, until there are no more."""
    for line in sys.stdin:
        examples = json.loads(line)
        began = time.perf_counter()
        for example in examples:
            one(example)
        took = time.perf_counter() - began
        print(f"\n{_MARK}{took}", flush=True)


_MARK = "seconds "
"""Begins a line that is an answer; an engine may print others."""


@contextmanager
def asking(
    python: str, module: str, *args: str, env: Mapping[str, str]
) -> Iterator[Callable[[list[Any]], float]]:
    """Start a bare loop; what it gives returns the seconds of one round of examples."""
    command = [python, "-W", "ignore", "-m", module, *args]
    with subprocess.Popen(
        command,
        env={**env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as the harness's workers: Linux shares a processor by session
    ) as bare:
        assert bare.stdin is not None, "started with a pipe"
        assert bare.stdout is not None, "started with a pipe"
        stdin, stdout = bare.stdin, bare.stdout

        def ask(examples: list[Any]) -> float:
            print(json.dumps(examples), file=stdin, flush=True)
            for line in stdout:
                if line.startswith(_MARK):
                    return float(line.removeprefix(_MARK))
            raise RuntimeError(f"{module} ended with status {bare.wait()}")

        yield ask
