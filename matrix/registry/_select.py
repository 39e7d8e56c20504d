"""The registry as loaded, and the choice of pairs by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import get_args

from matrix.errors import UsageError
from matrix.registry._expectation import Expectation
from matrix.registry._pair import Kind, Pair

__all__ = ["Registry"]


@dataclass(frozen=True)
class Registry:
    """Every row and expectation that was loaded, built-in ones first."""

    pairs: Mapping[str, Pair]
    """Rows by key, in the order in which they were read."""
    expectations: tuple[Expectation, ...]
    files: tuple[Path, ...] = ()
    """The user's files that were read, for `repro` lines."""
    remote_code_refused: tuple[str, ...] = ()
    """Keys whose file asked for `trust_remote_code` without `--trust-remote-code`."""

    def select(self, names: Sequence[str] = (), kind: str | None = None) -> tuple[Pair, ...]:
        """The pairs that any of `names` names, in registry order; without names all of them.

        Args:
            names: keys, target ids, draft ids, architectures, or globs over those; case is ignored.
            kind: only `real`, `synthetic` or `canary` rows; `None`: of every kind.

        Raises:
            UsageError: a name matches no row of any kind, or `kind` is none of the three.
        """
        if kind is not None and kind not in get_args(Kind):
            raise UsageError(f"unknown kind {kind!r}; one of {', '.join(get_args(Kind))}")
        chosen = set(self.pairs) if not names else set[str]()
        for name in names:
            matched = {pair.key for pair in self.pairs.values() if _matches(pair, name)}
            if not matched:
                raise UsageError(self._no_match(name))
            chosen |= matched
        return tuple(
            pair for pair in self.pairs.values() if pair.key in chosen and kind in (None, pair.kind)
        )

    def _no_match(self, name: str) -> str:
        known = {word.lower(): word for pair in self.pairs.values() for word in _names(pair)}
        asked = name.lower()
        near = [word for word in known if asked.strip("*?") in word]
        near += [w for w in get_close_matches(asked, known, n=3, cutoff=0.5) if w not in near]
        nearest = ", ".join(known[word] for word in near[:3])
        hint = f"nearest: {nearest}" if nearest else "`dflash-matrix list` shows every row"
        return f"no pair matches {name!r}; {hint}"


def _names(pair: Pair) -> tuple[str, ...]:
    """What a pair can be called by."""
    return (pair.key, pair.target, pair.speculative_model, pair.arch)


def _matches(pair: Pair, name: str) -> bool:
    return any(fnmatchcase(word.lower(), name.lower()) for word in _names(pair))
