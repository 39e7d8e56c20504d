"""Put layer ids through a running engine, and say what became of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from matrix import strategies
from matrix.contract._bench import Bench, Run
from matrix.contract._clause import Finding
from matrix.engines import Request
from matrix.errors import EngineError
from matrix.faults import Fault

__all__ = ["Probe", "names_the_ids", "probe", "refusal", "tapped"]

_NAMES_IDS = re.compile(r"layer[ _-]ids?|target_layer_ids", re.IGNORECASE)


@dataclass(frozen=True)
class Probe:
    """What an engine did with some ids: refused them, early or late, or used them."""

    ids: Any
    run: Run | None = None
    """The answer, when they were used."""
    error: EngineError | None = None
    late: bool = False
    """Refused only after the start, by a request that died."""


def probe(bench: Bench, ids: Any, prompt: Sequence[int], *, after: Any = None) -> Probe:
    """Configure the engine with `ids` and generate a little; the row's ids are set again after.

    With `after` it is a second call, on top of what those ids left behind.
    """
    try:
        try:
            if after is None:
                bench.engine.configure(ids)
            else:
                bench.engine.configure(after)
                bench.engine.reconfigure(ids)
        except EngineError as error:
            return Probe(ids, error=error)
        bench.expect(prompt)
        # Two tokens: one from the prefill, and one verify step, before which the draft is called.
        run = bench.run(Request(list(prompt), 2), partial=True, ids=ids)[0]
        return Probe(ids, run, run.error, late=run.error is not None)
    finally:
        bench.engine.configure(bench.ids)


def refusal(done: Probe) -> list[Finding]:
    """What is wrong with the way in which illegal ids were refused; nothing at best."""
    assert done.error is not None, "only for ids that were refused"
    said = f"{done.error.type_name}: {done.error.text}"
    found = []
    if done.late:
        found.append(
            Finding(Fault.TAP_LATE, f"{done.ids}: refused only by a request that died: {said}")
        )
    if not names_the_ids(said, done.ids):
        found.append(Finding(Fault.TAP_UNCLEAR, f"{done.ids}: the refusal names no id: {said}"))
    return found


def names_the_ids(said: str, ids: Any) -> bool:
    """Whether a refusal names the ids: one of them as a whole number, or the key they stand in."""
    if _NAMES_IDS.search(said):
        return True
    values = [v for v in ids if isinstance(v, int | str)] if isinstance(ids, list) else []
    return any(re.search(rf"(?<![\w.-]){re.escape(str(value))}(?![\w.])", said) for value in values)


def tapped(bench: Bench, ids: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Inputs for a tap clause: ids, and a prompt to capture them on."""
    prompts = strategies.prompts(
        bench.twin.vocab_size, 3, 12, mask_token_id=bench.twin.mask_token_id
    )
    return st.fixed_dictionaries({"ids": ids, "prompt": prompts})
