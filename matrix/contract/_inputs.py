"""Inputs for forced acceptance: drafts that are right or wrong on purpose, step by step."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from matrix import strategies
from matrix.contract._bench import Bench
from matrix.engines import Inject, Request

__all__ = ["continuation", "forced", "forcing"]


def forced(bench: Bench) -> st.SearchStrategy[dict[str, Any]]:
    """Inputs for forced acceptance: one of a few prompts, and how many drafts each step accepts."""
    prompts = bench.prompts(9, 4, salt="forced")
    accept = strategies.acceptance_patterns(bench.drafts)
    return st.fixed_dictionaries({"prompt": st.sampled_from(prompts), "accept": accept})


def forcing(bench: Bench, example: dict[str, Any]) -> Request:
    """A request of a block and a half, whose drafts are put in by the example's pattern.

    Two steps when all are accepted; when none is, one step a token, so more would only take longer.
    """
    prompt, tokens = example["prompt"], bench.twin.block_size * 3 // 2 + 2
    known = continuation(bench, prompt, tokens + bench.twin.block_size)
    filler = bench.twin.mask_token_id if example.get("mask") else None
    return Request(prompt, tokens, inject=Inject(known, example["accept"], filler))


def continuation(bench: Bench, prompt: list[int], tokens: int) -> list[int]:
    """The reference's greedy continuation, kept for the next clause that asks."""
    kept: dict[tuple[int, ...], list[int]] = bench.memo.setdefault("continuations", {})
    if len(kept.get(tuple(prompt), ())) < tokens:
        kept[tuple(prompt)] = list(bench.greedy(prompt, tokens).tokens)
    return kept[tuple(prompt)][:tokens]
