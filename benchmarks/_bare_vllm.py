"""The bare loop on vLLM; runs under vLLM's own interpreter.

`python -m benchmarks._bare_vllm TARGET DRAFT`, with rounds as in `_bare`: write the ids where the
resolver reads them, build the draft's `fc` for so many planes, resolve, prefill and draft, run the
reference, compare.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from vllm import LLM, SamplingParams
from vllm.config import set_current_vllm_config
from vllm.inputs import TokensPrompt
from vllm.model_executor.models import qwen3_dflash

from benchmarks._rounds import answer
from matrix.reference._layers import capture


class Bare:
    """vLLM and the reference in one process."""

    def __init__(self, target: str, draft: str) -> None:
        torch.set_num_threads(1)
        self.llm = LLM(
            model=target,
            dtype="float32",
            skip_tokenizer_init=True,
            enforce_eager=True,
            block_size=32,
            max_num_batched_tokens=64,
            max_num_seqs=4,
            max_model_len=1024,
            async_scheduling=False,
            disable_log_stats=False,
            speculative_config={
                "method": "dflash",
                "model": draft,
                "num_speculative_tokens": AutoConfig.from_pretrained(draft).block_size - 1,
            },
        )
        core: Any = self.llm.llm_engine.engine_core
        self.runner = core.engine_core.model_executor.driver_worker.worker.model_runner
        self.draft = self.runner.drafter.model.model
        self.config = self.runner.speculative_config.draft_model_config.hf_config
        self.sampling = SamplingParams(temperature=0.0, max_tokens=2, detokenize=False)
        self.seen: list[list[torch.Tensor]] = []
        self.forward, self.runner._model_forward = self.runner._model_forward, self._forward
        load = AutoModelForCausalLM.from_pretrained
        self.reference = load(target, attn_implementation="eager").float().eval()

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        output = self.forward(*args, **kwargs)
        self.seen.append([plane.clone() for plane in output[1]])
        return output

    def set_ids(self, ids: list[int]) -> None:
        """As at start, with an `fc` for so many planes."""
        old, vllm_config = self.draft.fc, self.runner.vllm_config
        self.config.dflash_config["target_layer_ids"] = ids
        with set_current_vllm_config(vllm_config):
            fc = type(old)(
                input_size=qwen3_dflash._get_dflash_fc_input_size(vllm_config),
                output_size=old.output_size,
                bias=False,
                params_dtype=old.params_dtype,
                prefix=old.prefix,
                return_bias=False,
            )
            weight = torch.randn(fc.output_size, fc.input_size, dtype=old.params_dtype) * 0.02
            fc.weight.weight_loader(fc.weight, weight)
            fc.quant_method.process_weights_after_loading(fc)
            self.draft.fc = fc
            self.runner._setup_eagle3_aux_hidden_state_outputs()

    def one(self, example: dict[str, Any]) -> None:
        """One example; a plane that is not the layer asked for is an error."""
        prompt, ids = example["prompt"], example["ids"]
        self.set_ids(ids)
        self.seen.clear()
        asked = TokensPrompt(prompt_token_ids=prompt)
        self.llm.generate(asked, self.sampling, use_tqdm=False)
        states = capture(self.reference, prompt, detail=False)["layers"]
        for plane, layer in zip(self.seen[0], ids, strict=True):
            far = (plane[: len(prompt)] - states[layer]).norm() / states[layer].norm()
            assert far < 1e-4, f"layer {layer}: {far:.1e} from the reference, want below 1e-4"


if __name__ == "__main__":
    answer(Bare(*sys.argv[1:]).one)
