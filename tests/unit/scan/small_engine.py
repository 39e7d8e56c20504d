"""Two small engines, as source: enough of each to keep every rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from matrix.scan import Architecture, ScanResult

Write = Callable[..., Path]
Judge = Callable[..., ScanResult]

SGLANG_BASE: Mapping[str, str] = {
    "sglang/__init__.py": "",
    "sglang/srt/models/registry.py": "class ModelRegistry: ...\n",
    "sglang/srt/speculative/dflash_utils.py": """
def parse_dflash_draft_config(*, draft_hf_config):
    layer_ids = draft_hf_config.get("target_layer_ids", None)
    return [int(x) for x in layer_ids]

def resolve_target_layer_ids(target_layer_ids, target_num_layers):
    for val in target_layer_ids:
        if val < 0 or val >= target_num_layers:
            raise ValueError(f"out of range: {val}")
    return target_layer_ids
""",
    "sglang/srt/models/llama.py": """
from torch import nn

class LlamaModel(nn.Module):
    def __init__(self, config):
        self.layers = nn.ModuleList()
        self.layers_to_capture = []

    def forward(self, hidden_states):
        aux_hidden_states = []
        for i in range(self.start_layer, self.end_layer):
            if i in self.layers_to_capture:
                aux_hidden_states.append(hidden_states)
            hidden_states = self.layers[i](hidden_states)
        if self.end_layer in self.layers_to_capture:
            aux_hidden_states.append(hidden_states)
        return hidden_states, aux_hidden_states

class LlamaForCausalLM(nn.Module):
    def __init__(self, config):
        self.model = LlamaModel(config)
        self.logits_processor = LogitsProcessor(config)

    def forward(self, hidden_states):
        hidden_states = self.model(hidden_states)
        aux_hidden_states = None
        if self.capture_aux_hidden_states:
            hidden_states, aux_hidden_states = hidden_states
        return self.logits_processor(hidden_states, aux_hidden_states)

    def set_dflash_layers_to_capture(self, layer_ids):
        if layer_ids is None:
            raise ValueError("DFLASH requires explicit layer_ids")
        if list(layer_ids) != sorted(set(layer_ids)):
            raise ValueError(f"unordered: {layer_ids}")
        self.capture_aux_hidden_states = True
        self.model.layers_to_capture = [val + 1 for val in layer_ids]

EntryClass = [LlamaForCausalLM]
""",
}

VLLM_BASE: Mapping[str, str] = {
    "vllm/__init__.py": "",
    "vllm/platforms.py": "current_platform = None\n",
    "vllm/model_executor/models/registry.py": """
_TEXT_GENERATION_MODELS = {
    "LlamaForCausalLM": ("llama", "LlamaForCausalLM"),
}
_SPECULATIVE_DECODING_MODELS = {}
_VLLM_MODELS = {**_TEXT_GENERATION_MODELS, **_SPECULATIVE_DECODING_MODELS}
""",
    "vllm/model_executor/models/interfaces.py": """
from typing import ClassVar, Literal, Protocol, runtime_checkable

class EagleModelMixin:
    aux_hidden_state_layers = ()

    def _set_aux_hidden_state_layers(self, layers):
        self.aux_hidden_state_layers = tuple(sorted(set(layers)))

    def _maybe_add_hidden_state(self, aux, layer_idx, hidden, residual):
        if layer_idx in self.aux_hidden_state_layers:
            aux.append(hidden)
        return aux

@runtime_checkable
class SupportsEagle3(Protocol):
    supports_eagle3: ClassVar[Literal[True]] = True

    def set_aux_hidden_state_layers(self, layers):
        parent_ref = self
        if hasattr(self, "get_language_model"):
            parent_ref = self.get_language_model()
        elif hasattr(self, "language_model"):
            parent_ref = self.language_model
        holder = getattr(parent_ref, "model", parent_ref)
        holder._set_aux_hidden_state_layers(layers)

    def get_eagle3_default_aux_hidden_state_layers(self):
        return (2, 3, 4)
""",
    "vllm/model_executor/models/llama.py": """
from torch import nn
from .interfaces import EagleModelMixin, SupportsEagle3

class LlamaModel(nn.Module, EagleModelMixin):
    def __init__(self, config):
        self.layers = nn.ModuleList()

    def forward(self, hidden_states, residual=None):
        aux_hidden_states = self._maybe_add_hidden_state([], 0, hidden_states, residual)
        for idx, layer in enumerate(self.layers):
            hidden_states, residual = layer(hidden_states, residual)
            self._maybe_add_hidden_state(aux_hidden_states, idx + 1, hidden_states, residual)
        return hidden_states, aux_hidden_states

class LlamaForCausalLM(nn.Module, SupportsEagle3):
    def __init__(self, config):
        self.model = LlamaModel(config)

    def forward(self, hidden_states):
        return self.model(hidden_states)
""",
    "vllm/v1/worker/gpu_model_runner.py": """
class GPUModelRunner:
    def _get_eagle3_aux_layers_from_config(self):
        dflash_config = self.config.dflash_config
        layer_ids = [i + 1 for i in (dflash_config.get("target_layer_ids") or [])]
        return tuple(layer_ids)
""",
    "vllm/v1/worker/gpu/model_runner.py": "from x import verify_supports_aux_hidden_states_over_pp\n",
}

BASES = {"sglang": SGLANG_BASE, "vllm": VLLM_BASE}


def only(result: ScanResult, arch: str) -> Architecture:
    found = [one for one in result.architectures if one.arch == arch]
    assert len(found) == 1, f"{arch} among {[one.arch for one in result.architectures]}"
    return found[0]


def rules(arch: Architecture) -> set[str]:
    return {finding.rule for finding in arch.findings}
