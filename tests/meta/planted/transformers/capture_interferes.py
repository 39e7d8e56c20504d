"""The logits change when hidden states are asked for."""

from transformers import Qwen3ForCausalLM

forward = Qwen3ForCausalLM.forward


def planted(self, *args, output_hidden_states=None, **kwargs):
    out = forward(self, *args, output_hidden_states=output_hidden_states, **kwargs)
    if output_hidden_states:
        out.logits = out.logits * 1.01 + 0.01
    return out


Qwen3ForCausalLM.forward = planted
