"""vLLM over several processes: the watch runs in each rank, and is asked through vLLM's own RPC."""

from __future__ import annotations

from typing import Any

from matrix.engines._messages import Forward, Request
from matrix.engines._vllm_watch import Seen, Watch, body

__all__ = ["EXTENSION", "RankExtension", "Ranks"]

EXTENSION = f"{__name__}.RankExtension"


class RankExtension:
    """Methods that vLLM adds to each rank's worker (`worker_extension_cls`)."""

    model_runner: Any
    _watch: Watch

    def matrix_watch(self) -> list[int]:
        """Watch this rank's runner; the boundaries that its body holds."""
        self._watch = Watch(self.model_runner)
        return list(body(self.model_runner.get_model()).aux_hidden_state_layers)

    def matrix_expect(self, prompts: dict[str, list[int]]) -> None:
        """Requests to look at, by vLLM's own id."""
        self._watch.seen = {name: Seen(Request(prompt, 1)) for name, prompt in prompts.items()}

    def matrix_seen(self) -> dict[str, list[Forward]]:
        """What was handed over since, by request."""
        seen, self._watch.seen = self._watch.seen, {}
        return {name: [taken.forward() for taken in each.forwards] for name, each in seen.items()}


class Ranks:
    """All ranks of one engine, from the process that drives them."""

    def __init__(self, llm: Any) -> None:
        self.llm = llm
        self.boundaries: list[list[int | float]] = llm.collective_rpc("matrix_watch")

    def expect(self, prompts: dict[str, list[int]]) -> None:
        """Look at these requests, on every rank."""
        self.llm.collective_rpc("matrix_expect", args=(prompts,))

    def seen(self) -> list[dict[str, list[Forward]]]:
        """Per rank: what was handed over for each request."""
        answers: list[dict[str, list[Forward]]] = self.llm.collective_rpc("matrix_seen")
        return answers
