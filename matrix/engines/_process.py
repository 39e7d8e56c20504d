"""The driver's side of a worker: start it, call it, and turn every way it can end into an error."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import msgspec

from matrix import errors
from matrix.engines import _guard
from matrix.engines._messages import Failed, Gone, Raised
from matrix.engines._rpc import HEADER, decode_reply, encode_call
from matrix.errors import (
    EngineError,
    HarnessError,
    MissingDependency,
    PlatformRefused,
    WorkerGone,
)

__all__ = ["LOG_CEILING", "MEMORY_CEILING_MB", "Worker"]

T = TypeVar("T")

LOG_CEILING: Final = 64 << 20
"""Bytes of output after which a worker's log is cut."""
MEMORY_CEILING_MB: Final = 8192
"""Resident megabytes, all processes of a worker together, above which it is ended."""

_TICK: Final = 0.2
_LOOK: Final = 0.5
"""Seconds between two looks at a worker's memory, each of which reads all of /proc."""
_PACKAGE: Final = Path(__file__).parents[1]
# The engine's interpreter need not have this project installed: it is loaded by path, without
# putting the driver's own site-packages (and so its torch) on the engine's path.
_BOOT: Final = """
import importlib.util, sys
home, *argv = sys.argv[1:]
spec = importlib.util.spec_from_file_location(
    "matrix", home + "/__init__.py", submodule_search_locations=[home])
module = sys.modules["matrix"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
try:
    from matrix.engines._worker import main
except ImportError as error:
    print(error, file=sys.stderr, flush=True)
    sys.exit(44)
main(argv)
"""
_NOT_BOOTED: Final = 44
"""The exit status above: this interpreter lacks what a worker itself is made of."""


def resident_mb(pids: list[int]) -> float:
    """Resident megabytes of these processes together; pages they share count for each."""
    pages = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


@dataclass
class Worker:
    """One worker process under its guard.

    Raises (from `call`):
        EngineError: the engine raised; `PlatformRefused` when it refuses the whole platform.
        HarnessError: the adapter failed; `MissingDependency` when it can't even be loaded.
        WorkerGone: the process ended, hung past its deadline, or outgrew its memory; or what its
            adapter speaks to is gone.
    """

    served: str
    """What it serves: a name of `_worker.SERVED`."""
    log: Path
    python: str = sys.executable
    inject: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    memory_mb: float = MEMORY_CEILING_MB
    peak_mb: float = 0.0
    gone: WorkerGone | None = None
    _look: float = 0.0
    """When (`time.monotonic`) the memory is looked at again."""
    _counted: tuple[int, int] = (0, 0)
    """Bytes of the log that were read for `log_line`, and lines in them."""

    def __post_init__(self) -> None:
        """Start guard and worker; returns before the worker's imports are done."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.touch()
        calls, self._calls = os.pipe()
        self._replies, replies = os.pipe()
        os.set_blocking(self._calls, False)
        os.set_blocking(self._replies, False)
        inject = [str(self.inject.resolve())] if self.inject else []
        command = [self.python, "-P", "-u", "-c", _BOOT, str(_PACKAGE)]
        command += [self.served, str(calls), str(replies), *inject]
        guard = [sys.executable, "-I", "-S", _guard.__file__, str(self.log), str(LOG_CEILING)]
        self._guard = subprocess.Popen(
            [*guard, str(calls), str(replies), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **self.env},
            pass_fds=(calls, replies),
            start_new_session=True,
        )
        os.close(calls)
        os.close(replies)

    @property
    def pid(self) -> int:
        """The guard's process id, which is also its session's."""
        return self._guard.pid

    @property
    def flooded(self) -> bool:
        """Whether its output passed the ceiling and was cut."""
        return self.log.stat().st_size > LOG_CEILING

    def log_line(self) -> int:
        """Number of lines that the log has now."""
        read, lines = self._counted
        with self.log.open("rb") as log:
            log.seek(read)
            while part := log.read(1 << 20):
                read, lines = read + len(part), lines + part.count(b"\n")
        self._counted = read, lines
        return lines

    def call(self, method: str, *args: Any, returns: type[T], deadline: float) -> T:
        """Call `method` in the worker; `deadline` is in seconds."""
        if self.gone:
            raise self.gone
        until = time.monotonic() + deadline
        try:
            data = encode_call(method, args)
        except (OverflowError, TypeError) as error:
            raise HarnessError(f"{method}: an argument can't be sent: {error}") from error
        self._send(data, method, until, deadline)
        head = self._receive(HEADER, method, until, deadline)
        reply = decode_reply(self._receive(int.from_bytes(head, "big"), method, until, deadline))
        if isinstance(reply, Failed):
            cls = getattr(errors, reply.type_name, HarnessError)
            raise cls(reply.text)
        if isinstance(reply, Gone):
            raise WorkerGone(reply.outcome, reply.how)
        if isinstance(reply, Raised):
            refused = PlatformRefused if reply.platform else EngineError
            raise refused(reply.type_name, reply.text, reply.trace)
        return msgspec.msgpack.decode(reply.value, type=returns)

    def close(self) -> None:
        """End the worker and everything below it; returns when nothing is left."""
        for fd in (self._calls, self._replies):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._calls = self._replies = -1  # the numbers may be another's from now on
        self.gone = self.gone or WorkerGone("crash", "the worker was closed")
        stdin = self._guard.stdin
        assert stdin is not None, "the guard was started with a pipe"
        with contextlib.suppress(OSError):
            stdin.close()
        try:
            self._guard.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._guard.kill()
        self._kill_all()
        self._guard.wait()
        self._read_guard()
        assert self._guard.stdout is not None, "the guard was started with a pipe"
        self._guard.stdout.close()

    def kill(self) -> None:
        """End the worker at once, from any thread; a call under way raises `WorkerGone`."""
        self.gone = self.gone or WorkerGone("crash", "the run was stopped")
        self._kill_all()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def _kill_all(self) -> None:
        for pid in [*_guard.descendants(self.pid), *_session(self.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _send(self, data: bytes, method: str, until: float, deadline: float) -> None:
        view = memoryview(data)
        while view:
            _, ready, _ = select.select([], [self._calls], [], _TICK)
            self._check(method, until, deadline)
            if ready:
                try:
                    view = view[os.write(self._calls, view[: 1 << 16]) :]
                except BrokenPipeError:
                    raise self._ended(method) from None

    def _receive(self, size: int, method: str, until: float, deadline: float) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            ready, _, _ = select.select([self._replies], [], [], _TICK)
            if ready:
                part = os.read(self._replies, min(size - len(parts), 1 << 20))
                if not part:
                    raise self._ended(method)
                parts += part
            else:
                self._check(method, until, deadline)
        return bytes(parts)

    def _check(self, method: str, until: float, deadline: float) -> None:
        now = time.monotonic()
        if now >= self._look:
            self._look = now + _LOOK
            now_mb = resident_mb(_guard.descendants(self.pid))
            self.peak_mb = max(self.peak_mb, now_mb)
            if now_mb > self.memory_mb:
                raise self._end(
                    "oom", f"{now_mb:.0f} MB resident in {method}, ceiling {self.memory_mb:.0f} MB"
                )
        if now > until:
            self._dump_stacks()
            raise self._end("timeout", f"no answer to {method} within {deadline:g} s")

    def _dump_stacks(self) -> None:
        for pid in _guard.descendants(self.pid)[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR1)
        time.sleep(_TICK)

    def _end(self, outcome: str, how: str) -> WorkerGone:
        self.gone = WorkerGone(outcome, how)
        self.close()
        return self.gone

    def _ended(self, method: str) -> WorkerGone | MissingDependency:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(timeout=10)
        status = self._read_guard()
        self.gone = WorkerGone("crash", f"{_how(status, self._guard.returncode)} in {method}")
        self.close()
        if status is not None and os.waitstatus_to_exitcode(status) == _NOT_BOOTED:
            lines = self.log.read_text(errors="replace").splitlines()
            return MissingDependency(lines[-1] if lines else "a worker can't be loaded")
        return self.gone

    def _read_guard(self) -> int | None:
        stdout: IO[bytes] | None = self._guard.stdout
        if stdout is None or stdout.closed or self._guard.poll() is None:
            return None
        word, _, status = stdout.read().decode().strip().partition(" ")
        return int(status) if word == "status" else None


def _session(leader: int) -> list[int]:
    found = []
    for pid in _guard.parents():
        with contextlib.suppress(OSError):
            if os.getsid(pid) == leader:
                found.append(pid)
    return found


def _how(status: int | None, guard: int | None) -> str:
    if status is None:
        return f"the worker's guard ended with status {guard}"
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit status {os.WEXITSTATUS(status)}"
