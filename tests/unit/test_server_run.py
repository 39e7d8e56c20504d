"""Runs on a server: every way it may end is an outcome, and its key is nowhere."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from running import HERE, PAIR, ROOT, FakeReference, command

from matrix._plan import Plan
from matrix.cli import main
from matrix.contract import CLAUSES
from matrix.engines import Deadlines, Endpoint, RemoteEngine
from matrix.faults import Fault
from matrix.results import Cell, Outcome, Reason, StartLine, read
from matrix.runner import Row

sys.path.insert(0, str(HERE / "engines"))

from loopback_server import FakeEngine, Server, dying, saying, serving  # it lies in a folder beside

KEY = "sk-loopback-123"
JUDGED = (
    *("START-LOAD", "START-DECODE", "START-SPEC"),
    *("OUTPUT-LOSSLESS", "OUTPUT-STOP", "OUTPUT-COUNTERS"),
)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


def run(server: Server, folder: Path, **changes: Any) -> tuple[dict[str, Cell], list[StartLine]]:
    """Every clause of the fake pair on the server; the cells by clause, and the starts."""
    plan = Plan("server", (PAIR,), folder / "run", server=Endpoint(server.url), **changes)
    lines: list[Cell | StartLine] = []
    worker = plan.worker(plan.out / "w.log")
    identity = RemoteEngine(worker, plan.deadlines).identify()
    reference: Any = FakeReference()
    Row(plan, PAIR, "run-1", identity, reference, lines.append, worker).run()
    cells = [line for line in lines if isinstance(line, Cell)]
    assert sorted(cell.clause for cell in cells) == sorted(CLAUSES), "one cell a clause"
    return {c.clause: c for c in cells}, [line for line in lines if isinstance(line, StartLine)]


def unskipped(cells: dict[str, Cell]) -> dict[str, Outcome]:
    return {key: cell.outcome for key, cell in cells.items() if cell.outcome is not Outcome.SKIP}


@pytest.mark.parametrize("kind", ["vllm", "sglang"])
def test_a_healthy_server_passes_all_that_needs_no_inside_view(kind: str, tmp_path: Path) -> None:
    with serving(kind=kind) as server:
        cells, starts = run(server, tmp_path)
    assert unskipped(cells) == dict.fromkeys(JUDGED, Outcome.PASS)
    assert {c.reason_code for c in cells.values() if c.outcome is Outcome.SKIP} == {
        Reason.NOT_APPLICABLE
    }
    assert [(line.settings, line.outcome) for line in starts] == [("main", Outcome.PASS)]


def test_what_a_server_says_on_its_page_alone_is_enough(tmp_path: Path) -> None:
    with serving(details=False) as server:
        cells, _ = run(server, tmp_path)
    assert unskipped(cells) == dict.fromkeys(JUDGED, Outcome.PASS)


PLANES = ("AUX-COUNT", "AUX-SHAPE", "AUX-VALUE", "AUX-DECODE", "AUX-BATCH", "AUX-REUSE", "AUX-LONG")


def test_planes_are_judged_where_the_server_gives_them(tmp_path: Path) -> None:
    with serving(kind="sglang", captures=[1, 3, 5]) as server:
        cells, _ = run(server, tmp_path, max_examples=2)
    assert unskipped(cells) == dict.fromkeys(PLANES, Outcome.PASS)
    why = "no draft: a server that gives planes runs the target alone"
    assert cells["START-SPEC"].detail == why


def test_a_fault_of_the_planes_is_named_over_http(tmp_path: Path) -> None:
    low = FakeEngine(resolve=lambda ids: [n - 1 for n in ids])
    clauses = frozenset({"AUX-VALUE"})
    with serving(kind="sglang", captures=[1, 3, 5], engine=low) as server:
        cells, _ = run(server, tmp_path, clauses=clauses)
    assert cells["AUX-VALUE"].fault == Fault.TAP_SHIFT_BEFORE


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"captures": [1, 3, 6]}, "it captures layers [1, 3, 6], the row asks for [1, 3, 5]"),
        ({"captures": [1, 3, 5], "chunks": 64}, "want --chunked-prefill-size 1024 or more"),
        ({"captures": [1, 3, 5], "model": PAIR.target}, "no weights of fake/target"),
    ],
)
def test_planes_that_can_not_be_compared_are_not_judged(
    options: dict[str, Any], why: str, tmp_path: Path
) -> None:
    with serving(kind="sglang", **options) as server:
        cells, _ = run(server, tmp_path)
    assert unskipped(cells) == {}
    assert why in cells["AUX-VALUE"].detail


def test_of_a_real_model_the_output_is_not_judged(server: Server, tmp_path: Path) -> None:
    server.model = PAIR.target
    cells, _ = run(server, tmp_path)
    assert unskipped(cells) == dict.fromkeys((*JUDGED[:3], "OUTPUT-COUNTERS"), Outcome.PASS)
    assert cells["OUTPUT-LOSSLESS"].detail == (
        "no reference: the reference has no weights of fake/target"
    )


def test_a_server_that_dies_in_the_middle_is_a_crash(server: Server, tmp_path: Path) -> None:
    server.answers["/v1/completions"] = dying(server, 2)
    cells, starts = run(server, tmp_path)
    assert unskipped(cells) == {
        "START-LOAD": Outcome.PASS,
        "START-DECODE": Outcome.PASS,
        "START-SPEC": Outcome.CRASH,
    }
    assert cells["OUTPUT-LOSSLESS"].reason_code is Reason.START_FAILED
    assert "nobody answers" in cells["OUTPUT-LOSSLESS"].detail
    assert [line.outcome for line in starts] == [Outcome.PASS, Outcome.CRASH]


def test_a_server_that_stalls_is_a_timeout(server: Server, tmp_path: Path) -> None:
    over = threading.Event()
    server.answers["/v1/completions"] = lambda handler: over.wait(60) and None
    clauses = frozenset({"START-LOAD", "START-DECODE"})
    cells, _ = run(server, tmp_path, clauses=clauses, deadlines=Deadlines(call=3.0))
    over.set()
    assert unskipped(cells) == {"START-LOAD": Outcome.PASS, "START-DECODE": Outcome.TIMEOUT}
    assert cells["START-DECODE"].detail == "no answer to generate within 3 s"


def test_a_server_that_speaks_garbage_fails(server: Server, tmp_path: Path) -> None:
    server.answers["/v1/completions"] = saying(200, "<html>")
    cells, _ = run(server, tmp_path)
    outcomes = unskipped(cells)
    assert outcomes.pop("START-LOAD") is Outcome.PASS
    assert outcomes == dict.fromkeys(JUDGED[1:], Outcome.FAIL)
    assert "BadAnswer" in cells["START-DECODE"].faults[0].evidence


def test_another_model_is_one_error_and_no_more(server: Server, tmp_path: Path) -> None:
    server.model = "another"
    cells, _ = run(server, tmp_path)
    (bad,) = (cell for cell in cells.values() if cell.outcome is Outcome.ERROR)
    assert bad.detail.startswith("another model is served: 'another'; want 'fake@fake'")
    assert len(unskipped(cells)) == 1


# --- the command line --------------------------------------------------------------------------


def cli(folder: Path, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    words, env = command(folder, *args)
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=env | environ,
        timeout=120,
    )


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A registry file with the fake pair."""
    file = tmp_path / "rows.toml"
    row = f"""
        [[pair]]
        key = "{PAIR.key}"
        kind = "synthetic"
        target = "{PAIR.target}"
        speculative_model = "{PAIR.speculative_model}"
        arch = "Qwen3ForCausalLM"
        num_target_layers = 8
        target_layer_ids = [1, 3, 5]
        block_size = 8
        source = "made up"
    """
    file.write_text(row)
    return file


def test_the_key_is_in_no_output_journal_log_or_report(
    server: Server, rows: Path, tmp_path: Path
) -> None:
    """Not even where the server sends it back."""
    body = json.dumps({"error": {"message": f"your key is {KEY}"}})
    server.answers["/v1/completions"] = saying(400, body)
    args = ("run", "fake", "--engine", "server", "--url", server.url, "--registry", rows.name)
    done = cli(tmp_path, *args, "--api-key-env", "LOOPBACK_KEY", "--json", LOOPBACK_KEY=KEY)
    assert done.returncode == 1, done.stderr
    written = {
        path: path.read_bytes() for path in (tmp_path / "reports").rglob("*") if path.is_file()
    }
    assert len(written) >= 3
    assert [path for path, data in written.items() if KEY.encode() in data] == []
    assert KEY not in done.stdout + done.stderr
    assert {headers["Authorization"] for _, headers, _ in server.asked} == {f"Bearer {KEY}"}
    (journal,) = (path for path in written if path.name == "journal.jsonl")
    cells = {cell.clause: cell for cell in read(journal).cells}
    assert cells["START-DECODE"].repro.endswith(
        f"--registry rows.toml --url {server.url} --api-key-env LOOPBACK_KEY"
    )
    assert "your key is ***" in cells["START-DECODE"].faults[0].evidence


def test_nobody_there_ends_the_run_with_one_crash(rows: Path, tmp_path: Path) -> None:
    args = ("run", "fake", "--engine", "server", "--url", "http://127.0.0.1:9")
    done = cli(tmp_path, *args, "--registry", rows.name)
    assert done.returncode == 1, done.stderr
    assert "START-LOAD: crash" in done.stdout
    assert "http://127.0.0.1:9/health: nobody answers" in done.stdout
    assert "1 unexpected" in done.stdout


def test_without_its_packages_everything_is_skipped_with_the_line_that_installs_them(
    rows: Path, tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone/httpx.py").write_text("raise ImportError('no httpx here')")
    args = ("run", "fake", "--engine", "server", "--url", "http://127.0.0.1:9")
    path = f"{tmp_path / 'gone'}:{ROOT}"
    done = cli(tmp_path, *args, "--registry", rows.name, PYTHONPATH=path)
    assert done.returncode == 3
    assert "no httpx here; pip install 'dflash-matrix[server]'" in done.stderr


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (("--engine", "server"), "--engine server: want --url http://HOST:PORT"),
        (("--engine", "server", "--url", "me"), "--url 'me': no address of a server"),
        (
            ("--engine", "vllm", "--url", "http://h"),
            "--url: only for --engine server, not for vllm",
        ),
        (("--engine", "vllm", "--metrics-url", "http://h"), "--metrics-url: only for"),
        (("--engine", "vllm", "--api-key-env", "A_KEY"), "--api-key-env: only for"),
        (("--engine", "server", "--url", "http://h", "--inject", "rows.toml"), "--inject: nothing"),
        (
            ("--engine", "server", "--url", "http://h", "--engine-path", "."),
            "--engine-path: the engine `server` has no classes",
        ),
        (
            ("--engine", "server", "--url", "http://h", "--api-key-env", "NO_SUCH_KEY"),
            "--api-key-env NO_SUCH_KEY: the environment has no such variable",
        ),
    ],
)
def test_bad_usage_is_one_line(
    args: tuple[str, ...],
    line: str,
    rows: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(rows.parent)
    assert main(["run", "fake", "--registry", rows.name, *args]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"dflash-matrix: {line}")
    assert said.count("\n") == 1


def test_rows_never_run_side_by_side_on_one_server(rows: Path, tmp_path: Path) -> None:
    from matrix.cli import make_plan, parse

    args = ["run", "fake", "--registry", str(rows), "--slots", "8", "--engine"]
    alone = make_plan(parse([*args, "server", "--url", "http://127.0.0.1:9"]), tmp_path)
    assert (alone.slots, make_plan(parse([*args, "vllm"]), tmp_path).slots) == (1, 8)


def test_the_repro_names_the_server_again(tmp_path: Path) -> None:
    at = Endpoint("http://127.0.0.1:1", "http://127.0.0.1:2/m", "A_KEY")
    plan = replace(Plan("server", (PAIR,), tmp_path), server=at)
    assert plan.repro(PAIR, "START-SPEC", None) == (
        "dflash-matrix run fake --engine server --clause START-SPEC --seed 0 --dtype float32 "
        "--url http://127.0.0.1:1 --metrics-url http://127.0.0.1:2/m --api-key-env A_KEY"
    )
