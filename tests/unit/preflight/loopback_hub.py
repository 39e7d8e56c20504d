"""A hub on this machine: a server whose every answer a test decides."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
Handler = BaseHTTPRequestHandler


@dataclass
class Hub:
    """What is served: a path's bytes, or a function that answers for itself."""

    files: dict[str, bytes | Callable[[Handler], None]] = field(default_factory=dict)
    """`owner/name/file` -> its answer."""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Path and headers of every request."""
    url: str = ""

    @property
    def fetched(self) -> list[str]:
        """Paths of the files asked for; the library has a question of its own once a day."""
        return [path for path, _ in self.asked if "/resolve/" in path]

    def put(self, repo: str, file: str, content: Any) -> None:
        """Serve a file; a table becomes JSON."""
        if isinstance(content, dict):
            content = json.dumps(content).encode()
        self.files[f"{repo}/{file}"] = content


def safetensors(tensors: dict[str, tuple[str, list[int]]], length: int | None = None) -> bytes:
    """The start of a safetensors file; `length` is the lie that it tells of its header."""
    table = {
        name: {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]}
        for name, (dtype, shape) in tensors.items()
    }
    header = json.dumps(table).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header


def reply(
    handler: Handler, status: int, body: bytes = b"", length: int | None = None, **headers: str
) -> None:
    """Send one answer; `length` is the Content-Length that it claims."""
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    with suppress(OSError):  # a client that has read enough hangs up
        handler.wfile.write(body)


@contextmanager
def serving() -> Iterator[Hub]:
    """Serve on a free port of the loopback interface."""
    hub = Hub()

    class Answers(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            hub.asked.append((self.path, dict(self.headers)))
            repo, _, rest = self.path.strip("/").partition("/resolve/")
            found = hub.files.get(f"{repo}/{rest.partition('/')[2]}")
            if callable(found):
                found(self)
            elif found is None:
                known = any(name.startswith(f"{repo}/") for name in hub.files)
                code = "EntryNotFound" if known else "RepoNotFound"
                reply(self, 404, X_Error_Code=code)
            else:
                span = self.headers.get("Range")
                body = found[: int(span.partition("-")[2]) + 1] if span else found
                reply(self, 206 if span else 200, body, X_Repo_Commit=COMMIT)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
