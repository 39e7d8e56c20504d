"""Loading the draft changes the target's config."""

import dflash.model
from transformers import AutoModelForCausalLM

targets = []
load_target = AutoModelForCausalLM.from_pretrained
load_draft = dflash.model.DFlashDraftModel.from_pretrained


def planted_target(*args, **kwargs):
    targets.append(load_target(*args, **kwargs))
    return targets[-1]


def planted_draft(*args, **kwargs):
    targets[-1].config.max_position_embeddings = 77
    return load_draft(*args, **kwargs)


AutoModelForCausalLM.from_pretrained = planted_target
dflash.model.DFlashDraftModel.from_pretrained = planted_draft
