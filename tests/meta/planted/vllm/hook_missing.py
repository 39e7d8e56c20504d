"""The target's class lacks the protocol although its body captures (vLLM #45319)."""

from vllm.model_executor.models.interfaces import SupportsEagle3
from vllm.model_executor.models.qwen3 import Qwen3ForCausalLM

Qwen3ForCausalLM.__bases__ = tuple(
    base for base in Qwen3ForCausalLM.__bases__ if base is not SupportsEagle3
)
