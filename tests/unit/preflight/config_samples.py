"""Config pairs for the tests: the committed ones, and changes to them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, Final

from matrix.preflight import Result, Side, examine, judge
from matrix.registry import Pair

CONFIGS: Final = Path(__file__).parents[3] / "fixtures" / "configs"
GOOD: Final = sorted(path.name for path in (CONFIGS / "good").iterdir())
BAD: Final = sorted(path.name for path in (CONFIGS / "bad").iterdir())

Config = dict[str, Any]


def configs(name: str) -> tuple[Config, Config]:
    """Target and draft of a committed pair, to be changed at will."""
    folder = next(path for path in CONFIGS.glob(f"*/{name}"))
    target, draft = (
        json.loads((folder / f"{side}.json").read_text()) for side in ("target", "draft")
    )
    return target, draft


def put(config: Config, key: str, value: Any) -> Config:
    """A copy with the value at a dotted key; `...` deletes the key."""
    changed = copy.deepcopy(config)
    *outer, last = key.split(".")
    table = changed
    for name in outer:
        table = table.setdefault(name, {})
    if value is ...:
        table.pop(last, None)
    else:
        table[last] = value
    return changed


def judged(
    target: Config | Side,
    draft: Config | Side,
    engine: str | None = None,
    version: str | None = None,
    rows: tuple[Pair, ...] = (),
) -> Result:
    """Judge two configs."""
    sides = [
        side if isinstance(side, Side) else Side(name, side)
        for name, side in (("target", target), ("draft", draft))
    ]
    return judge(examine(sides[0], sides[1], rows, engine, version))


def outcomes(result: Result) -> dict[str, str]:
    """Clause -> outcome."""
    return {judgement.clause: judgement.outcome for judgement in result.judgements}
