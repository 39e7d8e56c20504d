"""What one run is asked to do: the command line's and pytest's common input."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from matrix.contract import CLAUSES, Examples
from matrix.engines import ENVIRONMENT, MEMORY_CEILING_MB, Deadlines, Endpoint, Worker
from matrix.errors import UsageError
from matrix.registry import Expectation, Pair
from matrix.results import canonical
from matrix.scan import NotInstalled

__all__ = ["Plan", "select_clauses"]


@dataclass(frozen=True)
class Plan:
    """One run of some pairs on one engine."""

    engine: str
    pairs: tuple[Pair, ...]
    out: Path
    """The run's own folder."""
    clauses: frozenset[str] = frozenset(CLAUSES)
    """Ids of the clauses that are judged; the others are skipped as `filtered`."""
    python: str = sys.executable
    """The engine's interpreter."""
    engine_path: NotInstalled | None = None
    """`--engine-path`: only the classes of this engine are looked at."""
    server: Endpoint | None = None
    """Where the engine `server` is."""
    expectations: tuple[Expectation, ...] = ()
    dtype: str = "float32"
    seed: int = 0
    max_examples: int = Examples.count
    shrink_seconds: float = Examples.shrink_seconds
    profile: str = "ci"
    """Hypothesis profile: `ci` tries the same inputs for the same seed, `nightly` new ones."""
    example: Any = None
    """Replay this input and no other."""
    deadlines: Deadlines = field(default_factory=Deadlines)
    inject: Path | None = None
    memory_mb: float = MEMORY_CEILING_MB
    slots: int = 1
    """Rows that run side by side."""
    offline: bool = False
    registry: tuple[Path, ...] = ()
    """The user's files, for the line that reproduces a cell."""

    def worker(self, log: Path) -> Worker:
        """A new worker of this plan's engine, the same wherever it is started."""
        env = {k: v for k, v in ENVIRONMENT[self.engine].items() if k not in os.environ}
        if self.offline:
            env["HF_HUB_OFFLINE"] = "1"
        served = self.engine
        if self.engine_path:
            served, env = f"{self.engine}-classes", env | self.engine_path.env()
        if self.server:
            env |= self.server.env()
        return Worker(served, log, self.python, self.inject, env, self.memory_mb)

    def repro(self, pair: Pair, clause: str, example: Any) -> str:
        """One line that replays a cell when pasted into a shell."""
        words = ["dflash-matrix", "run", pair.key, "--engine", self.engine, "--clause", clause]
        words += ["--seed", str(self.seed), "--dtype", self.dtype]
        for file in self.registry:
            words += ["--registry", str(file)]
        if self.python != sys.executable:
            words += ["--python", f"{self.engine}={self.python}"]
        if self.engine_path:
            words += ["--engine-path", str(self.engine_path.given)]
        if self.server:
            words += self.server.words
        if self.inject:
            words += ["--inject", str(self.inject)]
        if self.deadlines != Deadlines():
            words += ["--timeout", str(self.deadlines)]
        if self.memory_mb != MEMORY_CEILING_MB:
            words += ["--memory-mb", f"{self.memory_mb:.0f}"]
        if self.max_examples != Plan.max_examples:
            words += ["--max-examples", str(self.max_examples)]
        if example is not None:
            words += ["--example", canonical(example)]
        return shlex.join(words)


def select_clauses(globs: list[str]) -> frozenset[str]:
    """Ids of the clauses that any of the globs matches; all of them without a glob.

    Raises:
        UsageError: a glob that matches no clause.
    """
    for glob in globs:
        if not any(fnmatchcase(name, glob.upper()) for name in CLAUSES):
            raise UsageError(f"--clause {glob}: no such clause; `dflash-matrix clauses` lists them")
    return frozenset(
        name
        for name in CLAUSES
        if not globs or any(fnmatchcase(name, glob.upper()) for glob in globs)
    )
