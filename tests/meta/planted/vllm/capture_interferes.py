"""The target's logits change when hidden states are captured."""

from vllm.model_executor.models.qwen3 import Qwen3ForCausalLM

compute_logits = Qwen3ForCausalLM.compute_logits


def planted(self, hidden_states):
    logits = compute_logits(self, hidden_states)
    return logits * 1.01 + 0.01 if self.model.aux_hidden_state_layers else logits


Qwen3ForCausalLM.compute_logits = planted
