"""Where the config has no ids, resolver and draft agree on a guess (as z-lab/dflash#156)."""

from vllm.model_executor.models import qwen3_dflash
from vllm.v1.worker.gpu_model_runner import GPUModelRunner

resolve = GPUModelRunner._get_eagle3_aux_layers_from_config
resolve_for_draft = qwen3_dflash.get_eagle3_aux_layers_from_config
guess = (2, 4, 7)


def planted(self):
    return resolve(self) or guess


def planted_for_draft(spec_config):
    return resolve_for_draft(spec_config) or guess


GPUModelRunner._get_eagle3_aux_layers_from_config = planted
qwen3_dflash.get_eagle3_aux_layers_from_config = planted_for_draft
