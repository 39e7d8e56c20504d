"""An engine in a worker, as the driver sees it: the same Protocol, with deadlines."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

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
from matrix.engines._process import Worker
from matrix.errors import UsageError

__all__ = ["Deadlines", "RemoteEngine"]


@dataclass(frozen=True)
class Deadlines:
    """Seconds that one start, one call, one clause and one row may take."""

    start: float = 180.0
    call: float = 60.0
    clause: float = 300.0
    row: float = 1800.0

    def __str__(self) -> str:
        return ",".join(f"{name}={value:g}" for name, value in asdict(self).items())

    @classmethod
    def parse(cls, text: str) -> Deadlines:
        """From `start=..,call=..,clause=..,row=..`; what isn't named keeps its default.

        Raises:
            UsageError: another name, or no positive number.
        """
        given: dict[str, float] = {}
        for part in filter(None, text.split(",")):
            name, _, value = part.partition("=")
            try:
                given[name.strip()] = float(value)
            except ValueError:
                raise UsageError(f"--timeout: {part}: not a number of seconds") from None
            if name.strip() not in cls.__dataclass_fields__ or not 0 < given[name.strip()] < 1e9:
                names = ", ".join(cls.__dataclass_fields__)
                raise UsageError(f"--timeout: {part}: want NAME=SECONDS, NAME one of {names}")
        return cls(**given)


@dataclass
class RemoteEngine:
    """Implements `Engine` by calling the adapter in `worker`.

    `until` bounds every call besides its own deadline: the runner sets it to the end of the clause
    or row that is being judged (seconds of `time.monotonic`).
    """

    worker: Worker
    deadlines: Deadlines
    until: float = field(default=float("inf"))

    def _left(self, most: float) -> float:
        return max(0.0, min(most, self.until - time.monotonic()))

    def identify(self) -> Identity:
        """See `Engine`; covers the worker's imports."""
        return self.worker.call("identify", returns=Identity, deadline=self.deadlines.start)

    def start(self, spec: StartSpec) -> Started:
        """See `Engine`."""
        return self.worker.call("start", spec, returns=Started, deadline=self.deadlines.start)

    def hook(self) -> Hook:
        """See `Engine`."""
        return self.worker.call("hook", returns=Hook, deadline=self._left(self.deadlines.call))

    def probe(self, ids: Any, depth: int, last_rank: bool) -> Probed:
        """See `Engine`."""
        left = self._left(self.deadlines.call)
        return self.worker.call("probe", ids, depth, last_rank, returns=Probed, deadline=left)

    def reconfigure(self, ids: Any) -> None:
        """See `Engine`."""
        left = self._left(self.deadlines.call)
        return self.worker.call("reconfigure", ids, returns=type(None), deadline=left)

    def configure(self, ids: Any) -> None:
        """See `Engine`."""
        left = self._left(self.deadlines.call)
        return self.worker.call("configure", ids, returns=type(None), deadline=left)

    def generate(self, requests: list[Request]) -> list[Generation]:
        """See `Engine`."""
        left = self._left(self.deadlines.call)
        return self.worker.call("generate", requests, returns=list[Generation], deadline=left)

    def counters(self) -> Counters:
        """See `Engine`."""
        left = self._left(self.deadlines.call)
        return self.worker.call("counters", returns=Counters, deadline=left)

    def resolvers(self, config: dict[str, Any]) -> dict[str, Any]:
        """See `Engine`."""
        left = self._left(self.deadlines.call)
        return self.worker.call("resolvers", config, returns=dict[str, Any], deadline=left)

    def stop(self) -> None:
        """See `Engine`."""
        return self.worker.call("stop", returns=type(None), deadline=self.deadlines.call)
