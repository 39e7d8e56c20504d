"""A script for an engine's own interpreter: what its own resolver makes of a draft's config.

    python _ask.py vllm|sglang|transformers < question.json > answer.json

It is run by its path, imports nothing of this project, and never runs a checkpoint's code. The
question holds `config`, `method`, `depth` and `target_model_type`; the answer, on the last line,
one entry for each resolver: `how`, `ids` (outputs of layers) and `note`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def vllm(question: dict[str, Any]) -> dict[str, Any]:
    """Both runners, on the config as vLLM's own loader and `SpeculativeConfig` hold it."""
    from vllm.transformers_utils.config import get_config
    from vllm.transformers_utils.configs.eagle import EAGLEConfig
    from vllm.transformers_utils.configs.speculators.base import SpeculatorsConfig
    from vllm.v1.worker.gpu.spec_decode.eagle.eagle3_utils import get_eagle3_aux_layers_from_config
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    def held() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "config.json").write_text(json.dumps(question["config"]))
            loaded = get_config(folder, trust_remote_code=False)
        method = "dflash" if question["method"] == "dflash2" else question["method"]
        if method == "dspark" or isinstance(loaded, EAGLEConfig | SpeculatorsConfig):
            return loaded
        return EAGLEConfig(loaded, method=method, model_type="eagle")

    def ask(resolve: Any) -> dict[str, Any]:
        draft = SimpleNamespace(draft_model_config=SimpleNamespace(hf_config=held()))
        found = resolve(draft)
        if found is None:
            depth = question["depth"]
            return {"how": "default", "ids": [1, depth // 2 - 1, depth - 4]}
        return {"how": "read", "ids": [int(boundary) - 1 for boundary in found]}

    first = GPUModelRunner._get_eagle3_aux_layers_from_config
    return {
        "first runner": refusable(
            lambda: ask(lambda draft: first(SimpleNamespace(speculative_config=draft)))
        ),
        "second runner": refusable(lambda: ask(get_eagle3_aux_layers_from_config)),
    }


def sglang(question: dict[str, Any]) -> dict[str, Any]:
    """`parse_dflash_draft_config`, and DSpark's own on top of it."""
    from sglang.srt.speculative.dflash_utils import parse_dflash_draft_config

    def ask() -> dict[str, Any]:
        config = question["config"]
        parsed = parse_dflash_draft_config(draft_hf_config=config)
        ids = parsed.resolve_target_layer_ids(target_num_layers=question["depth"])
        how = "guess" if parsed.target_layer_ids is None else "read"
        if question["method"] == "dspark":
            from sglang.srt.speculative.dspark_components.dspark_config import (
                parse_dspark_draft_config,
            )

            dspark = parse_dspark_draft_config(draft_hf_config=config)
            if not dspark.require_markov():
                raise ValueError(f"DSPARK requires markov_rank > 0, got {dspark.markov_rank}")
            if dspark.target_layer_ids is not None:
                return {"how": "read", "ids": list(dspark.target_layer_ids)}
        elif question["target_model_type"] == "muse_glimmer":
            outputs = {"DFlash2DraftModel", "MuseGlimmerAssistantModel"}
            if not outputs & set(config.get("architectures") or []):
                ids = [layer - 1 for layer in ids]
        return {"how": how, "ids": list(ids)}

    if question["method"] == "eagle3" or "transformer_layer_config" in question["config"]:
        return {}
    return {"parse_dflash_draft_config": refusable(ask)}


def transformers(question: dict[str, Any]) -> dict[str, Any]:
    """The authors' `DFlashDraftModel`, built without memory."""
    import torch
    from dflash.model import DFlashDraftModel
    from transformers import Qwen3Config

    def ask() -> dict[str, Any]:
        config = Qwen3Config.from_dict(question["config"])
        with torch.device("meta"):
            model = DFlashDraftModel(config)
        stated = getattr(config, "dflash_config", {}).get(
            "target_layer_ids", getattr(config, "target_layer_ids", None)
        )
        return {
            "how": "guess" if stated is None else "read",
            # As its first draft adds the 1: text is no number.
            "ids": [int(layer + 0) for layer in model.target_layer_ids],
        }

    if question["method"] not in ("dflash", "dflash2"):
        return {}
    return {"dflash": refusable(ask)}


def refusable(ask: Any) -> dict[str, Any]:
    """An answer, or what the engine raised."""
    try:
        return dict(ask())
    except Exception as error:
        return {"how": "refused", "ids": None, "note": f"{type(error).__name__}: {error}"[:300]}


if __name__ == "__main__":
    engine = {"vllm": vllm, "sglang": sglang, "transformers": transformers}[sys.argv[1]]
    print("\n" + json.dumps(engine(json.load(sys.stdin))))
