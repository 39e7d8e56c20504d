"""Without speculation, one token of the output is another one."""

from transformers import Qwen3ForCausalLM

generate = Qwen3ForCausalLM.generate


def planted(self, inputs, **options):
    out = generate(self, inputs, **options).clone()
    out[0, -2] = (out[0, -2] + 1) % 500
    return out


Qwen3ForCausalLM.generate = planted
