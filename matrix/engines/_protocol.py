"""What a clause may ask of an engine: the whole surface, on both sides of the pipe.

An adapter implements it inside the worker; the driver's `Worker` implements it by calling that one.
No adapter converts layer ids: it writes them where the engine's own resolver reads them.
"""

from __future__ import annotations

from typing import Any, Protocol

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

__all__ = ["CAPABILITIES", "Engine"]

CAPABILITIES = {
    "start": "a start of the pair",
    "settings": "a start as it is asked for: without the draft, or with more ranks",
    "reference": "weights that the reference has too",
    "draft": "a draft beside the target",
    "hook": "a capture hook on the model class",
    "probe": "its hook tried on an object that was not loaded",
    "batch": "several requests in one step",
    "prefix-cache": "reuse of a cached prefix",
    "chunk": "prefill in chunks",
    "planes": "sight of the captured planes",
    "steps": "sight of each verify step",
    "inject": "drafts put in the draft's place",
    "logits": "sight of the target's logits",
    "reconfigure": "a second hook call on one start",
    "drafts": "another number of drafts per step on a running engine",
    "configure": "layer ids changed on a running engine",
    "sample": "sampling",
    "counters": "published counters",
    "runners": "more than one runner, each with a resolver of its own",
    "public": "a public way to get planes",
    "ranks": "more than one rank",
}
"""Everything an engine may lack, by name; `Identity.lacks` says why it does."""


class Engine(Protocol):
    """One engine, started at most once at a time. Every method may raise `EngineError`."""

    def identify(self) -> Identity:
        """Name, version and what this engine can't have; needs no start."""

    def start(self, spec: StartSpec) -> Started:
        """Load target and draft; a refusal is an `EngineError`."""

    def hook(self) -> Hook:
        """The capture hook of the loaded target's class."""

    def probe(self, ids: Any, depth: int, last_rank: bool) -> Probed:
        """Hand ids to the hook of the target's class, on an object that was not loaded.

        Ids go through the engine's own resolver first; `None` goes to the hook as it is. The target
        has `depth` layers, and the object is on the last pipeline rank of one, or the first of two.
        """

    def configure(self, ids: Any) -> None:
        """Give the engine's own resolver these layer ids, as at start; `None` deletes the key.

        `ids` is any JSON value: judging it is the engine's business. What earlier calls left on a
        running engine, and a start would not find, is taken away.
        """

    def reconfigure(self, ids: Any) -> None:
        """As `configure`, on top of whatever an earlier call left behind."""

    def generate(self, requests: list[Request]) -> list[Generation]:
        """Generate, all requests at once where the engine can."""

    def counters(self) -> Counters:
        """What the engine published of its speculation since it was started."""

    def resolvers(self, config: dict[str, Any]) -> dict[str, Any]:
        """What each runner's resolver makes of a draft's config: boundaries, or its error's text.

        By runner; the running engine is left as it was.
        """

    def stop(self) -> None:
        """Shut the engine down; the worker may start another."""
