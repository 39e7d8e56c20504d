"""Small files of a hub repository, through huggingface_hub's client and its usual variables.

`HF_ENDPOINT`, `HF_TOKEN`, `HF_HOME`, `HF_HUB_OFFLINE` and proxies count as everywhere. The library's
own download trusts the server's sizes, so the transfer is ours: bounded in bytes and in time, no
compression, no redirect to another host except for weights, and then without the token.
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from matrix import __version__
from matrix.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Answer", "HubId", "fetch", "hub_id"]

_PATIENCE: Final = 10.0
"""Seconds without a byte."""
_DEADLINE: Final = 60.0
"""Seconds for one file."""
_HOPS: Final = 5
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_NAME: Final = r"[A-Za-z0-9][\w.-]*"
_ID: Final = re.compile(
    rf"(?P<repo>{_NAME}/{_NAME})(?P<folder>(?:/{_NAME})*)(?:@(?P<revision>[\w./-]+))?\Z", re.ASCII
)
_MISSING: Final = "needs huggingface_hub 1.0 or later: pip install 'dflash-matrix[preflight]'"


@dataclass(frozen=True)
class HubId:
    """`owner/name`, with a folder in the repository and a revision where they are given."""

    repo: str
    folder: str = ""
    revision: str | None = None

    def path(self, file: str) -> str:
        """The path of a file in the repository."""
        return f"{self.folder}/{file}" if self.folder else file


@dataclass(frozen=True)
class Answer:
    """A file, or the start of it."""

    data: bytes
    commit: str | None
    """Full hash of the revision that it came from."""


def hub_id(text: str) -> HubId | None:
    """`owner/name[/folder][@revision]`, or `None` when it isn't one."""
    found = _ID.match(text)
    if not found or ".." in text or "--" in found["repo"]:
        return None
    return HubId(found["repo"], found["folder"].lstrip("/"), found["revision"])


def fetch(where: HubId, file: str, limit: int, *, start: bool = False) -> Answer | None:
    """A file of a repository, `None` when the repository lacks it.

    Args:
        where: the repository.
        file: a plain name in its folder.
        limit: bytes at most; a longer file is refused.
        start: the first `limit` bytes are asked for, whatever the length.

    Raises:
        ConfigError: the hub can't be reached, refuses, or answers with what can't be trusted.
        UsageError: huggingface_hub isn't installed.
    """
    hub = _hub()
    name = f"{where.repo}: {where.path(file)}"
    if hub.constants.is_offline_mode():
        return _offline(
            hub,
            where,
            file,
            limit,
            f"{name}: not in the hub's cache, and HF_HUB_OFFLINE is set",
            start=start,
        )
    url = hub.hf_hub_url(where.repo, where.path(file), revision=where.revision)
    headers = hub.utils.build_hf_headers(library_name="dflash-matrix", library_version=__version__)
    headers["accept-encoding"] = "identity"
    if start:
        headers["range"] = f"bytes=0-{limit - 1}"
    try:
        return _follow(hub.get_session(), url, headers, name, limit, start=start)
    except _Unreachable as error:
        return _offline(hub, where, file, limit, f"{name}: {error}", start=start)


class _Unreachable(Exception):  # noqa: N818 - never leaves this module
    """No answer: what the cache holds is the next best."""


def _follow(
    client: Any, url: str, headers: dict[str, str], name: str, limit: int, *, start: bool
) -> Answer | None:
    deadline = time.monotonic() + _DEADLINE
    commit: str | None = None
    for _ in range(_HOPS + 1):
        with _opened(client, url, headers) as response:
            said = response.headers
            commit = commit or _commit(said.get("x-repo-commit"))
            if response.status_code in _REDIRECTS:
                there = next_url(url, said.get("location", ""), name)
                if _origin(there) != _origin(url):
                    headers = {k: v for k, v in headers.items() if k.lower() != "authorization"}
                url = there
                continue
            if response.status_code not in (200, 206):
                _check_absent(response.status_code, said.get("x-error-code"), name)
                return None
            if said.get("content-encoding", "identity") != "identity":
                raise ConfigError(f"{name}: comes compressed, though it was asked for as it is")
            data = _body(response, name, limit, deadline, start=start)
            return Answer(data, commit)
    raise ConfigError(f"{name}: more than {_HOPS} redirects")


@contextmanager
def _opened(client: Any, url: str, headers: dict[str, str]) -> Iterator[Any]:
    """A response whose body is still to come. Texts of errors may hold a header: none is shown."""
    import httpx

    try:
        with client.stream(
            "GET", url, headers=headers, follow_redirects=False, timeout=_PATIENCE
        ) as response:
            yield response
    except httpx.TimeoutException:
        raise _Unreachable(f"no answer within {_PATIENCE:.0f} s") from None
    except httpx.RemoteProtocolError:
        raise _Unreachable("truncated, or no HTTP") from None
    except (httpx.HTTPError, httpx.InvalidURL):
        raise _Unreachable(f"{urlsplit(url).hostname} can't be reached") from None


def _body(response: Any, name: str, limit: int, deadline: float, *, start: bool) -> bytes:
    data = bytearray()
    for chunk in response.iter_raw():
        data += chunk
        if time.monotonic() > deadline:
            raise ConfigError(f"{name}: not whole within {_DEADLINE:.0f} s")
        if len(data) >= limit and start:
            return bytes(data[:limit])
        if len(data) > limit:
            raise ConfigError(f"{name}: larger than {limit} bytes; that much isn't read")
    return bytes(data)


def next_url(url: str, location: str, name: str) -> str:
    """Where a redirect leads, if it may be followed: on the same host, or over https to weights.

    Raises:
        ConfigError: it may not.
    """
    there = urljoin(url, location)
    weights = name.endswith(".safetensors") and urlsplit(there).scheme == "https"
    if _origin(there) != _origin(url) and not weights:
        raise ConfigError(f"{name}: redirects to another host, {urlsplit(there).hostname!r:.80}")
    return there


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2]


def _check_absent(status: int, code: str | None, name: str) -> None:
    """Raise `ConfigError` unless the answer says that the file alone isn't there."""
    if status == 404 and code in (None, "EntryNotFound"):
        return
    if status in (401, 403):
        raise ConfigError(
            f"{name}: refused ({status}); there is no such repository, or it is private or gated "
            "and HF_TOKEN doesn't open it"
        )
    if status == 404:
        what = "revision" if code == "RevisionNotFound" else "repository"
        raise ConfigError(f"{name}: the hub has no such {what} (404)")
    raise ConfigError(f"{name}: the hub answers {status}")


def _commit(value: str | None) -> str | None:
    return value if value and re.fullmatch(r"[0-9a-f]{40}", value) else None


def _hub() -> Any:
    try:
        import httpx  # noqa: F401 - the client of every release from 1.0
        import huggingface_hub.constants
        import huggingface_hub.utils
    except ImportError:
        raise UsageError(f"a hub id {_MISSING}") from None
    if int(huggingface_hub.__version__.split(".")[0]) < 1:
        raise UsageError(f"a hub id {_MISSING}; {huggingface_hub.__version__} is installed")
    return huggingface_hub


def _cached(hub: Any, where: HubId, file: str, limit: int, *, start: bool) -> Answer | None:
    """What an earlier download left in the hub's own cache."""
    kept = hub.try_to_load_from_cache(where.repo, where.path(file), revision=where.revision)
    if not isinstance(kept, str):
        return None
    with Path(kept).open("rb") as stream:
        data = stream.read(limit + 1)
    if len(data) > limit and not start:
        raise ConfigError(f"{where.repo}: {file}: larger than {limit} bytes; that much isn't read")
    found = re.search(r"/snapshots/([0-9a-f]{40})/", kept)
    return Answer(data[:limit], found[1] if found else None)


def _offline(
    hub: Any, where: HubId, file: str, limit: int, problem: str, *, start: bool
) -> Answer | None:
    """What the cache holds: a file, or `None` if it holds the repository without that file."""
    kept = _cached(hub, where, file, limit, start=start)
    if kept is None and _cached(hub, where, "config.json", limit, start=True) is None:
        raise ConfigError(problem)
    return kept
