"""The reference, as it is served in a process of its own. Imports torch.

It never runs where an engine runs, nor where faults are planted: it is what engines are judged by.
"""

from __future__ import annotations

import hashlib
import json
import platform
from typing import Any

import torch
import transformers

from matrix import cache, twins
from matrix.engines._messages import Array
from matrix.errors import ReferenceFailed
from matrix.reference._arrays import GreedyRun, StateArrays
from matrix.reference._layers import capture
from matrix.reference._models import Models, fingerprint
from matrix.reference._store import Store
from matrix.registry import Pair
from matrix.twins import Twin

__all__ = ["ReferenceServer"]


class ReferenceServer:
    """What the driver may ask. Paths are folders on this machine; dtypes are torch's names."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self._models = Models()
        self._store = Store(cache.root() / "reference")

    def identify(self) -> dict[str, str]:
        """Versions of what the reference is made of."""
        return {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "transformers": transformers.__version__,
        }

    def twin(self, pair: Pair, dtype: str) -> Twin:
        """The twin of `pair`, built unless it is in the cache.

        Raises:
            TwinError: the row can't have one.
        """
        return twins.build(pair, dtype)

    def states(self, target: str, tokens: list[int], dtype: str, detail: bool) -> StateArrays:
        """Layer states of one teacher-forced forward without cache; `States.from_arrays` reads them.

        Raises:
            ReferenceFailed: the target can't be loaded or run, or `tokens` is empty.
        """
        if not tokens:
            raise ReferenceFailed(f"{target}: no tokens to run")
        key = _key(fingerprint(target), tokens, dtype, detail)
        if (found := self._store.get(key)) is not None:
            return found
        tensors = capture(self._models.get(target, dtype), tokens, detail=detail)
        made = StateArrays(
            tokens=tokens, **{name: _array(tensor) for name, tensor in tensors.items()}
        )
        self._store.put(key, made)
        return made

    def greedy(
        self, target: str, prompt: list[int], max_tokens: int, stop: list[int], dtype: str
    ) -> GreedyRun:
        """Generate up to `max_tokens` greedily; ends after the first token that is in `stop`.

        Raises:
            ReferenceFailed: the target can't be loaded or run.
        """
        model = self._models.get(target, dtype)
        with torch.inference_mode():
            out = model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                max_new_tokens=max_tokens,
                do_sample=False,
                eos_token_id=stop or None,
                pad_token_id=0,
                return_dict_in_generate=True,
                output_logits=True,
            )
        best = torch.cat(out.logits).float().topk(2).values
        gaps = (best[:, 0] - best[:, 1]).tolist()
        return GreedyRun(out.sequences[0, len(prompt) :].tolist(), gaps)


def _key(model: str, tokens: list[int], dtype: str, detail: bool) -> str:
    versions = [transformers.__version__, torch.__version__]
    text = json.dumps([model, tokens, dtype, detail, *versions])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _array(tensor: Any) -> Array:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Array(dtype, tuple(tensor.shape), tensor.float().contiguous().numpy().tobytes())
