"""What a worker serves in these tests, instead of an engine: every way to behave badly."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

from matrix.engines import Array, Generation, Request
from matrix.errors import AdapterError, EngineError, PlatformRefused, WorkerGone


class Drill:
    """Served under the name `transformers`, by the file that is injected."""

    def echo(self, data: bytes) -> bytes:
        return data

    def generate(self, requests: list[Request]) -> list[Generation]:
        return [Generation(r.prompt, "length", [], []) for r in requests]

    def nothing(self) -> None:
        return None

    def environment(self, name: str) -> str | None:
        return os.environ.get(name)

    def path(self) -> list[str]:
        return sys.path

    def pids(self) -> list[int]:
        """Of this process and of its parent, the guard."""
        return [os.getpid(), os.getppid()]

    # --- exceptions ---

    def engine_raises(self) -> None:
        raise LookupError("no such layer\nsecond line")

    def engine_error(self) -> None:
        raise EngineError("ValueError", "as the engine said it")

    def platform_refuses(self) -> None:
        raise PlatformRefused("RuntimeError", "not supported by CpuPlatform")

    def adapter_fails(self) -> None:
        """The last line that runs is one of `matrix/engines`."""
        Array("float32", (2, 2), b"").numpy()

    def adapter_says_so(self) -> None:
        raise AdapterError("adapter: `runner.drafter` is gone")

    def server_gone(self) -> None:
        raise WorkerGone("timeout", "GET /health: no answer")

    def unencodable(self) -> object:
        return object()

    # --- ends ---

    def exits(self, status: int) -> None:
        os._exit(status)

    def leaves(self, status: int) -> None:
        sys.exit(status)

    def killed(self, number: int) -> None:
        os.kill(os.getpid(), number)

    def segfaults(self) -> None:
        ctypes.string_at(0)

    def kills_parent(self) -> None:
        os.kill(os.getppid(), signal.SIGKILL)

    def kills_group(self) -> None:
        os.killpg(0, signal.SIGKILL)

    def hangs(self) -> None:
        time.sleep(600)

    def hangs_deaf(self) -> None:
        """No signal that can be ignored ends it."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        time.sleep(600)

    def hogs(self, megabytes: int) -> None:
        kept = bytearray(os.urandom(1 << 20) * megabytes)
        time.sleep(600)
        del kept

    # --- output ---

    def says(self, data: bytes, times: int) -> None:
        for _ in range(times):
            os.write(1, data)

    def warns(self, text: str) -> None:
        print(text, file=sys.stderr)

    # --- children ---

    def spawns(self) -> list[int]:
        """Children, grandchildren, and one of each that left the session."""
        sleep = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
        own = subprocess.Popen(sleep).pid
        left = subprocess.Popen(sleep, start_new_session=True).pid
        shell = subprocess.Popen(
            ["sh", "-c", "sleep 600 & echo $!; setsid sleep 601 & echo $!; exit 0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert shell.stdout is not None
        orphans = [int(shell.stdout.readline()) for _ in range(2)]
        shell.wait()
        return [own, left, *orphans]

    def hogs_in_a_child(self, megabytes: int) -> None:
        code = (
            f"import os, time; kept = bytearray(os.urandom(1 << 20) * {megabytes}); time.sleep(600)"
        )
        subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True)
        time.sleep(600)
