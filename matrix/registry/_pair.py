"""The row of the registry: one (target, draft) pair and how to start it.

Modelled on vLLM's `_HfExamplesInfo`; a field has vLLM's name where it has vLLM's meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from matrix.layouts import Layout

__all__ = ["KEY", "Baseline", "Gate", "Pair", "Variant", "default_key"]

KEY: Final = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")
"""What a row's key must match."""

Kind = Literal["real", "synthetic", "canary"]
Method = Literal["dflash", "dflash2", "dspark", "eagle3", "domino", "dflare"]
Tap = Literal["raw", "normed", "unknown"]
Axis = Literal[
    "radix", "hicache", "page-size", "chunk", "graph", "overlap", "dp-attention", "tensor-parallel"
]


@dataclass(frozen=True)
class Gate:
    """A version gate of one engine, with its reason."""

    engine: str
    """Engine name: `vllm`, `sglang`, `transformers`."""
    version: str
    """PEP 440 specifier of the versions that can run the pair (`>=0.21.0`)."""
    reason: str
    """Why, with the public report where there is one."""


@dataclass(frozen=True)
class Baseline:
    """A published acceptance figure, with what it was measured on."""

    acceptance_length: float
    """Mean tokens per verify step, the bonus token included."""
    source: str
    """Where it was published."""
    dataset: str | None = None
    """The prompts: `mt-bench`, `gsm8k`, ..."""
    sampling: str | None = None
    """`greedy`, or the sampling parameters."""
    is_floor: bool = False
    """The least that a test of the engine's asks for, not a measurement."""


@dataclass(frozen=True)
class Variant:
    """A way of serving the pair that can break the hand-over by itself, and is published."""

    engine: str
    """Engine name."""
    axis: Axis
    """What is served otherwise than in a plain start."""
    value: str
    """How: a size, a strategy, `on` or `off`."""
    source: str
    """Where the pair is served so."""

    @property
    def name(self) -> str:
        """A short name, as settings have: `page-size-256`."""
        return f"{self.axis}-{self.value}"


@dataclass(frozen=True)
class Pair:
    """One row. Facts that are not known stay `None` and are shown blank."""

    key: str
    """The row's name; by default the draft's repository name in lower case."""
    target: str
    """Hub id of the served model."""
    speculative_model: str
    """Hub id of the draft; where it has none, the public file or report that describes it."""
    arch: str
    """The target's architecture, as in its config (`Qwen3ForCausalLM`)."""
    num_target_layers: int
    """Depth: number of decoder layers of the target."""
    target_layer_ids: tuple[int, ...]
    """Layer ids as *outputs* of zero-based decoder layers, whatever the draft's file stores."""
    kind: Kind = "real"
    """`real`: a public pair; `synthetic`: made up, so that an architecture is covered; `canary`."""
    subfolder: str | None = None
    """Folder of the draft inside its repository."""
    edition: str | None = None
    """Which of several configs this is that one hub id has had, in a few words (`8 taps`)."""
    speculative_method: Method = "dflash"
    """The drafting method."""
    draft_class: str = "DFlashDraftModel"
    """Name of the draft's class in the engine's registry, by which vLLM's table is keyed."""
    arch_inferred: bool = False
    """The architecture was deduced from the family, not read in a config."""
    id_semantics: Literal["output", "boundary"] = "output"
    """What the numbers in the draft's *file* mean: outputs of layers, or boundaries (id + 1)."""
    layout: Layout | None = None
    """Where the draft's file keeps its keys."""
    ids_key: str | None = None
    """The key that holds the ids, dotted, where the layout doesn't settle it."""
    hidden_size: int | None = None
    """The target's hidden size."""
    vocab_size: int | None = None
    """The target's vocabulary."""
    width_factor: int = 1
    """A plane's width over the hidden size; above 1 where streams are joined."""
    streams: int = 1
    """Residual streams of the target (`hc_mult`): averaged in a plane, unless `width_factor` says as many."""
    fc_in: int | None = None
    """Input width of the draft's `fc`, where it was published: ids x hidden size x `width_factor`."""
    block_size: int | None = None
    """Block of the draft; DFlash counts the anchor, so 16 means 15 drafts."""
    sample_from_anchor: bool | None = None
    """Whether the anchor's place drafts too, where the file says so: then block drafts, else one less."""
    bonus_anchor: bool | None = None
    """Whether the anchor is the bonus token (`dspark_bonus_anchor`), where the file says so."""
    num_speculative_tokens: int | None = None
    """Drafts per step, where they are published and the block alone doesn't give them."""
    mask_token_id: int | None = None
    """Token that fills the places to be drafted."""
    mask_key: str | None = None
    """The key that holds it, dotted, where the layout doesn't settle it."""
    draft_num_hidden_layers: int | None = None
    """Number of the draft's own layers."""
    draft_layer_types: tuple[str, ...] | None = None
    """The draft's attention kinds, layer by layer."""
    draft_sliding_window: int | None = None
    """Window of the draft's sliding layers, in tokens."""
    draft_window_key: str | None = None
    """The key that holds the window, where it isn't `sliding_window`."""
    draft_causal: bool | None = None
    """Whether the draft's block is causal, where its file says so."""
    draft_causal_key: str | None = None
    """The key that says it, dotted."""
    draft_vocab_size: int | None = None
    """The draft's own reduced vocabulary, where it has one."""
    draft_own_embedding: bool | None = None
    """Whether the draft has an embedding of its own; else it borrows the target's."""
    draft_own_head: bool | None = None
    """Whether the draft has an output head of its own; else it borrows the target's."""
    draft_dtype: str | None = None
    """Dtype of the draft's stored weights."""
    draft_rope: str | None = None
    """The draft's rope, and where its file keeps it."""
    softcap: float | None = None
    """`final_logit_softcapping` that the draft applies."""
    output_multiplier: float | None = None
    """What the draft multiplies its logits by."""
    final_tap: Tap = "unknown"
    """How the draft wants the *last* layer's state: before (`raw`) or after (`normed`) the final norm."""
    final_tap_source: str = ""
    """Where `final_tap` is known from."""
    tap_point: str = "layer-output"
    """Where a model's tap is; other than the plain layer output only on some targets."""
    revision: str | None = None
    """Full commit hash of the draft's repository, or `None`."""
    revision_prefix: str | None = None
    """What was published of the revision, when that was not a full hash."""
    target_revision: str | None = None
    """Full commit hash of the target's repository, or `None`."""
    tokenizer: str | None = None
    """Tokenizer, where it is not the target's."""
    dtype: str = "auto"
    """Dtype of the real weights."""
    enforce_eager: bool = False
    """Start the engine without graphs."""
    is_available_online: bool = True
    """Whether the checkpoint can be had."""
    trust_remote_code: bool = False
    """Run the checkpoint's own code; never done unless a row says so."""
    hf_overrides: Mapping[str, Any] = field(default_factory=dict)
    """Overrides for the target's config."""
    use_original_num_layers: bool = True
    """Keep the real depth in a tiny model; DFlash taps need it, so it is the default here."""
    max_model_len: int | None = None
    """Context length to start with."""
    max_num_seqs: int | None = None
    """Requests at once to start with."""
    min_transformers_version: str | None = None
    """First transformers release that knows the target."""
    max_transformers_version: str | None = None
    """Last transformers release that runs it."""
    transformers_version_reason: str | None = None
    """Why the transformers release is bounded; required with a bound."""
    gates: tuple[Gate, ...] = ()
    """Engine releases that can run the pair."""
    engine_args: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Engine name -> arguments that this pair needs there."""
    runners: Mapping[str, str] = field(default_factory=dict)
    """Engine name -> the one of its model runners that the pair needs."""
    variants: tuple[Variant, ...] = ()
    """Other ways of serving the pair; those that no run covers are its gaps."""
    starts: tuple[str, ...] = ()
    """Starts beyond `plain` and `main` that the row asks for: `public`, `tp2`, `pp2`."""
    baselines: tuple[Baseline, ...] = ()
    """Published acceptance figures."""
    source: str = ""
    """Where the facts were read: a public repository, issue or file."""
    confidence: Literal["config", "report", "inferred"] = "report"
    """`config`: a config of that checkpoint was read; `report`: somebody states it."""
    notes: str = ""
    """What else a reader should know."""

    @property
    def from_anchor(self) -> bool:
        """Whether the anchor's place drafts too: where no key says it, only in native DSpark."""
        native = self.speculative_method == "dspark" and self.layout != "speculators"
        return native if self.sample_from_anchor is None else self.sample_from_anchor

    @property
    def drafts(self) -> int | None:
        """Drafts per step: the published number, else by the block."""
        if self.num_speculative_tokens is not None or self.block_size is None:
            return self.num_speculative_tokens
        return self.block_size if self.from_anchor else self.block_size - 1


def default_key(draft: str) -> str:
    """The key that a draft's hub id gives by default: its repository name in lower case."""
    return draft.rsplit("/", 1)[-1].lower()
