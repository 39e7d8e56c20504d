"""The pytest face: the registry's pairs x the clauses, as tests.

A test asks for the fixture `matrix_cell` and gets what the one runner found for its pair and
clause. A row is run once, at its first cell, so the tests of a row must run in one process: with
pytest-xdist use `--dist loadgroup`.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from matrix.registry import Pair
    from matrix.results import Cell

__all__: list[str] = []

_LISTS: Final = ("pair", "clause", "registry", "python")
_VALUES: Final = (
    *("kind", "dtype", "seed", "profile", "max-examples", "timeout", "inject"),
    *("url", "metrics-url", "api-key-env", "out"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of `dflash-matrix run`, each behind `--matrix-`."""
    group = parser.getgroup("dflash-matrix", "contract matrix for DFlash speculative decoding")
    group.addoption("--matrix-engine", default="transformers", metavar="E")
    for name in _LISTS:
        group.addoption(f"--matrix-{name}", action="append", default=[], metavar=name.upper())
    for name in _VALUES:
        group.addoption(f"--matrix-{name}", default=None, metavar=name.upper())
    group.addoption("--matrix-strict", action="store_true", help="warnings are red")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers that the suite uses."""
    config.addinivalue_line("markers", "gpu: the GPU tier of a row; skipped without a GPU")
    config.addinivalue_line("markers", "xdist_group(name): tests that must run in one process")
    config.stash[_RUNS] = _Runs(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize over the selected rows, and over clauses where cells are asked for."""
    wants = {"matrix_cell", "matrix_row"} & set(metafunc.fixturenames)
    if not wants:
        return
    from matrix.contract import CLAUSES

    pairs = metafunc.config.stash[_RUNS].pairs()
    clauses = list(CLAUSES) if "matrix_cell" in wants else [None]
    params = [
        pytest.param(
            (pair, clause),
            id=f"{pair.key}/{clause}" if clause else pair.key,
            marks=pytest.mark.xdist_group(pair.key),
        )
        for pair in pairs
        for clause in clauses
    ]
    metafunc.parametrize(wants.pop(), params, indirect=True)


@pytest.fixture
def matrix_cell(request: pytest.FixtureRequest) -> Cell:
    """The cell of this test's pair and clause."""
    pair, clause = request.param
    cells = request.config.stash[_RUNS].cells(pair)
    return next(cell for cell in cells if cell.clause == clause)


@pytest.fixture
def matrix_row(request: pytest.FixtureRequest) -> list[Cell]:
    """Every cell of this test's pair; skips without a GPU, whose tier it is."""
    pair, _ = request.param
    if not any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/kfd")):
        pytest.skip("needs-gpu: there is no GPU on this machine")
    found: list[Cell] = request.config.stash[_RUNS].cells(pair)
    return found


def pytest_sessionfinish(session: pytest.Session) -> None:
    """One report over the journals of every process; xdist's controller finishes last."""
    if not hasattr(session.config, "workerinput"):
        session.config.stash[_RUNS].report()


@dataclass
class _Runs:
    """The rows that this process has run."""

    config: pytest.Config
    done: dict[str, list[Cell]] = field(default_factory=dict)

    def _arguments(self, pair: str | None) -> list[str]:
        option = self.config.getoption
        words = ["run", *([pair] if pair else option("--matrix-pair"))]
        words += ["--engine", option("--matrix-engine"), "--slots", "1"]
        for name in _LISTS[1:]:
            words += [w for value in option(f"--matrix-{name}") for w in (f"--{name}", value)]
        for name in _VALUES[:-1]:
            value = option(f"--matrix-{name}")
            words += [] if value is None else [f"--{name}", value]
        return words

    @property
    def folder(self) -> Path:
        """Where this test run writes; one folder for all processes of it."""
        name = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid():x}"
        return Path(self.config.getoption("--matrix-out") or "reports") / f"pytest-{name}"

    def pairs(self) -> tuple[Pair, ...]:
        """The rows that the options select."""
        from matrix.cli import make_plan, parse
        from matrix.errors import UsageError

        try:
            return make_plan(parse(self._arguments(None)), self.folder).pairs
        except UsageError as error:
            raise pytest.UsageError(str(error)) from error

    def cells(self, pair: Pair) -> list[Cell]:
        """What the runner finds for a row; it runs at the first question."""
        if pair.key not in self.done:
            from matrix.cli import make_plan, parse
            from matrix.reference import Reference
            from matrix.session import Session, new_run_id

            plan = make_plan(parse(self._arguments(pair.key)), self.folder / pair.key)
            reference = Reference(plan.out / "logs" / "reference.log")
            with closing(reference), Session(plan, new_run_id(), reference) as session:
                self.done[pair.key] = session.run()
        return self.done[pair.key]

    def report(self) -> None:
        """Write the report of every journal of this test run, if there is one."""
        journals = sorted(self.folder.glob("*/journal.jsonl"))
        if journals:
            from matrix.faces import known
            from matrix.report import write_report

            write_report(journals, self.folder / "report.html", known=known((), ()))


_RUNS = pytest.StashKey[_Runs]()
