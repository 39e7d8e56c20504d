"""The way of a layer id through a model: from the hook, over delegations, to the body's sites."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from matrix.scan._resolve import Cls, External, Owner, Untold
from matrix.scan._words import FLAG

if TYPE_CHECKING:
    from matrix.scan._facts import ClassFacts, Effect, Setter, Site

__all__ = [
    "BODY_PATHS",
    "Hook",
    "Step",
    "Stop",
    "Stored",
    "Trace",
    "body_of",
    "drops_of",
    "follow",
    "returns_of",
    "sites",
    "unpacks_of",
]

BODY_PATHS = (
    "model",
    "language_model.model",
    "language_model",
    "llm.model",
    "llm",
    "model.language_model",
    "model.model",
    "backbone",
    "transformer",
    "decoder",
    "",
)
"""Where wrappers keep a body, likeliest first; empty for a wrapper that is its own body."""

_DEEPEST = 8


@dataclass(frozen=True)
class Hook:
    """Whether a class offers one algorithm's hook: `offered`, `missing` or `unknown`."""

    answer: str
    owner: Cls | None = None
    """The class that defines it."""
    reason: str = ""
    """Why it is unknown."""


@dataclass(frozen=True)
class Step:
    """One definition of a hook on the way."""

    owner: Owner
    cls: Cls
    name: str
    setter: Setter

    @property
    def facts(self) -> ClassFacts:
        """The facts of the class it stands in."""
        return self.cls.facts


@dataclass(frozen=True)
class Stored:
    """Where ids come to rest: the object, its attribute, and what was added on the way."""

    body: Owner
    container: str
    offset: int | None
    step: Step
    line: int


@dataclass
class Trace:
    """Everything met on the way of one hook."""

    steps: list[Step] = field(default_factory=list)
    stored: list[Stored] = field(default_factory=list)
    stops: list[Stop] = field(default_factory=list)
    """Ways that end before a body."""
    untold: list[str] = field(default_factory=list)

    @property
    def checks(self) -> set[str]:
        """What is refused on the way, by any of the steps."""
        return {check for step in self.steps for check in step.setter.checks}


@dataclass(frozen=True)
class Stop:
    """A hook that leads nowhere: its step, and what is missing."""

    step: Step
    reason: str


Route = Callable[[Owner, Cls], tuple[Owner | Untold | External, ...]]
"""(instance, class of the hook) -> where ids go whose holder the hook keeps in a local variable."""


def follow(owner: Owner, name: str, route: Route | None = None) -> Trace:
    """Follows a hook from the wrapper `owner`."""
    trace = Trace()
    _follow(trace, owner, name, 0, route, after=None, depth=0)
    return trace


def _follow(
    trace: Trace,
    owner: Owner,
    name: str,
    offset: int | None,
    route: Route | None,
    *,
    after: Cls | None,
    depth: int,
) -> None:
    found = _definition(owner, name, after)
    if found is None or depth > _DEEPEST:
        said = f"{owner.cls.name} has no {name}"
        if owner.untold() or depth > _DEEPEST or not trace.steps:
            trace.untold.append(said)
        else:
            trace.stops.append(Stop(trace.steps[-1], said))
        return
    cls, setter = found
    step = Step(owner, cls, name, setter)
    trace.steps.append(step)
    for effect in setter.effects:
        moved = None if offset is None or effect.offset is None else offset + effect.offset
        for target in _targets(owner, cls, effect, route):
            if isinstance(target, Untold):
                trace.untold.append(target.reason)
            elif isinstance(target, External):
                trace.untold.append(f"{target.name} is outside of the tree")
            elif effect.kind == "call":
                skip = cls if effect.path == "super" else None
                again = moved, route
                _follow(trace, target, effect.name, *again, after=skip, depth=depth + 1)
            else:
                trace.stored.append(Stored(target, effect.name, moved, step, effect.line))


def _definition(owner: Owner, name: str, after: Cls | None) -> tuple[Cls, Setter] | None:
    passed = after is None
    for cls, attr in owner.attrs(name):
        if passed and attr.kind == "def" and cls.facts.setters.get(name):
            return cls, cls.facts.setters[name][-1]
        if passed and attr.ref is not None:
            alias = attr.ref.name.rpartition(".")[2]
            if attr.ref.kind == "name" and cls.facts.setters.get(alias):
                return cls, cls.facts.setters[alias][-1]
        passed = passed or cls == after
    return None


def _targets(
    owner: Owner, cls: Cls, effect: Effect, route: Route | None
) -> tuple[Owner | Untold | External, ...]:
    if effect.path in ("", "super"):
        return (owner,)
    if effect.path.startswith("?"):
        return route(owner, cls) if route else (Untold("a local variable holds the body"),)
    found = owner.at(effect.path)
    if not found:
        return (Untold(f"what {owner.cls.name}.{effect.path} is"),)
    return tuple(owner.tree.owner(f) if isinstance(f, Cls) else f for f in found)


def sites(body: Owner, container: str | None = None) -> list[tuple[Cls, Site]]:
    """The capture sites of a body, in methods that aren't overridden.

    Args:
        body: the body's class.
        container: only sites that read this attribute; by default all.
    """
    found = []
    for name in {name: None for cls in body.classes() for name in cls.facts.sites}:
        for cls in running(body, name):
            for site in cls.facts.sites.get(name, ()):
                if container is None or _reads(site, container):
                    found.append((cls, site))
    return found


def running(owner: Owner, name: str) -> Iterator[Cls]:
    """The classes whose definition of a method runs: the first, and what it calls by `super()`."""
    for cls, _ in owner.attrs(name):
        yield cls
        if name not in cls.facts.inherits:
            return


def _reads(site: Site, container: str) -> bool:
    if FLAG.fullmatch(container):
        return FLAG.fullmatch(site.container) is not None
    return site.container in (container, "*")


def body_of(wrapper: Owner) -> tuple[Owner | None, list[str]]:
    """The body that a wrapper without a hook builds: one that captures, if there is such a one.

    Returns:
        The body, and why it couldn't be told.
    """
    first: Owner | None = None
    untold: list[str] = []
    for path in BODY_PATHS:
        for found in wrapper.at(path):
            if isinstance(found, Untold):
                untold.append(found.reason)
            if isinstance(found, Cls):
                owner = wrapper if not path else wrapper.tree.owner(found)
                if sites(owner):
                    return owner, []
                first = first or (owner if path else None)
    return first, untold


def unpacks_of(owner: Owner) -> Iterator[tuple[Cls, int, int]]:
    """(class, length, line) of every assignment in which `forward` takes planes out of a tuple."""
    for cls in running(owner, "forward"):
        forward = cls.facts.forwards.get("forward")
        for length, line in forward.unpacks if forward else ():
            yield cls, length, line


def returns_of(body: Owner) -> Iterator[tuple[Cls, int, int]]:
    """(class, length, line) of every tuple in which a body's `forward` returns planes."""
    for cls in running(body, "forward"):
        forward = cls.facts.forwards.get("forward")
        for length, line in forward.returns if forward else ():
            yield cls, length, line


def drops_of(body: Owner) -> Iterator[tuple[Cls, int]]:
    """Where a body takes apart, without the planes, what the method it inherits returns with them.

    Only a method that calls the next class's own is meant: it gets the planes and loses them.
    """
    ran = list(running(body, "forward"))
    for above, cls in zip(ran[1:], ran, strict=False):
        inner = above.facts.forwards.get("forward")
        outer = cls.facts.forwards.get("forward")
        if inner and outer and inner.returns and outer.drops and not outer.returns:
            yield cls, outer.drops
