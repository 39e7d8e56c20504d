"""Workers are real processes here, and every way they can end becomes an error with a name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from matrix.engines import Generation, Request, Worker, _process
from matrix.errors import (
    AdapterError,
    EngineError,
    MissingDependency,
    PlatformRefused,
    WorkerGone,
)

Start = Callable[..., Worker]
ROOT = Path(__file__).parents[3]


def call(worker: Worker, method: str, *args: object, deadline: float = 30.0) -> None:
    worker.call(method, *args, returns=type(None), deadline=deadline)


def gone(worker: Worker, method: str, *args: object, deadline: float = 30.0) -> WorkerGone:
    with pytest.raises(WorkerGone) as caught:
        call(worker, method, *args, deadline=deadline)
    return caught.value


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_until_dead(pids: list[int], seconds: float = 10.0) -> list[int]:
    until = time.monotonic() + seconds
    while (left := [pid for pid in pids if alive(pid)]) and time.monotonic() < until:
        time.sleep(0.05)
    return left


# --- calls -------------------------------------------------------------------------------------


def test_a_call_goes_there_and_back(worker: Worker) -> None:
    requests = [Request([1, 2, 3], 4), Request([5], 1, salt="x")]
    answers = worker.call("generate", requests, returns=list[Generation], deadline=30.0)
    assert [answer.tokens for answer in answers] == [[1, 2, 3], [5]]
    assert worker.gone is None


def test_messages_larger_than_any_pipe(worker: Worker) -> None:
    data = os.urandom(1 << 20) * 9
    assert worker.call("echo", data, returns=bytes, deadline=30.0) == data
    assert worker.call("echo", b"", returns=bytes, deadline=30.0) == b""


def test_the_environment_that_is_given_is_added(start: Start) -> None:
    worker = start(env={"OMP_NUM_THREADS": "7"})
    seen = worker.call("environment", "OMP_NUM_THREADS", returns=str, deadline=30.0)
    assert seen == "7"
    assert worker.call("environment", "PATH", returns=str, deadline=30.0) == os.environ["PATH"]


def test_the_drivers_standard_input_is_not_the_workers(worker: Worker) -> None:
    pid, guard = worker.call("pids", returns=list[int], deadline=30.0)
    assert guard == worker.pid
    assert os.getsid(pid) == worker.pid != os.getsid(0)
    assert Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")


# --- exceptions --------------------------------------------------------------------------------


def test_what_the_engine_raises_is_its_own_word(worker: Worker) -> None:
    with pytest.raises(EngineError) as caught:
        call(worker, "engine_raises")
    error = caught.value
    assert (error.type_name, error.text) == ("LookupError", "no such layer\nsecond line")
    assert "drill.py" in error.trace
    assert not isinstance(error, PlatformRefused)
    call(worker, "nothing")


def test_an_adapter_may_pass_the_engines_word_on(worker: Worker) -> None:
    with pytest.raises(EngineError) as caught:
        call(worker, "engine_error")
    assert (caught.value.type_name, caught.value.text) == ("ValueError", "as the engine said it")


def test_what_the_adapter_speaks_to_may_be_gone_and_the_worker_not(worker: Worker) -> None:
    error = gone(worker, "server_gone")
    assert (error.outcome, error.how) == ("timeout", "GET /health: no answer")
    assert worker.gone is None
    call(worker, "nothing")


def test_a_refusal_of_the_whole_platform_is_told_apart(worker: Worker) -> None:
    with pytest.raises(PlatformRefused) as caught:
        call(worker, "platform_refuses")
    assert (caught.value.type_name, caught.value.text) == (
        "RuntimeError",
        "not supported by CpuPlatform",
    )


@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("adapter_fails", ()),
        ("no_such_method", ()),
        ("echo", (["not", "bytes"],)),
        ("echo", ()),
        ("unencodable", ()),
    ],
)
def test_what_our_own_lines_raise_is_the_adapters_fault(
    worker: Worker, method: str, args: tuple[object, ...]
) -> None:
    with pytest.raises(AdapterError, match=r"^adapter: "):
        call(worker, method, *args)
    call(worker, "nothing")


def test_an_adapter_that_says_so_is_believed(worker: Worker) -> None:
    with pytest.raises(AdapterError) as caught:
        call(worker, "adapter_says_so")
    assert str(caught.value) == "adapter: `runner.drafter` is gone"


def test_an_engine_that_cannot_be_imported_is_a_missing_dependency(
    start: Start, tmp_path: Path
) -> None:
    inject = tmp_path / "missing.py"
    inject.write_text(
        "import matrix.engines._worker as w; w.SERVED['transformers'] = 'no_such_package.x:Y'"
    )
    worker = start(inject=inject)
    for _ in range(2):
        with pytest.raises(MissingDependency, match="no_such_package"):
            call(worker, "nothing")


def test_an_interpreter_without_our_few_dependencies_is_a_missing_dependency(
    start: Start, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    worker = start(python=str(bare / "bin" / "python"))
    with pytest.raises(MissingDependency, match="msgspec"):
        call(worker, "nothing")


def test_an_injected_file_that_raises_ends_the_worker_with_its_trace_in_the_log(
    start: Start, tmp_path: Path
) -> None:
    inject = tmp_path / "broken.py"
    inject.write_text("raise RuntimeError('planted wrongly')")
    worker = start(inject=inject)
    assert gone(worker, "nothing").how == "exit status 1 in nothing"
    assert "planted wrongly" in worker.log.read_text()


# --- ends --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "args", "how"),
    [
        ("exits", (3,), "exit status 3 in exits"),
        ("exits", (0,), "exit status 0 in exits"),
        ("leaves", (4,), "exit status 4 in leaves"),
        ("killed", (int(signal.SIGKILL),), "killed by SIGKILL in killed"),
        ("killed", (int(signal.SIGTERM),), "killed by SIGTERM in killed"),
        ("segfaults", (), "killed by SIGSEGV in segfaults"),
    ],
)
def test_a_worker_that_ends_says_how(
    worker: Worker, method: str, args: tuple[object, ...], how: str
) -> None:
    error = gone(worker, method, *args)
    assert (error.outcome, error.how) == ("crash", how)
    assert gone(worker, "nothing") is error, "it stays gone, for the same reason"
    assert not alive(worker.pid)


def test_a_segfault_leaves_its_stack_in_the_log(worker: Worker) -> None:
    gone(worker, "segfaults")
    assert "Fatal Python error: Segmentation fault" in worker.log.read_text()


@pytest.mark.parametrize("method", ["hangs", "hangs_deaf"])
def test_a_worker_that_hangs_is_ended_with_its_stack_in_the_log(
    worker: Worker, method: str
) -> None:
    call(worker, "nothing")
    began = time.monotonic()
    error = gone(worker, method, deadline=0.6)
    assert (error.outcome, error.how) == ("timeout", f"no answer to {method} within 0.6 s")
    assert time.monotonic() - began < 5
    log = worker.log.read_text()
    assert "most recent call first" in log
    assert f"in {method}" in log
    assert not alive(worker.pid)


def test_a_deadline_counts_for_a_worker_that_never_reads(start: Start, tmp_path: Path) -> None:
    inject = tmp_path / "sleepy.py"
    inject.write_text("import time; time.sleep(600)")
    worker = start(inject=inject)
    error = gone(worker, "echo", b"x" * (1 << 20), deadline=0.6)
    assert error.outcome == "timeout"


@pytest.mark.parametrize("method", ["hogs", "hogs_in_a_child"])
def test_a_worker_that_outgrows_its_memory_is_ended(start: Start, method: str) -> None:
    worker = start(memory_mb=250)
    error = gone(worker, method, 400)
    assert error.outcome == "oom"
    assert f"in {method}, ceiling 250 MB" in error.how
    assert worker.peak_mb > 250
    assert not alive(worker.pid)


def test_a_call_under_way_ends_when_the_run_is_stopped(worker: Worker) -> None:
    import threading

    call(worker, "nothing")
    threading.Timer(0.5, worker.kill).start()
    began = time.monotonic()
    assert gone(worker, "hangs").outcome == "crash"
    assert time.monotonic() - began < 10


def test_closing_twice_is_closing_once(worker: Worker) -> None:
    call(worker, "nothing")
    worker.close()
    worker.close()
    error = gone(worker, "nothing")
    assert error.how == "the worker was closed"


def test_closing_again_leaves_what_others_opened_meanwhile_alone(worker: Worker) -> None:
    gone(worker, "exits", 3)
    others = [end for _ in range(8) for end in os.pipe()]
    worker.close()
    for end in others:
        os.close(end)


# --- output ------------------------------------------------------------------------------------


def test_output_is_kept_whatever_bytes_it_holds(worker: Worker) -> None:
    junk = bytes(range(256)) + b"\xff\xfe\r\n\x00"
    call(worker, "says", junk, 3)
    call(worker, "warns", "and a line of its own")
    worker.close()
    log = worker.log.read_bytes()
    assert log.count(junk) == 3
    assert log.endswith(b"and a line of its own\n")
    assert worker.log_line() == log.count(b"\n")
    assert not worker.flooded


def test_a_flood_is_cut_with_a_note_and_the_worker_goes_on(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_process, "LOG_CEILING", 1 << 16)
    worker = start()
    call(worker, "says", b"x" * 1000 + b"\n", 5000)
    assert worker.call("echo", b"still here", returns=bytes, deadline=30.0) == b"still here"
    assert worker.flooded
    worker.close()
    log = worker.log.read_bytes()
    assert log.endswith(b"\n[cut: the output passed 65536 bytes]\n")
    assert (1 << 16) < len(log) < (1 << 16) + 100


# --- nothing is left behind --------------------------------------------------------------------


def test_no_child_survives_closing(worker: Worker) -> None:
    pids = worker.call("spawns", returns=list[int], deadline=30.0)
    assert len(pids) == 4
    assert all(alive(pid) for pid in pids)
    worker.close()
    assert [pid for pid in [*pids, worker.pid] if alive(pid)] == []


@pytest.mark.parametrize("how", ["exits", "killed"])
def test_no_child_survives_a_worker_that_ends(worker: Worker, how: str) -> None:
    pids = worker.call("spawns", returns=list[int], deadline=30.0)
    gone(worker, how, 9)
    assert [pid for pid in [*pids, worker.pid] if alive(pid)] == []


def test_a_worker_that_kills_its_parent_leaves_the_driver_alone(worker: Worker) -> None:
    pid, guard = worker.call("pids", returns=list[int], deadline=30.0)
    call(worker, "kills_parent")
    assert wait_until_dead([guard]) == []
    worker.close()
    assert wait_until_dead([pid]) == []


def test_a_worker_that_kills_its_group_leaves_the_driver_alone(worker: Worker) -> None:
    pids = worker.call("pids", returns=list[int], deadline=30.0)
    error = gone(worker, "kills_group")
    assert (error.outcome, error.how) == (
        "crash",
        "the worker's guard ended with status -9 in kills_group",
    )
    assert wait_until_dead(pids) == []


DRIVER = """
import sys, time
from pathlib import Path
from matrix.engines import Worker
worker = Worker("transformers", Path(sys.argv[1]), inject=Path(sys.argv[2]))
pids = worker.call("pids", returns=list[int], deadline=30.0)
pids += worker.call("spawns", returns=list[int], deadline=30.0)
print(*pids, flush=True)
{then}
"""


@pytest.mark.parametrize(
    "then", ["time.sleep(600)", "worker.call('hangs', returns=type(None), deadline=600.0)"]
)
def test_nothing_survives_a_driver_that_is_killed(tmp_path: Path, inject: Path, then: str) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER.format(then=then), tmp_path / "w.log", inject],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert driver.stdout is not None
    pids = [int(pid) for pid in driver.stdout.readline().split()]
    assert len(pids) == 6
    assert all(alive(pid) for pid in pids)
    driver.kill()
    driver.wait()
    driver.stdout.close()
    assert wait_until_dead(pids) == []


def test_the_package_is_loaded_by_path_alone(start: Start) -> None:
    """The folder that it lies in, and what else lies there, is not on the engine's path."""
    worker = start(env={"PYTHONPATH": ""})
    path = worker.call("path", returns=list[str], deadline=30.0)
    assert str(ROOT) not in path
    assert str(Path.cwd()) not in path
    assert "" not in path
