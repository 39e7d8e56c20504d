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
_attn_implementation _name_or_path _sliding_window_pattern architectures attention_bias
attention_dropout attention_k_eq_v attn_implementation attn_logit_softcapping attn_output_gate
auto_map block_auto_adjust_ff_dim block_ffn_dim_multiplier block_multiple_of bos_token_id
chunk_size chunk_size_feed_forward conv_bias conv_kernel conv_L_cache decoder_sparse_step dtype
enable_moe_block eos_token_id expand first_k_dense_replace full_attn_idxs gating global_head_dim
hc_mult head_dim hidden_act hidden_activation hidden_dropout hidden_size
hidden_size_per_layer_input id2label initializer_range intermediate_size is_encoder_decoder
is_neox_style kv_lora_rank label2id layer_norm_epsilon layer_types layers_block_type
linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads linear_num_value_heads
linear_value_head_dim mamba_head_dim mamba_hidden_act mamba_num_heads mamba_proj_bias
mamba_ssm_cache_dtype max_position_embeddings max_window_layers mlp_bias mlp_hidden_act
mlp_layer_types mlp_only_layers model_type moe_apply_router_weight_on_input moe_intermediate_size
moe_latent_size moe_routed_scaling_factor moe_router_logit_softcapping
moe_shared_expert_intermediate_size moe_shared_expert_overlap mtp_layers_block_type n_group
n_groups n_routed_experts n_shared_experts norm_eps norm_topk_prob num_attention_heads
num_attention_heads_per_layer num_experts num_experts_per_tok num_global_key_value_heads
num_hidden_layers num_key_value_heads num_kv_shared_layers num_local_experts num_logits_to_keep
num_nextn_predict_layers output_attentions output_hidden_states output_router_logits pad_token_id
partial_rotary_factor per_layer_config pretraining_tp problem_type q_lora_rank qk_head_dim
qk_nope_head_dim qk_rope_head_dim quantization_config query_pre_attn_scalar
rescale_prenorm_residual residual_in_fp32 return_dict rms_norm_eps rope_interleave
rope_interleaved rope_is_neox_style rope_local_base_freq rope_parameters rope_scaling rope_theta
rotary_dim routed_scaling_factor router_aux_loss_coef router_jitter_noise scale_emb scoring_func
sep_token_id shared_expert_intermediate_size sliding_window ssm_state_size swiglu_alpha
swiglu_limit text_config tie_word_embeddings time_step_floor time_step_limit time_step_max
time_step_min top_k_experts topk_group topk_method torch_dtype transformers_version use_bias
use_bidirectional_attention use_cache use_conv_bias use_double_wide_mlp use_mamba_kernels
use_qk_norm use_sliding_window v_head_dim vocab_size vocab_size_per_layer_input
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
