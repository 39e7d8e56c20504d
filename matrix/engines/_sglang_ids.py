"""Layer ids on SGLang: in where its resolver reads them, out at the model's hook, as at start."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final

from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.model_executor.model_runner_components import spec_aux_hidden_state
from sglang.srt.model_executor.model_runner_components.attention_backend_setup import (
    configure_aux_hidden_state_capture,
)
from sglang.srt.server_args import ServerArgs
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from torch import nn

__all__ = ["Ids", "clear"]

_KEY: Final = "target_layer_ids"
_MARKS: Final = re.compile(r"layers?_to_capture|capture_aux_hidden_states")


class Ids:
    """The ids of one draft, on one target.

    Args:
        args: resolved arguments, published already.
        draft: the folder of the draft's checkpoint.
    """

    def __init__(self, args: ServerArgs, draft: str) -> None:
        self.args = args
        self.target = ModelConfig.from_server_args(args)
        self.draft = ModelConfig.from_server_args(
            args, model_path=draft, model_revision=None, is_draft_model=True
        )
        self.config = copy.deepcopy(self.draft.hf_config)

    def resolve(self) -> list[int]:
        """What SGLang hands to the model's hook for the ids in the draft's config."""
        with _reading(self.draft):
            found = spec_aux_hidden_state.resolve_spec_aux_hidden_state_config(
                server_args=self.args,
                model_config=self.target,
                spec_algorithm=SpeculativeAlgorithm.from_string("DFLASH"),
                is_draft_worker=False,
            )
        return list(found.dflash_target_layer_ids)

    def write(self, ids: Any) -> None:
        """Put `ids` into the live draft config, where it keeps them; `None` deletes the key."""
        config = copy.deepcopy(self.config)
        nested = getattr(config, "dflash_config", None)
        if isinstance(nested, dict) and (_KEY in nested or not hasattr(config, _KEY)):
            nested.pop(_KEY, None)
            nested.update({} if ids is None else {_KEY: ids})
        elif ids is not None:
            setattr(config, _KEY, ids)
        elif hasattr(config, _KEY):
            delattr(config, _KEY)
        self.draft.hf_config = config

    def set(self, model: nn.Module) -> None:
        """Resolve, then call the model's hook through SGLang's own function."""
        configure_aux_hidden_state_capture(
            model=model,
            eagle_use_aux_hidden_state=False,
            eagle_aux_hidden_state_layer_ids=None,
            dflash_use_aux_hidden_state=True,
            dflash_target_layer_ids=self.resolve(),
            is_dspark=False,
        )


def clear(model: nn.Module) -> None:
    """Take away what earlier hook calls left: some bodies mark layers and never unmark them."""
    for module in model.modules():
        for name in [name for name in vars(module) if _MARKS.search(name)]:
            left = getattr(module, name)
            setattr(module, name, type(left)())


@contextmanager
def _reading(draft: ModelConfig) -> Iterator[None]:
    """Within, SGLang's resolver finds this draft's live config in place of the one on disk."""
    own = spec_aux_hidden_state.ModelConfig
    spec_aux_hidden_state.ModelConfig = SimpleNamespace(from_server_args=lambda *_, **__: draft)
    try:
        yield
    finally:
        spec_aux_hidden_state.ModelConfig = own
