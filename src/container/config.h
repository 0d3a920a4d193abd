/* config.json and generation_config.json of a glm_moe_dsa container: every default and refusal of the graph. */
#ifndef SLUICE_CONTAINER_CONFIG_H
#define SLUICE_CONTAINER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define CONFIG_MAX_LAYERS 512
#define CONFIG_MAX_EOS 16

/* Field names equal the checkpoint's. Every number is bounded and consistent with the others. */
struct model_config {
    uint32_t vocab_size, hidden_size, intermediate_size, moe_intermediate_size;
    uint32_t num_hidden_layers, first_k_dense_replace, num_nextn_predict_layers;
    uint32_t num_attention_heads, q_lora_rank, kv_lora_rank;
    uint32_t qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
    uint32_t n_routed_experts, num_experts_per_tok, n_shared_experts;
    uint32_t index_n_heads, index_head_dim, index_topk;
    uint32_t max_position_embeddings;
    float rms_norm_eps, routed_scaling_factor;
    double rope_theta;
    bool norm_topk_prob;
    uint32_t n_eos;
    uint32_t eos_token_id[CONFIG_MAX_EOS]; /* config and generation_config joined, no id twice */
    bool index_full[CONFIG_MAX_LAYERS];    /* layer runs its own indexer; others use the nearest full layer below */
};

/* Reads `dir`/config.json and, if present, `dir`/generation_config.json. */
sluice_status config_load(struct model_config *out, const char *dir, sluice_error *err);

#endif
