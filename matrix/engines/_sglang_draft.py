"""What a DFLASH step of SGLang hands to its draft, and how it ended. Only on a GPU is there one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matrix.errors import EngineError

__all__ = ["Draft", "verified"]


class Draft:
    """Watches the draft's worker: `received` is what it took of the last target forward."""

    def __init__(self, worker: Any) -> None:
        self.block = int(worker.block_size)
        self.received: Any = None
        append = worker._append_target_hidden_to_draft_kv_by_loc

        def appending(*, target_hidden: Any, **others: Any) -> Any:
            self.received = target_hidden.clone()
            return append(target_hidden=target_hidden, **others)

        worker._append_target_hidden_to_draft_kv_by_loc = appending


def verified(
    tokens: Sequence[int], committed: Sequence[int], block: int
) -> list[tuple[list[int], int]]:
    """The verify steps of one batch: for each request what was drafted, and how much accepted.

    Args:
        tokens: what the target was fed, request after request: the anchor, then the drafts.
        committed: tokens that each request gained, the bonus token included.
        block: tokens of one request.

    Raises:
        EngineError: the tokens are not one block for each request.
    """
    if len(tokens) != block * len(committed):
        said = f"{len(tokens)} tokens for {len(committed)} blocks of {block}"
        raise EngineError("ValueError", said)
    starts = range(0, len(tokens), block)
    return [
        (list(tokens[at + 1 : at + block]), gained - 1)
        for at, gained in zip(starts, committed, strict=True)
    ]
