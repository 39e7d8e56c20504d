"""The page as one file of HTML that loads nothing and runs only its own script."""

from __future__ import annotations

import base64
import gzip
import hashlib
from functools import cache
from typing import Final

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from matrix.report._page import Page
from matrix.results import LETTERS

__all__ = ["SCRIPTS", "html"]

SCRIPTS: Final = ("data.js", "state.js", "grid.js", "plots.js", "cell.js", "page.js")
"""One script, in parts; each may use what those before it define."""


@cache
def _environment() -> Environment:
    """Compiles the templates once in a process."""
    return Environment(
        loader=PackageLoader("matrix.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _source(name: str) -> str:
    environment = _environment()
    assert environment.loader is not None, "made with one"
    return environment.loader.get_source(environment, name)[0]


def html(page: Page) -> str:
    """The report's text."""
    style, script = _source("report.css"), "".join(map(_source, SCRIPTS))
    # Ours, from the package: the only text that is not escaped. The policy lets nothing else run,
    # and no text become markup.
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types"
    )
    return (
        _environment()
        .get_template("report.html")
        .render(
            page=page,
            letters={outcome.value: letter for outcome, letter in LETTERS.items()},
            policy=policy,
            style=Markup(style),  # noqa: S704
            script=Markup(script),  # noqa: S704
            data=_packed(page),
        )
    )


def _packed(page: Page) -> str:
    """Every cell as gzipped JSON in base64, which holds no markup; the script unpacks it."""
    data = {"cells": list(page.entries.values()), "sentences": page.sentences}
    return base64.b64encode(gzip.compress(msgspec.json.encode(data), 6, mtime=0)).decode()


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
