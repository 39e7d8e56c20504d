"""The one resolver of config layouts: where a draft's file keeps its layer ids and their kin.

Published drafts use six layouts:

- `flat`: everything at top level (deepseek-ai's drafts);
- `nested`: `target_layer_ids` and `mask_token_id` in `dflash_config` (z-lab's, SpecForge's);
- `nested+rope`: newer z-lab files, where `block_size` moved into `dflash_config` too, and
  `rope_theta` into `rope_parameters`;
- `speculators`: `aux_hidden_state_layer_ids` beside `transformer_layer_config` (RedHatAI's);
- `eagle3`: EAGLE3's own, with `eagle_aux_hidden_state_layer_ids`, in `eagle_config` or not, or
  with no ids at all, when every engine takes the same three defaults;
- `in-checkpoint`: `dspark_*` keys in the target's own config (DeepSeek V4), no file of its own.

DFlash2 and DSpark are methods, not layouts: their drafts come in all of them. Ids are layer ids
here, *outputs* of zero-based decoder layers, whatever the file stores. Keys named
`aux_hidden_state_layer_ids` hold boundaries (id + 1): so do the speculators trainer and vLLM, which
capture the residual stream *entering* layer b.
"""

from __future__ import annotations

from matrix.layouts._claims import Claim, Claims, Layout, Semantics, claims
from matrix.layouts._place import place
from matrix.layouts._read import DraftFacts, read
from matrix.layouts._target import TargetFacts, read_target

__all__ = [
    "Claim",
    "Claims",
    "DraftFacts",
    "Layout",
    "Semantics",
    "TargetFacts",
    "claims",
    "place",
    "read",
    "read_target",
]
