"""The target's class has the hook and doesn't declare it; the runner no longer asks."""

from vllm.model_executor.models.interfaces import SupportsEagle3
from vllm.model_executor.models.qwen3 import Qwen3ForCausalLM
from vllm.v1.worker import gpu_model_runner

Qwen3ForCausalLM.__bases__ = tuple(
    base for base in Qwen3ForCausalLM.__bases__ if base is not SupportsEagle3
)
for name in ("set_aux_hidden_state_layers", "get_eagle3_default_aux_hidden_state_layers"):
    setattr(Qwen3ForCausalLM, name, vars(SupportsEagle3)[name])
gpu_model_runner.supports_eagle3 = lambda model: True
