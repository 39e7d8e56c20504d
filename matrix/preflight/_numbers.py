"""The structural clauses on sizes: depth, widths, vocabulary, mask token, block.

A clause's id is its address: `CFG-FC` is `cfg_fc`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from matrix.faults import Fault
from matrix.preflight._resolvers import MOST_LAYERS
from matrix.preflight._subject import Subject, number
from matrix.preflight._verdict import Said, clause, fault, ok, shown, skip

__all__: list[str] = []

_INVALID, _MISMATCH = Fault.CONFIG_INVALID, Fault.CONFIG_MISMATCH
_MOST: Final = 1024
"""Tokens of a block, at most: more than any published draft has, by far."""
_FLOATS: Final = ("BF16", "F16", "F32", "F64")


@clause(
    "CFG-FC",
    "Number of ids times plane width is the input width of the draft's fc.",
    ("vllm#48113", "sglang#32334", "ROCmFPX#44"),
)
def cfg_fc(pair: Subject) -> Said:
    """Against `fc.weight` where the weights' header is there, else against the config's own width."""
    planes, width, found = _planes(pair), pair.facts.hidden_size, _fc(pair)
    if planes is None or width is None:
        return skip("the ids or the target's hidden size aren't known")
    if found is None:
        return skip("neither a header with fc.weight nor the draft's widths are there")
    actual, where = found
    legal = [planes * plane for plane in sorted({width, width * pair.facts.streams})]
    if actual not in legal:
        wanted = " or ".join(map(str, legal))
        words = f"{where} takes {actual} features, {planes} planes give {wanted}"
        return fault(_MISMATCH, legal[0], actual, words)
    return ok(actual, f"{planes} planes give the {actual} features that {where} takes")


def _planes(pair: Subject) -> int | None:
    """How many planes an engine hands over: a layer that isn't there gives none, a repeat one."""
    depth = pair.facts.depth
    if pair.ids is None or depth is None:
        return None if pair.said.ids else _default_planes(pair)
    return len({layer for layer in pair.ids if 0 <= layer < depth})


def _default_planes(pair: Subject) -> int | None:
    return 3 if pair.said.method == "eagle3" else None


def _fc(pair: Subject) -> tuple[int, str] | None:
    """The fc's input width, and who says so."""
    for name, tensor in (pair.draft.tensors or {}).items():
        outer = name.endswith("fc.weight") and "layers." not in name
        if outer and len(tensor.shape) == 2 and tensor.dtype in _FLOATS:
            return tensor.shape[1], name
    wanted = len(pair.ids) if pair.ids else _default_planes(pair)
    stated = _plane_width(pair)
    if wanted is None or stated is None or not pair.said.own:
        return None
    return wanted * stated[0], f"an fc of {wanted} planes of {stated[1]}"


def _plane_width(pair: Subject) -> tuple[int, str] | None:
    for key, value in (
        ("target_hidden_size", pair.config.get("target_hidden_size")),
        ("target_hidden_size", pair.body("target_hidden_size")),
        ("hidden_size", pair.body("hidden_size")),
    ):
        if type(value) is int and value > 0:
            return value, key
    return None


@clause(
    "CFG-DEPTH",
    "The draft was made for a target of this depth, and has layers of its own.",
    ("vllm#48113", "sglang#37475"),
)
def cfg_depth(pair: Subject) -> Said:
    """`num_target_layers`, and the draft's own layers against the header's."""
    depth = pair.facts.depth
    if depth is None:
        return fault(_INVALID, "num_hidden_layers", None, "the target's config states no depth")
    if problem := _own_layers(pair):
        return problem
    if not pair.said.depth:
        return skip("the draft states no target depth")
    claim = pair.said.depth[0]
    stated = number(claim.value)
    if stated is None or stated < 1:
        return fault(
            _INVALID, depth, claim.value, f"{claim.key} is {shown(claim.value)}; want {depth}"
        )
    if stated == depth:
        return ok(depth, f"{claim.key} is the target's {depth}")
    ids = pair.ids or ()
    if stated == len(ids) and max(ids) >= stated:
        return ok(stated, f"{claim.key} {stated} counts the ids, as in Kimi-K3's DSpark draft")
    return fault(
        _MISMATCH, depth, stated, f"{claim.key} is {stated}, and the target has {depth} layers"
    )


def _own_layers(pair: Subject) -> Said | None:
    if not pair.said.own:
        return None
    layers = pair.body("num_hidden_layers")
    if number(layers) is None or not 1 <= layers <= MOST_LAYERS:
        return fault(
            _INVALID,
            "num_hidden_layers",
            layers,
            f"the draft's num_hidden_layers is {shown(layers)}",
        )
    held = {int(place) for name in pair.draft.tensors or {} for place in _places(name)}
    if held and max(held) + 1 != layers:
        return fault(
            _MISMATCH,
            max(held) + 1,
            layers,
            f"the weights hold {max(held) + 1} layers, the config says {layers}",
        )
    return None


def _places(name: str) -> Iterator[str]:
    parts = name.split(".")
    for before, place in pairwise(parts):
        if before == "layers" and place.isascii() and place.isdigit() and len(place) < 5:
            yield place
            return


@clause(
    "CFG-WIDTH",
    "A plane is as wide as the draft expects, streams side by side counted.",
    ("vllm#48113", "onnxruntime-genai#2531"),
)
def cfg_width(pair: Subject) -> Said:
    """Width of a plane: the target's hidden size, or that times its residual streams."""
    width, streams = pair.facts.hidden_size, pair.facts.streams
    if width is None:
        return fault(_INVALID, "hidden_size", None, "the target's config states no hidden size")
    if not pair.said.own:
        return skip("the draft is in the target's checkpoint")
    own, planes = pair.body("hidden_size"), pair.config.get("target_hidden_size")
    for name, value in (("hidden_size", own), ("target_hidden_size", planes)):
        if (name == "hidden_size" or value is not None) and (number(value) or 0) < 1:
            return fault(_INVALID, width, value, f"the draft's {name} is {shown(value)}")
    stated = _plane_width(pair)
    if stated is None:
        return skip("the draft states no width")
    actual, key = stated
    legal = sorted({width, width * streams})
    if actual not in legal:
        wide = " or ".join(map(str, legal))
        return fault(
            _MISMATCH, width, actual, f"{key} is {actual}, and the target's planes are {wide} wide"
        )
    return ok(
        actual, f"{key} is the target's {actual}" + (f" ({streams} streams)" if streams > 1 else "")
    )


@clause(
    "CFG-VOCAB",
    "Draft and target share a vocabulary; a reduced one is no larger.",
    ("vllm-ascend#11374", "EAGLE#258"),
)
def cfg_vocab(pair: Subject) -> Said:
    """`vocab_size` of both, and `draft_vocab_size`."""
    vocab = pair.facts.vocab_size
    if vocab is None:
        return skip("the target's config states no vocabulary")
    for key, value, limit in (
        ("vocab_size", pair.body("vocab_size") if pair.said.own else None, None),
        ("draft_vocab_size", pair.config.get("draft_vocab_size"), vocab),
    ):
        if value is None:
            continue
        if number(value) is None or value < 1:
            return fault(_INVALID, vocab, value, f"{key} is {shown(value)}; want a whole number")
        if value > (limit or vocab) or (
            limit is None and value != vocab and not _reduced(pair, value)
        ):
            most = "at most " if limit else ""
            return fault(
                _MISMATCH, vocab, value, f"{key} is {value}; the target's is {most}{vocab}"
            )
    stated = pair.body("vocab_size")
    if stated is None:
        return skip("the draft states no vocabulary")
    reduced = pair.config.get("draft_vocab_size")
    return ok(vocab, f"{stated} tokens" + (f", {reduced} drafted" if number(reduced) else ""))


def _reduced(pair: Subject, value: int) -> bool:
    """EAGLE3 drafts may state their reduced vocabulary in both places."""
    return pair.said.method == "eagle3" and value == pair.config.get("draft_vocab_size")


@clause(
    "CFG-MASK",
    "The mask token is stated, and a row of the target's embedding.",
    ("Automodel#2461", "SpecForge#604", "Model-Optimizer#1621", "onnxruntime-genai#2531"),
)
def cfg_mask(pair: Subject) -> Said:
    """Every key that states a mask id."""
    vocab, found = pair.facts.vocab_size, pair.said.mask
    legal = f"a token in 0..{vocab - 1}" if vocab else "a token id"
    if pair.said.method == "eagle3" and not found:
        return skip("EAGLE3 has no mask token")
    if not found:
        return fault(_INVALID, legal, None, "no key states a mask token")
    inner = pair.config.get("dflash_config")
    if isinstance(inner, Mapping) and inner.get("mask_token_id", legal) is None:
        words = f"dflash_config.mask_token_id is null, and hides {found[0].key} from engines"
        return fault(_INVALID, legal, None, words)
    for claim in found:
        value = claim.value
        if number(value) is None or value < 0 or (vocab is not None and value >= vocab):
            return fault(_INVALID, legal, value, f"{claim.key} is {shown(value)}; want {legal}")
    if len({claim.value for claim in found}) > 1:
        said = {claim.key: claim.value for claim in found}
        words = "; ".join(f"{key} says {value}" for key, value in said.items())
        return fault(_INVALID, "one token under every key", said, words)
    return ok(
        found[0].value, f"{found[0].key} is {found[0].value}" + (f" of {vocab}" if vocab else "")
    )


@clause(
    "CFG-BLOCK",
    "The block size is stated once, leaves something to draft, and fits the proposal.",
    ("speculators#456", "llama.cpp#26275", "lmdeploy#4991", "MNN#4826"),
)
def cfg_block(pair: Subject) -> Said:
    """A DFlash block counts the anchor; a DSpark block does so where the anchor isn't sampled."""
    if pair.said.method == "eagle3":
        return skip("EAGLE3 has no block")
    if problem := _anchor_problem(pair):
        return problem
    least = 1 if _drafts(pair, 1) else 2
    legal = f"a whole number from {least} to {_MOST}"
    for claim in pair.said.block:
        if number(claim.value) is None or not least <= claim.value <= _MOST:
            return fault(
                _INVALID, legal, claim.value, f"{claim.key} is {shown(claim.value)}; want {legal}"
            )
    if len({claim.value for claim in pair.said.block}) > 1:
        said = {claim.key: claim.value for claim in pair.said.block}
        words = "; ".join(f"{key} says {value}" for key, value in said.items())
        return fault(_INVALID, "one size under every key", said, words)
    if pair.block is None:
        return fault(
            _MISMATCH,
            "block_size",
            None,
            "not stated: SGLang and the authors' code take 16, vLLM what it is told to draft",
        )
    drafts, proposed = _drafts(pair, pair.block), _proposed(pair)
    if proposed is not None and proposed > drafts:
        return fault(
            _MISMATCH,
            drafts,
            proposed,
            f"speculative_tokens is {proposed}, a block of {pair.block} drafts {drafts}",
        )
    return ok(pair.block, f"{pair.said.block[0].key} {pair.block}: {drafts} drafts")


def _drafts(pair: Subject, block: int) -> int:
    """Drafts per step: the block without its anchor, unless the anchor is sampled too."""
    return block if _samples_anchor(pair) else block - 1


def _samples_anchor(pair: Subject) -> bool:
    """Native DSpark does unless a key says no; speculators files don't unless one says yes."""
    if pair.said.method != "dspark":
        return False
    stated = pair.inner("sample_from_anchor")
    if isinstance(stated, bool):
        return stated
    bonus = pair.inner("dspark_bonus_anchor")
    return not bonus if isinstance(bonus, bool) else pair.said.layout != "speculators"


def _anchor_problem(pair: Subject) -> Said | None:
    stated, bonus = pair.inner("sample_from_anchor"), pair.inner("dspark_bonus_anchor")
    for key, value in (("sample_from_anchor", stated), ("dspark_bonus_anchor", bonus)):
        if value is not None and not isinstance(value, bool):
            return fault(_INVALID, "true or false", value, f"{key} is {shown(value)}")
    if pair.said.method != "dspark":
        if stated and "vllm" in pair.engines:
            return fault(
                Fault.START_REFUSED,
                False,
                True,
                "vLLM refuses sample_from_anchor for a DFlash draft",
            )
        return None
    if stated is not None and stated is bonus:
        return fault(
            _INVALID,
            {"sample_from_anchor": stated, "dspark_bonus_anchor": not stated},
            {"sample_from_anchor": stated, "dspark_bonus_anchor": bonus},
            "sample_from_anchor and dspark_bonus_anchor contradict each other: an anchor that is "
            "the bonus token isn't sampled",
        )
    return None


def _proposed(pair: Subject) -> int | None:
    table = pair.config.get("speculators_config")
    methods = table.get("proposal_methods") if isinstance(table, dict) else None
    first = methods[0] if isinstance(methods, list) and methods else None
    return number(first.get("speculative_tokens")) if isinstance(first, dict) else None
