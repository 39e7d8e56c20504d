"""A real vLLM server on loopback: judged over HTTP, killed in the middle of a run, with a fault.

`DFLASH_MATRIX_PYTHON_VLLM` names the interpreter of an environment that has vLLM; `nox -s vllm`
sets it.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from matrix import registry
from matrix._plan import Plan, select_clauses
from matrix.cli import main
from matrix.engines import ENVIRONMENT, Endpoint
from matrix.reference import Reference
from matrix.results import Cell, Outcome, Reason, read
from matrix.selfcheck import META
from matrix.session import Session, new_run_id

PYTHON = os.environ.get("DFLASH_MATRIX_PYTHON_VLLM")
ROW = "canary-qwen3"
pytestmark = pytest.mark.skipif(
    PYTHON is None, reason="DFLASH_MATRIX_PYTHON_VLLM names no interpreter that has vllm"
)
HEALTHY_WITHIN = 150.0
"""Seconds that a server may take to start."""
JUDGED = {
    *("START-LOAD", "START-DECODE", "START-SPEC"),
    *("OUTPUT-LOSSLESS", "OUTPUT-STOP", "OUTPUT-COUNTERS"),
    *("CANARY-PROFILE", "CANARY-LOAD", "CANARY-DRIFT"),
}


@dataclass
class Server:
    """A server that was started by the printed line."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def well(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(urllib.request.urlopen(f"{self.url}/health", timeout=5).status == 200)
        return False

    def core(self) -> int:
        """Process id of the engine's core, below the process that speaks HTTP."""
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                name, _, rest = stat.read_text().rpartition(")")
                if int(rest.split()[2]) == self.process.pid and "EngineCor" in name:
                    return int(stat.parent.name)
        raise AssertionError(f"no engine core below {self.process.pid}, see {self.log}")


@contextlib.contextmanager
def serving(home: Path, inject: Path | None = None) -> Iterator[Server]:
    """vLLM on the canary, as `canary serve-args` says it; `inject` runs first in its processes."""
    assert PYTHON is not None
    planted = {}
    if inject is not None:
        (home / "sitecustomize.py").write_text(f"import runpy\nrunpy.run_path({str(inject)!r})\n")
        planted = {"PYTHONPATH": str(home)}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["canary", "serve-args", "vllm", ROW, "--port", str(port)]) == 0
    python, *words = shlex.split(printed.getvalue())
    assert python == "python"
    log = home / "server.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [PYTHON, *words],
            stdout=sink,
            stderr=sink,
            env={**os.environ, **ENVIRONMENT["vllm"], "HF_HUB_OFFLINE": "1", **planted},
            start_new_session=True,
        )
    found = Server(f"http://127.0.0.1:{port}", process, log)
    try:
        until = time.monotonic() + HEALTHY_WITHIN
        while not found.well():
            assert process.poll() is None, f"it ended:\n{log.read_text()[-3000:]}"
            assert time.monotonic() < until, f"not healthy:\n{log.read_text()[-3000:]}"
            time.sleep(0.5)
        yield found
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def server(reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A healthy one."""
    with serving(tmp_path_factory.mktemp("server")) as found:
        yield found


def session(
    server: Server, reference: Reference, out: Path, clauses: Sequence[str] = ("*",)
) -> Session:
    known = registry.load([])
    plan = Plan(
        "server",
        known.select([ROW]),
        out,
        clauses=select_clauses(list(clauses)),
        expectations=known.expectations,
        server=Endpoint(server.url),
    )
    return Session(plan, new_run_id(), reference)


def by_clause(cells: list[Cell]) -> dict[str, Cell]:
    return {cell.clause: cell for cell in cells}


@pytest.mark.ci
def test_a_vllm_server_is_judged_and_its_death_is_a_crash(
    server: Server, reference: Reference, tmp_path: Path
) -> None:
    with session(server, reference, tmp_path / "healthy") as run:
        cells = by_clause(run.run())
    said = {key: cell.outcome for key, cell in cells.items() if cell.outcome is not Outcome.SKIP}
    assert said == dict.fromkeys(JUDGED, Outcome.PASS), [cell.detail for cell in cells.values()]
    assert {c.reason_code for c in cells.values()} == {None, Reason.NOT_APPLICABLE}
    counters = cells["OUTPUT-COUNTERS"]
    assert counters.metrics["drafted"] > 0
    assert "others are served too" not in str(counters.actual), "its page was compared too"
    assert counters.engine_version.endswith("+vllm")

    with session(server, reference, tmp_path / "killed") as run:
        killer = threading.Thread(target=kill_once, args=(server, run), daemon=True)
        killer.start()
        run.run()
        killer.join(timeout=30)
    record = read(tmp_path / "killed" / "journal.jsonl")
    assert record.problems == []
    lost = [cell for cell in record.cells if cell.outcome not in (Outcome.SKIP, Outcome.PASS)]
    assert [cell.outcome for cell in lost] == [Outcome.CRASH], [cell.detail for cell in lost]
    assert {c.reason_code for c in by_clause(record.cells).values() if c.clause in JUDGED} == {
        None,
        Reason.START_FAILED,
    }
    assert [line.outcome for line in record.starts] == [Outcome.PASS, Outcome.CRASH]


def test_a_vllm_server_s_accepted_drafts_name_its_fault(
    reference: Reference, tmp_path: Path
) -> None:
    with (
        serving(tmp_path, META / "planted/vllm/ids_one_low.py") as server,
        session(server, reference, tmp_path / "run", ["CANARY-*", "OUTPUT-LOSSLESS"]) as run,
    ):
        cells = by_clause(run.run())
    said = {clause: cells[clause].fault for clause in JUDGED if clause.startswith("CANARY-")}
    assert said == dict.fromkeys(said, "tap-shift-1"), [cell.detail for cell in cells.values()]
    assert cells["OUTPUT-LOSSLESS"].outcome is Outcome.PASS, "equality sees nothing of it"


def kill_once(server: Server, run: Session) -> None:
    """Kill the core, and it alone, as soon as the first request was judged."""
    core = server.core()
    while not any(c.clause == "START-DECODE" and c.outcome is Outcome.PASS for c in run.cells):
        time.sleep(0.01)
    os.kill(core, signal.SIGKILL)
