"""Drafts put in the draft's place: right and wrong ones, step by step, as a request asks."""

from __future__ import annotations

from matrix.engines._messages import Inject, Request

__all__ = ["Forced"]


class Forced:
    """The drafts of one request, in the order of its steps."""

    def __init__(self, request: Request, inject: Inject, vocab: int) -> None:
        self.inject, self.prompt, self.vocab = inject, len(request.prompt), vocab
        self.step = 0

    def tokens(self, anchor: int, count: int, token: int = -1) -> list[int]:
        """The next step's `count` drafts, after `token` at the sequence position `anchor`."""
        if self.inject.after:
            drafts = self.inject.after.get(token, [])[:count]
            return drafts + [0] * (count - len(drafts))
        accept = self.inject.accept[self.step % len(self.inject.accept)]
        self.step += 1
        start = anchor - self.prompt + 1
        right = self.inject.continuation[start : start + count]
        right += [0] * (count - len(right))
        wrong = [self._wrong(token) for token in right]
        return right[:accept] + wrong[accept:]

    def _wrong(self, right: int) -> int:
        filler = self.inject.filler
        return filler if filler is not None and filler != right else (right + 1) % self.vocab
