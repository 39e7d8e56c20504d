"""The bare loop: what one fuzz example costs without a harness around it. Imports torch.

`python -m benchmarks._bare TARGET DRAFT`: one process, no pipes, no Hypothesis, no naming of faults:
set the ids, generate, run the reference, compare. It answers as `_rounds` says.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

import dflash.model
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

from benchmarks._rounds import answer
from matrix.reference._layers import capture


def main() -> None:
    """Load target, draft and reference, and answer."""
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    folder, draft_folder = sys.argv[1:]
    target = _load(folder, "sdpa")
    reference = _load(folder, "eager")
    config = AutoConfig.from_pretrained(draft_folder)
    answer(lambda example: one(target, config, reference, example))


def _load(folder: str, attention: str) -> Any:
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation=attention)
    return model.float().eval()


def one(target: Any, config: Any, reference: Any, example: dict[str, Any]) -> None:
    """One example; a plane that is not the layer asked for is an error."""
    changed = copy.deepcopy(config)
    changed.dflash_config["target_layer_ids"] = example["ids"]
    draft = dflash.model.DFlashDraftModel(changed).eval()
    seen: list[torch.Tensor] = []
    handle = draft.fc.register_forward_pre_hook(lambda _, args: seen.append(args[0][0].clone()))
    prompt = torch.tensor([example["prompt"]])
    with torch.inference_mode():
        dflash.model.dflash_generate(draft, target, prompt, 2, None, temperature=0.0)
    handle.remove()
    states = capture(reference, example["prompt"], detail=False)["layers"]
    planes = seen[0].split(states.shape[-1], dim=-1)
    for plane, layer in zip(planes, example["ids"], strict=True):
        far = (plane - states[layer]).norm() / states[layer].norm()
        assert far < 1e-4, f"layer {layer}: {far:.1e} from the reference, want below 1e-4"


if __name__ == "__main__":
    main()
