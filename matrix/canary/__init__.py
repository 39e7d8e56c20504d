"""Canaries: small trained pairs whose accepted drafts say which capture fault an engine has."""

from __future__ import annotations

from matrix.canary._book import APART, BLOCK, BOOK, CORRECT, DRAFTS, Entry, Word, look_up
from matrix.canary._decode import FEWEST, Observed, Reading, Totals, read, read_totals
from matrix.canary._language import FAMILIES, Language
from matrix.canary._store import Canary, load, weights

__all__ = [
    "APART",
    "BLOCK",
    "BOOK",
    "CORRECT",
    "DRAFTS",
    "FAMILIES",
    "FEWEST",
    "Canary",
    "Entry",
    "Language",
    "Observed",
    "Reading",
    "Totals",
    "Word",
    "load",
    "look_up",
    "read",
    "read_totals",
    "weights",
]
