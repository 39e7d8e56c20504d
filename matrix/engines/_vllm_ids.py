"""Layer ids on a live vLLM: written where its resolver reads them, then resolved as at start."""

from __future__ import annotations

import copy
import json
import sys
from typing import Any

import torch
from vllm.v1.worker.gpu.spec_decode.eagle import eagle3_utils

from matrix.engines._vllm_watch import body
from matrix.errors import AdapterError

__all__ = ["Ids", "resolve"]


class Ids:
    """The ids of a running engine, and the way back to those of its start."""

    def __init__(self, runner: Any) -> None:
        self.runner = runner
        self.config = runner.speculative_config.draft_model_config.hf_config
        self.draft = runner.drafter.model.model
        self._fc, self._settings = self.draft.fc, copy.deepcopy(_keys(self.config))
        self._planes = len(runner._get_eagle3_aux_layers_from_config() or ())

    def boundaries(self) -> tuple[int, ...]:
        """What the target's body holds to capture."""
        return tuple(body(self.runner.get_model()).aux_hidden_state_layers)

    def set(self, ids: Any) -> None:
        """Resolve `ids` as at start: the draft's `fc` is built and loaded, then the hook called.

        They stand in `dflash_config` or, in a flat config, at top level. A speculators config says
        them twice, as boundaries too; the boundaries are left out then, or they would win.
        """
        _restore(self.config, self._settings)
        self.draft.fc = self._fc
        if json.dumps(ids) != json.dumps(_asked(self.config)):
            _write(self.config, ids)
            self.draft.fc = self._projection(len(ids) if isinstance(ids, list) and ids else None)
        self.runner._setup_eagle3_aux_hidden_state_outputs()

    def _projection(self, planes: int | None) -> Any:
        """An `fc` as vLLM sizes it, loaded from a checkpoint that has it for so many planes."""
        module = _module_of(self.draft)
        started = self._fc
        fc = type(started)(
            input_size=module._get_dflash_fc_input_size(self.runner.vllm_config),
            output_size=started.output_size,
            bias=False,
            params_dtype=started.params_dtype,
            prefix=started.prefix,
            return_bias=False,
        )
        width = started.input_size // self._planes
        columns = started.input_size if planes is None else planes * width
        torch.manual_seed(0)
        weight = torch.randn(started.output_size, columns, dtype=started.params_dtype) * 0.02
        fc.weight.weight_loader(fc.weight, weight)
        fc.quant_method.process_weights_after_loading(fc)
        return fc.to(next(self.draft.parameters()).device)


def resolve(runner: Any, config: dict[str, Any]) -> dict[str, Any]:
    """What both runners' resolvers make of a draft config with these keys."""
    live = runner.speculative_config.draft_model_config.hf_config
    before = copy.deepcopy(_keys(live))
    ways = {
        "v1/worker/gpu_model_runner": runner._get_eagle3_aux_layers_from_config,
        "v1/worker/gpu/model_runner": lambda: eagle3_utils.get_eagle3_aux_layers_from_config(
            runner.speculative_config
        ),
    }
    said: dict[str, Any] = {}
    try:
        _restore(live, config)
        for name, way in ways.items():
            try:
                boundaries = way()
                said[name] = None if boundaries is None else list(boundaries)
            except Exception as error:
                said[name] = f"{type(error).__name__}: {error}"
    finally:
        _restore(live, before)
    return said


_KEYS = (
    "model_type",
    "dflash_config",
    "eagle_config",
    "target_layer_ids",
    "eagle_aux_hidden_state_layer_ids",
    "dspark_target_layer_ids",
)
"""Keys of a draft's config that either resolver reads."""


def _keys(config: Any) -> dict[str, Any]:
    return {key: getattr(config, key) for key in _KEYS if hasattr(config, key)}


def _restore(config: Any, values: dict[str, Any]) -> None:
    for key in _KEYS:
        if key in values:
            setattr(config, key, copy.deepcopy(values[key]))
        elif key in vars(config):
            delattr(config, key)


def _asked(config: Any) -> Any:
    nested = getattr(config, "dflash_config", None) or {}
    return nested.get("target_layer_ids", getattr(config, "target_layer_ids", None))


def _write(config: Any, ids: Any) -> None:
    nested = getattr(config, "dflash_config", None)
    if "eagle_aux_hidden_state_layer_ids" in vars(config):
        del config.eagle_aux_hidden_state_layer_ids
    if isinstance(nested, dict) and "target_layer_ids" in nested:
        nested.pop("target_layer_ids")
        if ids is not None:
            nested["target_layer_ids"] = ids
    elif ids is not None:
        config.target_layer_ids = ids
    elif hasattr(config, "target_layer_ids"):
        del config.target_layer_ids


def _module_of(draft: Any) -> Any:
    """The draft's module, from the class that has the size of its `fc`."""
    for cls in type(draft).__mro__:
        module = sys.modules[cls.__module__]
        if hasattr(module, "_get_dflash_fc_input_size"):
            return module
    raise AdapterError("no `_get_dflash_fc_input_size` beside the draft's class any more")
