"""The semantic clauses: what starts and runs, and still costs acceptance, or breaks in one place.

They warn; where the file contradicts itself, or an engine is asked about that can't do it, they
fail. A clause's id is its address: `CFG-LAST` is `cfg_last`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from matrix.faults import Fault
from matrix.preflight._keys import unread
from matrix.preflight._subject import Subject, edition, number
from matrix.preflight._verdict import Said, clause, fault, ok, shown, skip
from matrix.registry import Pair

__all__: list[str] = []

_INVALID, _MISMATCH = Fault.CONFIG_INVALID, Fault.CONFIG_MISMATCH
_SLIDING: Final = "sliding_attention"


@clause(
    "CFG-LAST",
    "The last layer isn't tapped, or the engine captures it.",
    ("sglang#32204", "sglang#32206", "Automodel#3083", "vllm#48124", "vllm#52184"),
)
def cfg_last(pair: Subject) -> Said:
    """Engines hand out its raw state, the authors' code the normed one; some bodies neither."""
    depth = pair.facts.depth
    if depth is None or pair.ids is None:
        return skip("the target's depth or the draft's ids aren't known")
    if not pair.last_tapped:
        return ok(max(pair.ids, default=None), f"the last of {depth} layers isn't tapped")
    last = depth - 1
    lost = {
        engine: found[-1].version
        for engine, found in pair.releases.items()
        if found and found[-1].last
    }
    words = ", ".join(f"{engine} {version}" for engine, version in lost.items())
    if pair.engine in lost:
        return fault(
            Fault.PLANE_MISSING,
            f"ids below {last}",
            last,
            f"layer {last} is the last, and {words} never captures it on {pair.facts.arch}: a plane "
            "too few",
        )
    never = f"; {words} never captures it" if words else ""
    return fault(
        _MISMATCH,
        f"ids below {last}",
        last,
        f"layer {last} is the last: engines hand out its state before the final norm, the authors' "
        f"code after it{never}",
    )


@clause(
    "CFG-MASK-ROLE",
    "The mask token has no other role.",
    ("Automodel#2461", "speculators#393", "SpecForge#604"),
)
def cfg_mask_role(pair: Subject) -> Said:
    """Not padding, end, begin or unknown; and the token that `mask_token` names."""
    mask = pair.mask
    if mask is None:
        return skip("no mask token is stated")
    named, known = pair.inner("mask_token"), _added(pair)
    if isinstance(named, str) and named in known.values():
        wanted = next(token for token, content in known.items() if content == named)
        if wanted != mask:
            return fault(
                _INVALID,
                wanted,
                mask,
                f"mask_token {shown(named)} is {wanted}, mask_token_id is {mask}",
            )
    roles = sorted({role for role, token in _roles(pair, known) if token == mask})
    if roles:
        return fault(
            _MISMATCH, "a token of its own", mask, f"{mask} is also the target's {', '.join(roles)}"
        )
    name = known.get(mask)
    return ok(mask, f"{mask}" + (f" ({shown(name)})" if name else "") + " has no other role")


def _roles(pair: Subject, known: Mapping[int, str]) -> Iterator[tuple[str, int]]:
    """Roles that the target's configs give to tokens."""
    for role in ("pad", "eos", "bos"):
        for config in (pair.target.config, pair.facts.text):
            stated = config.get(f"{role}_token_id")
            for token in stated if isinstance(stated, list) else [stated]:
                if type(token) is int:
                    yield f"{role}_token_id", token
    contents = {content: token for token, content in known.items()}
    for role in ("pad_token", "eos_token", "bos_token", "unk_token"):
        stated = (pair.target.tokenizer or {}).get(role)
        text = stated.get("content") if isinstance(stated, Mapping) else stated
        if isinstance(text, str) and text in contents:
            yield role, contents[text]


def _added(pair: Subject) -> dict[int, str]:
    """The target tokenizer's added tokens."""
    table = (pair.target.tokenizer or {}).get("added_tokens_decoder")
    return {
        int(key): str(entry["content"])
        for key, entry in (table.items() if isinstance(table, Mapping) else ())
        if key.isascii() and key.isdigit() and len(key) < 10
        if isinstance(entry, Mapping) and isinstance(entry.get("content"), str)
    }


@clause(
    "CFG-CONTEXT",
    "The draft's positions reach as far as the target's.",
    ("NeMo-RL#3960", "sglang#34285", "vllm#48894"),
)
def cfg_context(pair: Subject) -> Said:
    """`max_position_embeddings` of both."""
    theirs = number(pair.facts.text.get("max_position_embeddings"))
    own = pair.body("max_position_embeddings")
    if own is None or not pair.said.own:
        return skip("the draft states no max_position_embeddings")
    if number(own) is None or own < 1:
        return fault(_INVALID, theirs, own, f"max_position_embeddings is {shown(own)}")
    if theirs is not None and own < theirs:
        return fault(
            _MISMATCH,
            theirs,
            own,
            f"the draft has {own} positions, the target {theirs}: serve at most {own}, or SGLang "
            "wants SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1",
        )
    return ok(own, f"{own} positions")


@clause(
    "CFG-ROPE",
    "The rope base is stated once, and is the target's.",
    ("Model-Optimizer#1621", "llama.cpp#27342"),
)
def cfg_rope(pair: Subject) -> Said:
    """`rope_theta`, at top level or in `rope_parameters`."""
    if not pair.said.own:
        return skip("the draft is in the target's checkpoint")
    own, theirs = _thetas(pair.said.body), _thetas(pair.facts.text)
    for key, value in own.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            return fault(_INVALID, "a number above 0", value, f"{key} is {shown(value)}")
    if len(set(own.values())) > 1:
        words = "; ".join(f"{key} says {value}" for key, value in own.items())
        return fault(_INVALID, "one base", own, words)
    if not own or not theirs:
        return skip("draft or target states no rope_theta")
    base, wanted = next(iter(own.values())), next(iter(theirs.values()))
    if base != wanted:
        return fault(_MISMATCH, wanted, base, f"the draft's base is {base}, the target's {wanted}")
    return ok(base, f"both have base {base}")


def _thetas(config: Mapping[str, Any]) -> dict[str, Any]:
    inner = config.get("rope_parameters")
    table = inner if isinstance(inner, Mapping) else {}
    # Gemma keeps one table for each kind of layer, and then there is no one base to compare.
    found = {
        "rope_theta": config.get("rope_theta"),
        "rope_parameters.rope_theta": table.get("rope_theta"),
    }
    return {key: value for key, value in found.items() if value is not None}


@clause(
    "CFG-MROPE",
    "The draft has plain positions, as engines give it.",
    ("llama.cpp#27342", "vllm-ascend#9340", "TensorRT-LLM#13782"),
)
def cfg_mrope(pair: Subject) -> Said:
    """Multimodal positions in three axes: a draft is fed one."""
    if not pair.said.own:
        return skip("the draft is in the target's checkpoint")
    for key in ("rope_parameters", "rope_scaling"):
        table = pair.body(key)
        if isinstance(table, Mapping) and table.get("mrope_section") is not None:
            return fault(
                _MISMATCH,
                None,
                table["mrope_section"],
                f"{key}.mrope_section: vLLM's first runner refuses M-RoPE in a draft, and others "
                "give it text positions",
            )
    return ok(None, "no mrope_section")


@clause(
    "CFG-WINDOW",
    "Sliding layers have a window, one kind for each layer, and one meaning of causal.",
    ("vllm#40898", "ik_llama.cpp#2021", "TensorRT-LLM#16914", "TensorRT-LLM#18043"),
)
def cfg_window(pair: Subject) -> Said:
    """`layer_types`, `sliding_window` or `swa_window_size`, and who may look ahead."""
    kinds, layers = pair.body("layer_types"), pair.body("num_hidden_layers")
    if not pair.said.own:
        return skip("the draft is in the target's checkpoint")
    if kinds is None and not pair.inner("use_swa"):
        return ok(None, "no layer slides")
    if kinds is not None:
        if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
            return fault(_INVALID, "a list of names", kinds, f"layer_types is {shown(kinds)}")
        if number(layers) is not None and len(kinds) != layers:
            return fault(
                _INVALID,
                layers,
                len(kinds),
                f"layer_types has {len(kinds)} entries for {layers} layers",
            )
    slides = pair.inner("use_swa") or _SLIDING in (kinds or ())
    if not slides:
        return ok(None, "no layer slides")
    window = pair.inner("swa_window_size") or pair.body("sliding_window")
    if number(window) is None or window < 1:
        return fault(
            _INVALID, "sliding_window", window, f"layers slide, and the window is {shown(window)}"
        )
    if pair.block is not None and window < pair.block:
        return fault(_MISMATCH, pair.block, window, f"a window of {window} is shorter than a block")
    return _causal(pair, window)


def _causal(pair: Subject, window: int) -> Said:
    stated = {
        key: value for key in ("is_causal", "causal") if isinstance(value := pair.inner(key), bool)
    }
    if len(set(stated.values())) > 1:
        return fault(_INVALID, "one value", stated, "is_causal and causal contradict each other")
    if False in stated.values():
        return fault(
            _MISMATCH,
            "causal sliding layers",
            stated,
            f"sliding layers (window {window}) that aren't causal: vLLM honours the key, SGLang "
            "takes every sliding layer for causal",
        )
    return ok(window, f"window {window}")


@clause("CFG-DTYPE", "Draft and target have one dtype.", ("lmdeploy#4789", "dflash-mlx#60"))
def cfg_dtype(pair: Subject) -> Said:
    """As the configs state them, or as the draft's weights are stored."""
    if not pair.said.own:
        return skip("the draft is in the target's checkpoint")
    own = _dtype(pair.config) or _dtype(pair.said.body)
    theirs = _dtype(pair.target.config) or _dtype(pair.facts.text)
    if own is None or theirs is None:
        return skip("draft or target states no dtype")
    if own != theirs:
        return fault(
            _MISMATCH,
            theirs,
            own,
            f"the draft is {own:.40}, the target {theirs:.40}: set the draft's dtype",
        )
    return ok(own, f"both {own:.40}")


def _dtype(config: Mapping[str, Any]) -> str | None:
    value = config.get("dtype") or config.get("torch_dtype")
    return value.removeprefix("torch.") if isinstance(value, str) else None


@clause(
    "CFG-QUANT",
    "Draft and KV cache are not quantised.",
    ("vllm#49133", "vllm#53116", "vllm#53873", "vllm#49293", "TensorRT-LLM#8910"),
)
def cfg_quant(pair: Subject) -> Said:
    """Quantised drafts and fp8 KV caches are where engines leak the target's settings."""
    own = pair.config.get("quantization_config") if pair.said.own else None
    theirs = pair.target.config.get("quantization_config") or pair.facts.text.get(
        "quantization_config"
    )
    if own:
        return fault(
            _MISMATCH,
            None,
            _method(own),
            f"the draft is quantised ({_method(own)}): few releases load that",
        )
    if isinstance(theirs, Mapping):
        for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
            if theirs.get(key):
                return fault(
                    _MISMATCH,
                    None,
                    theirs[key],
                    f"the target's KV cache is quantised ({key}): non-causal drafts lack a backend for it",
                )
        return ok(None, f"only the target is quantised ({_method(theirs)})")
    return ok(None, "nothing is quantised")


def _method(table: Any) -> str:
    fields = table if isinstance(table, Mapping) else {}
    return shown(fields.get("quant_method") or fields.get("quant_algo") or "method not stated")


@clause(
    "CFG-KEYS",
    "Somebody reads every key of the draft's config.",
    ("vllm#43482", "ROCmFPX#48", "sglang#32334", "ik_llama.cpp#2021"),
)
def cfg_keys(pair: Subject) -> Said:
    """Keys that neither transformers nor an engine nor the authors' code reads."""
    if not pair.said.own:
        return skip("the draft is in the target's checkpoint")
    found = list(unread(pair.config))
    if found:
        listed = ", ".join(key[:80] for key in found[:20])
        more = f" and {len(found) - 20} more" if len(found) > 20 else ""
        return fault(_INVALID, [], found[:100], f"nobody reads {listed}{more}")
    return ok([], "every key is read by somebody")


@clause("CFG-EDITION", "The file is the edition that the registry's row is on.")
def cfg_edition(pair: Subject) -> Said:
    """Repository ids change in place: ids, mask, block and depth against the rows of that draft."""
    here = edition(pair.config)
    if not pair.rows:
        return skip("the registry has no row on this draft's hub id")
    parted = {row.key: list(_parts(pair, row)) for row in pair.rows}
    for key, parts in parted.items():
        if not parts:
            return ok(here, f"edition {here} is as the row {key} says")
    words = "; ".join(f"{key}: {', '.join(parts)}" for key, parts in parted.items())
    return fault(_MISMATCH, list(parted), here, f"edition {here} is not the row's: {words}")


def _parts(pair: Subject, row: Pair) -> Iterator[str]:
    """Known facts of a row that the file contradicts."""
    if row.revision is not None and pair.draft.revision == row.revision:
        return
    layers = pair.body("num_hidden_layers") if pair.said.own else None
    for name, stated, actual in (
        ("target_layer_ids", list(row.target_layer_ids), list(pair.ids or ()) or None),
        ("mask_token_id", row.mask_token_id, pair.mask),
        ("block_size", row.block_size, pair.block),
        ("layout", row.layout, pair.said.layout),
        ("draft_num_hidden_layers", row.draft_num_hidden_layers, layers),
    ):
        if stated is not None and actual is not None and stated != actual:
            yield f"{name} {shown(actual)} (row: {shown(stated)})"
