"""How a row is shown: one line of text, or JSON; a fact that is not known is `-` or null."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from matrix.registry._pair import Pair

__all__ = ["SETTINGS", "as_json", "as_line", "gaps"]

SETTINGS: Final = ("plain", "main")
"""The starts of every row. A variant of such a name, or of one in its `starts`, is run."""


def gaps(pair: Pair) -> list[str]:
    """The ways of serving the pair that no run covers: `sglang page-size-256`."""
    covered = (*SETTINGS, *pair.starts)
    return [f"{v.engine} {v.name}" for v in pair.variants if v.name not in covered]


def as_json(pair: Pair) -> dict[str, Any]:
    """Every field, with the drafts per step and the gaps."""
    return asdict(pair) | {"drafts": pair.drafts, "gaps": gaps(pair)}


def as_line(pair: Pair) -> str:
    """The facts that tell rows apart, in columns; last the gaps, where there are any."""
    arch = pair.arch + (" (inferred)" if pair.arch_inferred else "")
    columns = (
        f"{pair.key:<52}",
        f"{pair.kind:<9}",
        f"{pair.speculative_method:<7}",
        f"{arch:<53}",
        f"{pair.num_target_layers:>3} layers",
        f"width {_known(pair.hidden_size):<5}",
        f"taps {_known(pair.target_layer_ids):<28}",
        f"block {_known(pair.block_size):<3}",
        f"mask {_known(pair.mask_token_id):<7}",
        f"{pair.draft_class:<31}",
    )
    missing = gaps(pair)
    return " ".join((*columns, f"not run: {', '.join(missing)}" if missing else "")).rstrip()


def _known(fact: int | Sequence[int] | None) -> str:
    if fact is None:
        return "-"
    return str(fact) if isinstance(fact, int) else ",".join(map(str, fact))
