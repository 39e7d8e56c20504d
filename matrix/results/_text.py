"""Text that comes from engines, models and users, made safe for a journal or a terminal."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["one_line", "plain", "redactor"]

HIDDEN: Final = "***"
"""What stands where a secret stood."""

_SHORTEST: Final = 6
"""Shorter values (`SORT_KEY=pair`) are no secrets, and hiding them would garble every line."""

_SECRET_NAME: Final = re.compile(r"HF_TOKEN|.*_(KEY|TOKEN|SECRET)", re.IGNORECASE)
_URL_USER: Final = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,30}://)[^\s/?#@\"'<>]+@", re.IGNORECASE
)
_URL_QUERY: Final = re.compile(
    r"(?P<name>[?&](?:[\w.-]*[_-])?(?:key|token|secret|signature|password|apikey)=)[^\s&#\"'<>]+",
    re.IGNORECASE,
)

# Control sequences (ECMA-48): CSI, the string kinds up to their end (OSC, DCS, ...), two-byte ones.
_ESCAPE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[]PX^_]|[\x90\x98\x9d-\x9f])[^\n\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# What is left of C0 and C1 but tab and newline; and what turns the reading direction.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def redactor(environ: Mapping[str, str] | None = None) -> Callable[[str], str]:
    """A function that hides what `environ` (default: the process's own) holds as secrets.

    Secrets are the values of `HF_TOKEN`, `*_KEY`, `*_TOKEN` and `*_SECRET` that are at least six
    characters long, and the user part and secret query parameters of URLs.
    """
    variables = os.environ if environ is None else environ
    secrets = {
        value
        for name, value in variables.items()
        if len(value) >= _SHORTEST and _SECRET_NAME.fullmatch(name)
    }
    # The longest first: one secret may be the start of another.
    ordered = sorted(secrets, key=lambda secret: (-len(secret), secret))

    def hide(text: str) -> str:
        for secret in ordered:
            text = text.replace(secret, HIDDEN)
        text = _URL_USER.sub(rf"\g<scheme>{HIDDEN}@", text)
        return _URL_QUERY.sub(rf"\g<name>{HIDDEN}", text)

    return hide


def plain(text: str) -> str:
    """`text` without escape sequences and control characters; tabs and newlines stay."""
    if text.isascii() and text.isprintable():  # most of what is shown, and a report shows much
        return text
    unified = text.replace("\r\n", "\n").replace("\r", "\n")
    encodable = unified.encode("utf-8", "replace").decode("utf-8")
    return _CONTROL.sub("", _ESCAPE.sub("", encodable))


def one_line(text: str) -> str:
    """`text` on one line that no terminal and no CI log reads as a command.

    A workflow runner takes `::name::` at the start of a line and `##[name]` anywhere as commands.
    """
    joined = " ".join(plain(text).split()).replace("##[", "# [")
    return f"\\{joined}" if joined.startswith("::") else joined
