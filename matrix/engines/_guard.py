"""The guard: a small process between the driver and a worker. Standard library only.

It leads the worker's process session, so that an engine that kills "its parent" kills the guard
and not the driver; it adopts orphans (child subreaper) and leaves no process behind, however the
worker or the driver ends; and it cuts the worker's output at a ceiling.

Usage: guard.py LOG CEILING CALLS_FD REPLIES_FD COMMAND...
Standard input is the driver's life line: when it closes, everything here is killed.
Standard output takes one line at the end: `status N`, the worker's wait status.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def parents() -> dict[int, int]:
    """Process id -> parent's process id, of every process that can be seen."""
    found: dict[int, int] = {}
    with os.scandir("/proc") as entries:
        names = [entry.name for entry in entries if entry.name.isdigit()]
    for name in names:
        try:
            # Often called; a `Path` for each process takes several times as long.
            with open(f"/proc/{name}/stat", "rb", buffering=0) as file:  # noqa: PTH123
                stat = file.read()
        except OSError:
            continue
        # The command name stands in brackets and may hold anything, brackets and spaces included.
        found[int(name)] = int(stat.rpartition(b")")[2].split()[1])
    return found


def descendants(root: int) -> list[int]:
    """Process ids below `root`."""
    tree = parents()
    below = {root}
    while True:
        more = {pid for pid, parent in tree.items() if parent in below} - below
        if not more:
            return sorted(below - {root})
        below |= more


def kill_descendants() -> None:
    """Kill all that is below this process, adopted orphans included, until nothing is left."""
    for _ in range(50):
        left = descendants(os.getpid())
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            # Only its own children can be reaped; the others are adopted, and come next time.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def watch_driver() -> None:
    """Block until the driver's end of standard input closes, then kill all that is below.

    The main thread reaps: it waits for the worker, and ends the rest as it always does.
    """
    while os.read(0, 4096):
        pass
    for pid in descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def secrets() -> list[bytes]:
    """Values of the environment that must not reach the log, longest first."""
    names = re.compile(r"HF_TOKEN|.*_(KEY|TOKEN|SECRET)", re.IGNORECASE)
    found = [v.encode() for k, v in os.environ.items() if names.fullmatch(k) and len(v) >= 6]
    return sorted(found, key=len, reverse=True)


def pump(source: int, log: Path, ceiling: int) -> None:
    """Copy the worker's output to the log up to `ceiling` bytes; go on draining after that.

    Secrets are hidden. So that one on the border of two reads is seen whole, as many bytes as a
    secret has wait for the next read.
    """
    written, hidden, kept = 0, secrets(), b""
    wait = max(map(len, hidden), default=1) - 1
    with log.open("ab", buffering=0) as sink:
        while part := os.read(source, 1 << 16):
            if written >= ceiling:
                continue
            data = kept + part
            for secret in hidden:
                data = data.replace(secret, b"***")
            border = max(len(data) - wait, 0)
            kept = data[border:]
            written += sink.write(data[: min(border, ceiling - written)])
            if written >= ceiling:
                sink.write(b"\n[cut: the output passed %d bytes]\n" % ceiling)
                kept = b""
        sink.write(kept)


def main() -> None:
    """Run the worker and report how it ended."""
    log, ceiling, calls, replies, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch_driver, daemon=True).start()
    source, sink = os.pipe()
    worker = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sink,
        stderr=sink,
        pass_fds=(int(calls), int(replies)),
    )
    # Only the worker may hold these: its end must reach the driver as end of file.
    for fd in (sink, int(calls), int(replies)):
        os.close(fd)
    pumping = threading.Thread(target=pump, args=(source, Path(log), int(ceiling)), daemon=True)
    pumping.start()
    _, status = os.waitpid(worker.pid, 0)
    kill_descendants()
    pumping.join(timeout=5)
    with contextlib.suppress(BrokenPipeError):
        print(f"status {status}", flush=True)


if __name__ == "__main__":
    main()
