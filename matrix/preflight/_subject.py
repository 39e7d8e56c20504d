"""What the clauses look at: both configs as facts, and what the engines make of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from matrix.layouts import Claim, Claims, TargetFacts, claims, read_target
from matrix.preflight._releases import Draft, Start, draft_class, starts, tables
from matrix.preflight._resolvers import ENGINES, Reading, readings
from matrix.preflight._sides import Side
from matrix.registry import Pair

__all__ = ["Subject", "edition", "examine", "number"]


@dataclass(frozen=True)
class Subject:
    """One pair under examination."""

    target: Side
    draft: Side
    facts: TargetFacts
    said: Claims
    engine: str | None
    """The one engine that is asked about, or `None` for all."""
    version: str | None
    readings: tuple[Reading, ...]
    classes: Mapping[str, Draft]
    """Engine -> the class that it builds the draft as."""
    scanned: Mapping[str, tuple[Start, ...]]
    """Engine -> what its releases do with a pair of these classes, by their scans, oldest first."""
    rows: tuple[Pair, ...]
    """The registry's rows on this draft."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The draft's config."""
        return self.draft.config

    @cached_property
    def ids(self) -> tuple[int, ...] | None:
        """Layer ids as outputs: what the first key says that holds a list of whole numbers."""
        return self.id_claim.outputs if self.id_claim else None

    @cached_property
    def id_claim(self) -> Claim | None:
        """The key that `ids` are from."""
        return next((claim for claim in self.said.ids if claim.outputs is not None), None)

    @cached_property
    def mask(self) -> int | None:
        """The mask id, where the first key that states one holds a whole number."""
        return number(self.said.mask[0].value) if self.said.mask else None

    @cached_property
    def block(self) -> int | None:
        """The block size, likewise."""
        return number(self.said.block[0].value) if self.said.block else None

    @cached_property
    def releases(self) -> dict[str, tuple[Start, ...]]:
        """Engine -> what its scanned releases do with this pair: they die where no resolver reads it."""
        return {
            engine: tuple(_refused(start, self.refusal(engine)) for start in found)
            for engine, found in self.scanned.items()
        }

    def refusal(self, engine: str) -> str | None:
        """Why none of an engine's resolvers takes the file, or `None` when one does."""
        own = [reading for reading in self.readings if reading.engine == engine]
        return own[-1].note if own and all(reading.how == "refused" for reading in own) else None

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines in view."""
        return (self.engine,) if self.engine else ENGINES

    @property
    def last_tapped(self) -> bool:
        """Whether the draft reads the last layer."""
        return self.facts.depth is not None and self.facts.depth - 1 in (self.ids or ())

    def body(self, key: str) -> Any:
        """A key of the draft's own shape."""
        return self.said.body.get(key)

    def inner(self, key: str) -> Any:
        """A key of `dflash_config`, or of the top level where that lacks it."""
        table = self.config.get("dflash_config")
        value = table.get(key) if isinstance(table, Mapping) else None
        return self.config.get(key) if value is None else value


def examine(
    target: Side,
    draft: Side,
    rows: tuple[Pair, ...] = (),
    engine: str | None = None,
    version: str | None = None,
) -> Subject:
    """Resolve both configs, and ask every engine's resolver and every scanned release.

    Raises:
        LayoutError: the draft's layout is unknown, or a table of either config is none.
        UsageError: `version` wasn't scanned.
    """
    facts, said = read_target(target.config), claims(draft.config)
    view = (engine,) if engine else ENGINES
    classes = {name: draft_class(name, draft.config, said, facts) for name in view}
    ids = next((claim.outputs for claim in said.ids if claim.outputs is not None), ())
    last = facts.depth is not None and facts.depth - 1 in ids
    scanned = {
        name: starts(table, said, facts, classes[name], last_tapped=last, version=version)
        for name, table in tables(view).items()
    }
    found = tuple(
        reading for reading in readings(draft.config, said, facts) if reading.engine in view
    )
    own = tuple(row for row in rows if draft.hub and _same(row.speculative_model, draft.name))
    return Subject(target, draft, facts, said, engine, version, found, classes, scanned, own)


def edition(config: Mapping[str, Any]) -> str:
    """A name for what a config says, whatever its formatting: repository ids change in place.

    The first 12 hex digits of the SHA-256 of its canonical JSON (sorted keys, no spaces).
    """
    text = json.dumps(config, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def number(value: Any) -> int | None:
    """A whole number, or `None`."""
    return value if type(value) is int else None


def _refused(start: Start, why: str | None) -> Start:
    if why is None or start.verdict == "dies":
        return start
    return replace(start, verdict="dies", why=f"its resolver refuses: {why}")


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()
