"""Faults for START-*, HOOK-PRESENT and OUTPUT-*."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from fake_engine import BLOCK, MASK, TARGET, VOCAB, Moment
from planted import Planted, deaths, dies, in_verify, when

from matrix.engines import Counters, Generation, Hook, Request, Started, Step
from matrix.errors import EngineError
from matrix.faults import Fault

F = Fault

NO_INTERFACE = EngineError(
    "RuntimeError",
    "Model does not support EAGLE3 interface but aux_hidden_state_outputs was requested",
)
NO_SETTER = EngineError(
    "ValueError",
    "Model Qwen3_5MoeForCausalLM implements neither set_dspark_layers_to_capture nor "
    "set_dflash_layers_to_capture, one of which is required for DFLASH/DSPARK.",
)
OTHER = EngineError("AssertionError", "hidden size of fc: 192 is not 128")


def _no_drafts(drafted: list[int], m: Moment) -> list[int]:
    return []


def _one_emitted_wrong(tokens: list[int], m: Moment) -> list[int]:
    return [*tokens[:-1], (tokens[-1] + 1) % VOCAB]


def _twice(tokens: list[int], m: Moment) -> list[int]:
    return [*tokens, tokens[-1]]


def _rejected_emitted(tokens: list[int], m: Moment) -> list[int]:
    """A rejected draft is kept in the place of the target's own token."""
    drafted = m.tokens[m.position + 1 :]
    return [*tokens[:-1], drafted[len(tokens) - 1]] if len(tokens) <= len(drafted) else tokens


def _short(tokens: list[int], request: Request) -> list[int]:
    return tokens[: request.max_tokens - 1]


def _overrun(tokens: list[int], request: Request) -> list[int]:
    return tokens


def _stop_ignored(tokens: list[int], request: Request) -> list[int]:
    return tokens[: request.max_tokens]


def _stop_swallowed(tokens: list[int], request: Request) -> list[int]:
    ends = [tokens.index(token) for token in request.stop if token in tokens]
    return tokens[: min([request.max_tokens, *ends])]


def _one_step(generations: list[Generation]) -> list[Generation]:
    return [msgspec.structs.replace(g, steps=g.steps[:1]) for g in generations]


def _no_steps(generations: list[Generation]) -> list[Generation]:
    return [msgspec.structs.replace(g, steps=[]) for g in generations]


def _ghost_step(generations: list[Generation]) -> list[Generation]:
    """One step is counted that gave no token."""
    ghost = Step(0, [1, 2], 1)
    return [msgspec.structs.replace(g, steps=[ghost, *g.steps]) for g in generations]


def _k_ignored(drafted: list[int], m: Moment) -> list[int]:
    return [*drafted, *range(BLOCK)]


def _more_than_drafted(accepted: int, m: Moment) -> int:
    return len(m.tokens) - m.position


def _one_more(accepted: int, m: Moment) -> int:
    return accepted + 1


def _bonus_lost(accepted: int, m: Moment) -> int:
    return max(0, accepted - 1)


def _mask_counted(accepted: int, m: Moment) -> int:
    """Drafts that equal the mask token are counted as accepted."""
    return accepted + m.tokens[m.position + 1 :].count(MASK)


def _refused(clause: str, name: str, label: Fault, error: EngineError, *settings: str) -> Planted:
    return Planted(clause, name, label, dict, bench={"refused": dict.fromkeys(settings, error)})


def _hook(body_captures: bool) -> Hook:
    return Hook(offered=False, body_captures=body_captures, detail="FakeForCausalLM offers none")


def _changed(**values: Any) -> Any:
    return lambda: {"target": {**TARGET, **values}}


def _no_flat(runner: str, config: dict[str, Any]) -> Any:
    return None if runner == "first" and set(config) == {"target_layer_ids"} else 1


def _no_nested(runner: str, config: dict[str, Any]) -> Any:
    """vLLM #40727 in one of two runners: without the +1."""
    return 1 if runner == "first" or "dflash_config" not in config else 2


def _one_draft_more(counters: Counters) -> Counters:
    return msgspec.structs.replace(counters, drafted=counters.drafted * 2)


def _never_first(counters: Counters) -> Counters:
    return msgspec.structs.replace(counters, accepted_at=[0, *counters.accepted_at[1:]])


def _draft_kept(tokens: list[int], m: Moment) -> list[int]:
    """Every draft is accepted, whatever its chance."""
    return [m.tokens[m.position + 1], *tokens[1:]]


def _even(chances: Any, m: Moment) -> Any:
    return np.full_like(chances, 1 / len(chances))


def _twice_accepted(tokens: list[int], m: Moment) -> list[int]:
    """A rejected draft gets a second chance, as when the remainder isn't cleared of it."""
    lucky = sum(m.tokens) + m.request.sampling.seed if m.request.sampling else 1
    return _draft_kept(tokens, m) if lucky % 4 == 0 else tokens


PLANTED = (
    Planted("HOOK-RUNNER-SPLIT", "no flat ids", F.RUNNER_SPLIT, lambda: {"runner": _no_flat}),
    Planted("HOOK-RUNNER-SPLIT", "no nested ids", F.RUNNER_SPLIT, lambda: {"runner": _no_nested}),
    Planted(
        "HOOK-RANKS",
        "one rank shifted",
        F.RANK_SPLIT,
        dict,
        bench={"started": {"tp2": Started({}, boundaries=[[2, 4, 6], [1, 3, 5]])}},
    ),
    Planted(
        "HOOK-RANKS",
        "not those of one rank",
        F.RANK_SPLIT,
        dict,
        bench={
            "started": {
                "main": Started({}, boundaries=[[2, 4, 6]]),
                "tp2": Started({}, boundaries=[[1, 3, 5]] * 2),
            }
        },
    ),
    _refused("START-PP", "refused", F.START_REFUSED, OTHER, "pp2"),
    _refused("START-PP", "no interface", F.HOOK_MISSING, NO_INTERFACE, "pp2"),
    Planted("START-PP", "no drafts", F.SPEC_INACTIVE, lambda: {"drafts": _no_drafts}),
    Planted(
        "START-PP",
        "token twice",
        F.OUTPUT_DIFFERS,
        lambda: {"emitted": when(in_verify, _twice)},
    ),
    Planted(
        "OUTPUT-DIST",
        "every draft accepted",
        F.OUTPUT_DIFFERS,
        lambda: {"emitted": when(in_verify, _draft_kept)},
    ),
    Planted(
        "OUTPUT-DIST",
        "rejected drafts come back",
        F.OUTPUT_DIFFERS,
        lambda: {"emitted": when(in_verify, _twice_accepted)},
    ),
    Planted("OUTPUT-DIST", "even chances", F.OUTPUT_DIFFERS, lambda: {"chances": _even}),
    Planted("OUTPUT-DIST", "no drafts", F.SPEC_INACTIVE, lambda: {"drafts": _no_drafts}),
    Planted(
        "OUTPUT-DIST",
        "dies of sampling",
        F.UNKNOWN,
        lambda: {"chances": dies("RuntimeError", "max(): input.numel() == 0")},
    ),
    Planted(
        "OUTPUT-COUNTERS",
        "published twice",
        F.COUNTERS_WRONG,
        lambda: {"published": _one_draft_more},
    ),
    Planted("OUTPUT-COUNTERS", "position lost", F.COUNTERS_WRONG, lambda: {"told": _never_first}),
    _refused("START-LOAD", "no interface", F.HOOK_MISSING, NO_INTERFACE, "main"),
    _refused("START-LOAD", "no setter", F.HOOK_MISSING, NO_SETTER, "main"),
    _refused("START-LOAD", "refused", F.START_REFUSED, OTHER, "main"),
    _refused("START-PLAIN", "refused", F.START_REFUSED, OTHER, "plain"),
    Planted(
        "START-PLAIN",
        "wrong token",
        F.OUTPUT_DIFFERS,
        lambda: {"speculative": False, "emitted": when(in_verify, _one_emitted_wrong)},
    ),
    Planted(
        "START-PLAIN", "too short", F.OUTPUT_DIFFERS, lambda: {"speculative": False, "cut": _short}
    ),
    Planted(
        "START-PLAIN",
        "dies",
        F.START_REFUSED,
        lambda: {"logits": when(in_verify, dies("RuntimeError", "no kernel"))},
    ),
    Planted("START-DECODE", "no drafts", F.SPEC_INACTIVE, lambda: {"drafts": _no_drafts}),
    Planted("START-DECODE", "one step", F.SPEC_INACTIVE, lambda: {"answer": _one_step}),
    *deaths("START-DECODE"),
    Planted("START-SPEC", "no drafts", F.SPEC_INACTIVE, lambda: {"drafts": _no_drafts}),
    *deaths("START-SPEC"),
    Planted("START-PURE", "weights", F.TARGET_CHANGED, _changed(weights="b")),
    Planted("START-PURE", "dtype", F.TARGET_CHANGED, _changed(dtypes={"float32": 8, "float16": 1})),
    Planted(
        "START-PURE", "config", F.TARGET_CHANGED, _changed(config={"rope_theta": 1e6, "tie": False})
    ),
    Planted("HOOK-PRESENT", "missing", F.HOOK_MISSING, lambda: {"hooked": _hook(True)}),
    Planted("HOOK-PRESENT", "absent", F.HOOK_ABSENT, lambda: {"hooked": _hook(False)}),
    Planted(
        "OUTPUT-LOSSLESS",
        "rejected draft emitted",
        F.OUTPUT_DIFFERS,
        lambda: {"emitted": when(in_verify, _rejected_emitted)},
    ),
    Planted(
        "OUTPUT-LOSSLESS",
        "token twice",
        F.OUTPUT_DIFFERS,
        lambda: {"emitted": when(in_verify, _twice)},
    ),
    Planted("OUTPUT-LOSSLESS", "too short", F.OUTPUT_DIFFERS, lambda: {"cut": _short}),
    *deaths("OUTPUT-LOSSLESS"),
    Planted("OUTPUT-FORCED", "one more counted", F.COUNTERS_WRONG, lambda: {"counted": _one_more}),
    Planted(
        "OUTPUT-FORCED", "one fewer counted", F.COUNTERS_WRONG, lambda: {"counted": _bonus_lost}
    ),
    Planted("OUTPUT-FORCED", "ghost step", F.COUNTERS_WRONG, lambda: {"answer": _ghost_step}),
    Planted("OUTPUT-FORCED", "no drafts", F.SPEC_INACTIVE, lambda: {"drafts": _no_drafts}),
    Planted(
        "OUTPUT-FORCED",
        "rejected draft emitted",
        (F.OUTPUT_DIFFERS, F.COUNTERS_WRONG),
        lambda: {"emitted": when(in_verify, _rejected_emitted)},
    ),
    Planted(
        "OUTPUT-FORCED", "mask tokens counted", F.COUNTERS_WRONG, lambda: {"counted": _mask_counted}
    ),
    *deaths("OUTPUT-FORCED"),
    Planted("OUTPUT-STOP", "length overrun", F.OUTPUT_DIFFERS, lambda: {"cut": _overrun}),
    Planted("OUTPUT-STOP", "stop ignored", F.OUTPUT_DIFFERS, lambda: {"cut": _stop_ignored}),
    Planted("OUTPUT-STOP", "stop swallowed", F.OUTPUT_DIFFERS, lambda: {"cut": _stop_swallowed}),
    *deaths("OUTPUT-STOP"),
    Planted("OUTPUT-K", "no drafts", F.SPEC_INACTIVE, lambda: {"drafts": _no_drafts}),
    Planted("OUTPUT-K", "too many", F.COUNTERS_WRONG, lambda: {"drafts": _k_ignored}),
    Planted(
        "OUTPUT-K",
        "rejected draft emitted",
        F.OUTPUT_DIFFERS,
        lambda: {"emitted": when(in_verify, _rejected_emitted)},
    ),
    *deaths("OUTPUT-K"),
    Planted(
        "OUTPUT-COUNTERS",
        "more than drafted",
        F.COUNTERS_WRONG,
        lambda: {"counted": _more_than_drafted},
    ),
    Planted(
        "OUTPUT-COUNTERS", "one fewer counted", F.COUNTERS_WRONG, lambda: {"counted": _bonus_lost}
    ),
    Planted("OUTPUT-COUNTERS", "ghost step", F.COUNTERS_WRONG, lambda: {"answer": _ghost_step}),
    Planted("OUTPUT-COUNTERS", "no drafts", F.SPEC_INACTIVE, lambda: {"drafts": _no_drafts}),
    Planted("OUTPUT-COUNTERS", "no steps", F.SPEC_INACTIVE, lambda: {"answer": _no_steps}),
    *deaths("OUTPUT-COUNTERS"),
)
