"""`--engine-path`: an engine of which nothing but the classes is looked at."""

from __future__ import annotations

import os
import platform
from typing import Any, Final, Protocol

from matrix.engines._messages import (
    Counters,
    Generation,
    Hook,
    Identity,
    Probed,
    Request,
    Started,
    StartSpec,
)
from matrix.engines._protocol import CAPABILITIES
from matrix.errors import AdapterError

__all__ = ["ClassEngine", "Classes"]

_NOT_STARTED: Final = "--engine-path looks at classes alone"


class Classes(Protocol):
    """What an engine's adapter can say of its class for `arch`."""

    arch: str

    def hook(self) -> Hook:
        """See `Engine`."""

    def probe(self, ids: Any, depth: int, last_rank: bool) -> Probed:
        """See `Engine`."""


class ClassEngine:
    """Implements `Engine` as far as classes go.

    Args:
        name: the engine's.
        classes: its classes.
        offers: the capabilities that looking at classes gives.
        standins: what stands in while they are imported.
    """

    def __init__(
        self, name: str, classes: Classes, offers: tuple[str, ...], standins: list[str]
    ) -> None:
        self.name, self.classes, self.offers, self.standins = name, classes, offers, standins

    def identify(self) -> Identity:
        """The version is what the wheel or the checkout says of itself."""
        return Identity(
            name=self.name,
            version=os.environ["MATRIX_ENGINE_VERSION"],
            python=platform.python_version(),
            transformers=None,
            torch=None,
            device="cpu",
            driver=None,
            lacks={name: _NOT_STARTED for name in CAPABILITIES if name not in self.offers},
            settings={"main": {"runner": "none", "mode": "classes alone"}},
            standins=self.standins,
        )

    def start(self, spec: StartSpec) -> Started:
        """Only notes which class is asked about."""
        self.classes.arch = spec.arch
        return Started(target={})

    def hook(self) -> Hook:
        """See `Classes`."""
        return self.classes.hook()

    def probe(self, ids: Any, depth: int, last_rank: bool) -> Probed:
        """See `Classes`."""
        return self.classes.probe(ids, depth, last_rank)

    def configure(self, ids: Any) -> None:
        """There is no engine to configure."""
        raise AdapterError(_NOT_STARTED)

    def reconfigure(self, ids: Any) -> None:
        """There is no engine to configure."""
        raise AdapterError(_NOT_STARTED)

    def generate(self, requests: list[Request]) -> list[Generation]:
        """There is no engine to ask."""
        raise AdapterError(_NOT_STARTED)

    def counters(self) -> Counters:
        """There is no engine to ask."""
        raise AdapterError(_NOT_STARTED)

    def resolvers(self, config: dict[str, Any]) -> dict[str, Any]:
        """There is no engine to ask."""
        raise AdapterError(_NOT_STARTED)

    def stop(self) -> None:
        """Nothing was started."""
