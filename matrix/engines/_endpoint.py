"""Where a running server is, as the command line names it, and how its worker is told."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from matrix.errors import UsageError

__all__ = ["Endpoint"]

_URL: Final = "MATRIX_SERVER_URL"
_METRICS_URL: Final = "MATRIX_SERVER_METRICS_URL"
_API_KEY_ENV: Final = "MATRIX_SERVER_API_KEY_ENV"

_SHORTEST: Final = 6
"""Journals, logs and reports hide secrets from this length on."""


@dataclass(frozen=True)
class Endpoint:
    """A server's address, and the *name* of the variable that holds its key; never the key."""

    url: str
    """`http://HOST:PORT`, without `/v1`."""
    metrics_url: str | None = None
    """`None`: `/metrics` of the server, if it has that page."""
    api_key_env: str | None = None

    @classmethod
    def parse(cls, url: str, metrics_url: str | None, api_key_env: str | None) -> Endpoint:
        """From the options `--url`, `--metrics-url` and `--api-key-env`.

        Raises:
            UsageError: an address that is not one, or a variable that holds no key.
        """
        base = _address("--url", url).rstrip("/").removesuffix("/v1")
        page = _address("--metrics-url", metrics_url) if metrics_url else None
        if api_key_env is not None:
            _check_key(api_key_env)
        return cls(base, page, api_key_env)

    @classmethod
    def from_env(cls) -> Endpoint:
        """In the worker: what `env` put there."""
        get = os.environ.get
        return cls(os.environ[_URL], get(_METRICS_URL) or None, get(_API_KEY_ENV) or None)

    def env(self) -> dict[str, str]:
        """What a worker finds in its environment."""
        optional = {_METRICS_URL: self.metrics_url or "", _API_KEY_ENV: self.api_key_env or ""}
        return {_URL: self.url, **optional}

    @property
    def words(self) -> list[str]:
        """The options that name it again."""
        named = {"--metrics-url": self.metrics_url, "--api-key-env": self.api_key_env}
        options = [word for name, value in named.items() if value for word in (name, value)]
        return ["--url", self.url, *options]

    def key(self, environ: Mapping[str, str] = os.environ) -> str | None:
        """The key itself; asked for where a request is made, and nowhere else."""
        return environ[self.api_key_env] if self.api_key_env else None

    @property
    def page(self) -> str:
        """The address of the metrics page."""
        return self.metrics_url or f"{self.url}/metrics"


def _address(option: str, given: str) -> str:
    want = "want http://HOST[:PORT], such as http://127.0.0.1:8000"
    try:
        parts = urlsplit(given)
        complete = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        complete = False
    if not complete or not given.isascii() or not given.isprintable() or " " in given:
        raise UsageError(f"{option} {given!r}: no address of a server; {want}")
    if parts.username is not None or parts.password is not None:
        host = parts.netloc.rpartition("@")[2]
        raise UsageError(
            f"{option} ...@{host}: a key goes into --api-key-env, not into the address"
        )
    if parts.query or parts.fragment:
        raise UsageError(f"{option}: nothing may follow ? or # in it; {want}")
    return given


def _check_key(name: str) -> None:
    # The ending is what journal, log and report know a secret by, today's and a later command's.
    if not re.fullmatch(r"\w+_(KEY|TOKEN|SECRET)", name, re.IGNORECASE):
        text = "want the name of a variable that ends in _KEY, _TOKEN or _SECRET, so that its value"
        raise UsageError(f"--api-key-env {name}: {text} is hidden wherever results are written")
    key = os.environ.get(name, "")
    if not key:
        raise UsageError(
            f"--api-key-env {name}: the environment has no such variable, or it is empty"
        )
    if len(key) < _SHORTEST or not key.isascii() or not key.isprintable() or " " in key:
        text = f"its value is no key: want {_SHORTEST} or more printable ASCII characters"
        raise UsageError(f"--api-key-env {name}: {text}")
