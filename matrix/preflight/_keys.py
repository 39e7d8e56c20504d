"""Which keys of a draft's config somebody reads: transformers, an engine, or a trainer's own tools.

From the sources of transformers 5.24, vllm 0.32.0, sglang 0.5.23, dflash 0.1.0 and the speculators
format. A key that is in none of these lists does nothing, and is worth a look: a norm or a scale
that a draft was trained with and that no engine applies costs acceptance in silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["unread"]

_SHAPE: Final = """
_name_or_path architectures attention_bias attention_dropout attn_output_gate auto_map bos_token_id
chunk_size_feed_forward dtype eos_token_id first_k_dense_replace gating head_dim hidden_act
hidden_activation hidden_size id2label initializer_range intermediate_size is_encoder_decoder
kv_lora_rank label2id layer_norm_epsilon layer_types max_position_embeddings max_window_layers
mlp_bias model_type moe_intermediate_size n_group n_routed_experts n_shared_experts norm_eps
norm_topk_prob num_attention_heads num_experts num_experts_per_tok num_hidden_layers
num_key_value_heads num_local_experts num_nextn_predict_layers output_attentions
output_hidden_states output_router_logits pad_token_id partial_rotary_factor pretraining_tp
problem_type q_lora_rank qk_head_dim qk_nope_head_dim qk_rope_head_dim quantization_config
query_pre_attn_scalar return_dict rms_norm_eps rope_interleave rope_parameters rope_scaling
rope_theta rotary_dim routed_scaling_factor router_aux_loss_coef scale_emb sliding_window
tie_word_embeddings top_k_experts topk_group torch_dtype transformers_version use_cache
use_qk_norm use_sliding_window v_head_dim vocab_size text_config attn_implementation
_attn_implementation attn_logit_softcapping sep_token_id rope_is_neox_style is_neox_style
"""
_DRAFT: Final = """
add_swa_attention_sink_bias attention_sink_bias attention_value_scale block_size causal
confidence_head_with_markov conv_group_size conv_kernel_size dflash_config draft_vocab_size
dspark_bonus_anchor dspark_config dspark_draft_topk eagle_aux_hidden_state_layer_ids eagle_config
emb_dim enable_confidence_head fc_norm final_logit_softcapping gru_hidden_dim has_embed_tokens
has_lm_head has_own_lm_head input_embedding_scale is_causal layer_ids lilicorr_enabled logit_scale
markov_head_type markov_rank mask_token mask_token_id norm_before_fc norm_before_residual
norm_output num_aux_hidden_states num_target_layers output_multiplier pard_token projector_type
ptd_token_id pure_draft_prefix_len sample_from_anchor selector_rank selector_top_k shift_label
swa_window_size target_hidden_size target_layer_ids target_num_hidden_layers use_aux_hidden_state
use_gemma_norm use_swa
"""
_SPECULATORS: Final = """
aux_hidden_state_layer_ids sliding_window_non_causal speculators_config speculators_model_type
speculators_version transformer_layer_config
"""

_TOP: Final = frozenset(f"{_SHAPE} {_DRAFT} {_SPECULATORS}".split())
_INNER: Final = frozenset(f"{_DRAFT} layer_types num_hidden_layers sliding_window".split())


def unread(config: Mapping[str, Any]) -> Iterator[str]:
    """Keys that nobody reads, dotted, in the file's order."""
    for key, value in config.items():
        if key not in _TOP and not key.startswith("dspark_"):
            yield key
        elif key in ("dflash_config", "dspark_config", "eagle_config") and isinstance(value, dict):
            yield from (f"{key}.{name}" for name in value if name not in _INNER)
        elif key in ("transformer_layer_config", "text_config") and isinstance(value, dict):
            yield from (f"{key}.{name}" for name in value if name not in _TOP)
