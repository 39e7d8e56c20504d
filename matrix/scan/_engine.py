"""What the scan needs to know of an engine, whichever it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from matrix.scan._read import Reader
    from matrix.scan._resolve import Owner, Tree
    from matrix.scan._trace import Hook, Trace

__all__ = ["Engine", "Registered", "Way"]


@dataclass(frozen=True)
class Registered:
    """One architecture as the engine registers it."""

    arch: str
    module: str
    name: str
    """Name of the class in `module`."""
    file: str
    """Where it is registered."""
    line: int
    role: str = "target"
    """`target`, `draft`, or `other` (embedding, reward, classification: nothing is drafted)."""


@dataclass(frozen=True)
class Way:
    """What an engine adds to a DFlash layer id before the hook is called, and where."""

    offset: int
    file: str
    line: int
    names: tuple[str, ...] = ()
    """The models and drafts it is kept for; empty when it is for all."""
    checks: tuple[str, ...] = ()
    """What is refused on this way, as in `Setter.checks`."""


class Engine(Protocol):
    """A module per engine has this shape."""

    @property
    def HOOKS(self) -> dict[str, str]:  # noqa: N802 - a constant of a module
        """Algorithm -> the method that the runner calls."""
        ...

    def packages(self) -> tuple[str, ...]:
        """The folders that hold models."""
        ...

    def runners(self, reader: Reader) -> set[str]:
        """The files that resolve layer ids."""
        ...

    def architectures(self, tree: Tree) -> list[Registered]:
        """Every registered architecture."""
        ...

    def hook(self, owner: Owner, algorithm: str) -> Hook:
        """Whether a class offers an algorithm's hook."""
        ...

    def trace(self, owner: Owner, algorithm: str) -> Trace:
        """The way of the ids from the wrapper's hook."""
        ...

    def ways(self, reader: Reader, tree: Tree) -> list[Way]:
        """What is added to DFlash ids outside of the model; empty when nothing reads them."""
        ...

    def missing_text(self, name: str) -> tuple[str, str]:
        """(what happens without the hook, what to write)."""
        ...
