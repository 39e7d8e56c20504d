"""Inputs for forced acceptance: drafts that are right or wrong on purpose, step by step."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from matrix import strategies
from matrix.contract._bench import Bench
from matrix.engines import Inject, Request

__all__ = ["continuation", "example_problem", "forced", "forcing"]


def example_problem(example: Any) -> str | None:
    """What keeps a value from being an input of any clause; `None` when nothing does.

    An input is an object. `ids` may be anything, since judging them is the engine's business.
    """
    if not isinstance(example, dict):
        return 'want an object, e.g. {"ids": [1, 3, 5], "prompt": [7, 8, 9]}'
    known = ("ids", "prompt", "prompts", "accept", "mask", "layout")
    if strange := [key for key in example if key not in known]:
        return f"no key {strange[0]!r}; there is {', '.join(known)}"
    prompts = [*([example["prompt"]] if "prompt" in example else []), *example.get("prompts", [])]
    if not all(_counts(prompt) and prompt for prompt in prompts):
        return "a prompt is a list of token ids, at least one"
    if "accept" in example and not (_counts(example["accept"]) and example["accept"]):
        return "accept is a list of accepted counts, 0 or more each"
    return None


def _counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)


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
