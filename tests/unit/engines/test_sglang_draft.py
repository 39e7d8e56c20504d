"""What SGLang's draft worker is watched for, without SGLang."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from matrix.engines._sglang_draft import Draft, verified
from matrix.errors import EngineError


def test_blocks_are_shared_out_request_after_request() -> None:
    tokens = [7, 1, 2, 3, 9, 4, 5, 6]
    assert verified(tokens, [1, 4], 4) == [([1, 2, 3], 0), ([4, 5, 6], 3)]


def test_tokens_that_are_no_whole_blocks_are_refused() -> None:
    with pytest.raises(EngineError, match="7 tokens for 2 blocks of 4"):
        verified([1] * 7, [1, 1], 4)


def test_what_the_worker_takes_is_a_copy_and_is_handed_on() -> None:
    taken: list[Any] = []

    def append(*, target_hidden: Any, cache_loc: int) -> str:
        taken.append((target_hidden, cache_loc))
        return "done"

    worker = SimpleNamespace(block_size=8, _append_target_hidden_to_draft_kv_by_loc=append)
    draft = Draft(worker)
    rows = SimpleNamespace(clone=lambda: "a copy")
    said = worker._append_target_hidden_to_draft_kv_by_loc(target_hidden=rows, cache_loc=3)
    assert (said, taken, draft.received, draft.block) == ("done", [(rows, 3)], "a copy", 8)
