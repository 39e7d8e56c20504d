"""Speaking HTTP to a server that may do anything: every way it can go wrong has a name.

What an answer says is a result (`EngineError`); that there is none, since the server is gone, is a
lost engine (`WorkerGone`). A redirect is never followed: the key goes to the address that was
named, and nowhere else. How long a whole call may take is the driver's business.
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from matrix.engines._endpoint import Endpoint
from matrix.errors import EngineError, HarnessError, WorkerGone

__all__ = ["Link"]

T = TypeVar("T")

CEILING: Final = 16 << 20
"""Bytes of an answer; what is larger is not read on."""
_SHOWN: Final = 200
"""Characters of an unreadable answer that are shown."""
_QUICK: Final = httpx.Timeout(30.0, connect=10.0)
"""For questions that take little computing: SGLang generates a token to say that it is well."""
_SLOW: Final = httpx.Timeout(None, connect=10.0)
"""For generating: the driver ends a worker whose call passes its deadline."""


class Link:
    """A server's address and how to ask it; may be used by several threads at once."""

    def __init__(self, at: Endpoint) -> None:
        self.at = at
        self._key = at.key()
        # A connection a request: one that the server closes while it idles would look like a death.
        self._client = httpx.Client(
            headers={"Connection": "close", "Accept-Encoding": "identity"},
            timeout=_QUICK,
            follow_redirects=False,
        )

    def get(self, path: str, kind: type[T]) -> T:
        """The JSON of a page, as `kind`.

        Raises:
            EngineError: an answer that is none, or no such JSON.
            HarnessError: the key is refused, or one is wanted.
            WorkerGone: nobody answers.
        """
        return self._decode(f"GET {path}", self._ask("GET", self.at.url + path), kind)

    def post(self, path: str, body: dict[str, Any], kind: type[T]) -> T:
        """What the server answers to `body`; raises as `get`."""
        answer = self._ask("POST", self.at.url + path, json=body, timeout=_SLOW)
        return self._decode(f"POST {path}", answer, kind)

    def page(self, url: str) -> str:
        """The text of a page, here or on another address; raises as `get`."""
        return self._ask("GET", url).decode("utf-8", "replace")

    def healthy(self) -> None:
        """Raise `WorkerGone` unless the server says that it is well; one without a word for it is."""
        try:
            self._ask("GET", f"{self.at.url}/health")
        except EngineError as error:
            if error.type_name.startswith("HTTP 5"):
                raise WorkerGone("crash", str(error)) from error

    def _ask(self, method: str, url: str, **options: Any) -> bytes:
        """The body of a good answer."""
        what = f"{method} {url}"
        try:
            with self._client.stream(method, url, headers=self._headers(url), **options) as answer:
                body = self._body(what, answer)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise WorkerGone("crash", f"{what}: nobody answers: {_said(error)}") from error
        except httpx.TimeoutException as error:
            raise WorkerGone("timeout", f"{what}: no answer within {_QUICK.read:g} s") from error
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise self._cut_off(what, url, error) from error
        self._check(what, answer, body)
        return body

    def _headers(self, url: str) -> dict[str, str]:
        home, there = urlsplit(self.at.url), urlsplit(url)
        if self._key is None or (home.scheme, home.netloc) != (there.scheme, there.netloc):
            return {}
        return {"Authorization": f"Bearer {self._key}"}

    def _body(self, what: str, answer: httpx.Response) -> bytes:
        parts = bytearray()
        for part in answer.iter_bytes():
            parts += part
            if len(parts) > CEILING:
                raise EngineError("TooLarge", f"{what}: the answer passes {CEILING >> 20} MiB")
        return self._hidden(bytes(parts))

    def _hidden(self, body: bytes) -> bytes:
        """Without the key, should the server send it back, as it is or as JSON writes it."""
        for form in {self._key, json.dumps(self._key)[1:-1]} if self._key else ():
            body = body.replace(form.encode(), b"***")
        return body

    def _check(self, what: str, answer: httpx.Response, body: bytes) -> None:
        status = answer.status_code
        if status in (401, 403):
            key = f"the key in {self.at.api_key_env}" if self._key else "a request without a key"
            want = "--api-key-env names the variable that holds a key"
            raise HarnessError(f"{what}: {status}: the server refuses {key}; {want}")
        if answer.is_redirect:
            to = self._hidden(answer.headers.get("location", "").encode()).decode()
            text = f"{what}: sends us on to {to!r}, which is not followed; give that as --url"
            raise EngineError(f"HTTP {status}", text)
        if not answer.is_success:
            raise EngineError(
                f"HTTP {status}", f"{what}: {_shown(_message(body)) or 'without a word'}"
            )

    def _cut_off(self, what: str, url: str, error: Exception) -> WorkerGone | EngineError:
        """An answer broke off: the server's end, or only that of its answer?"""
        said = f"{what}: the answer broke off: {_said(error)}"
        probe = f"{self.at.url}/health" if url != f"{self.at.url}/health" else url
        try:
            with self._client.stream("GET", probe):
                return EngineError(type(error).__name__, said)
        except httpx.HTTPError:
            return WorkerGone("crash", said)

    def _decode(self, what: str, body: bytes, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            shown = _shown(body.decode("utf-8", "replace"))
            raise EngineError("BadAnswer", f"{what}: {error}; the answer is {shown!r}") from error


def _message(body: bytes) -> str:
    """What an answer in error says: OpenAI's form, or whatever text it is."""
    text = body.decode("utf-8", "replace")
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(told, dict):
        inner = told.get("error", told)
        said = inner.get("message", inner) if isinstance(inner, dict) else inner
        return said if isinstance(said, str) else text
    return text


def _shown(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= _SHOWN else f"{joined[:_SHOWN]}..."


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
