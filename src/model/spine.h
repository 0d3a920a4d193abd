/* The spine: every weight that is not a routed expert, in memory as stored.
 *
 * int8 and int4 stay what they are; BF16 and F16 become F32. All of it lies in one mapping, each range on a
 * 64-byte boundary. Norms, router, biases and scales are checked to be finite while they are read. */
#ifndef SLUICE_MODEL_SPINE_H
#define SLUICE_MODEL_SPINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "container/container.h"
#include "os/pages.h"
#include "quant/matrix.h"

struct spine_indexer {
    struct quant_matrix wq_b;         /* [index_n_heads * index_head_dim][q_lora_rank] */
    struct quant_matrix wk;           /* [index_head_dim][hidden_size] */
    struct quant_matrix weights_proj; /* [index_n_heads][hidden_size] */
    const float *k_norm_weight;       /* [index_head_dim] */
    const float *k_norm_bias;         /* [index_head_dim] */
};

struct spine_layer {
    bool sparse;
    bool has_indexer;
    const float *input_layernorm;           /* [hidden_size] */
    const float *post_attention_layernorm;  /* [hidden_size] */
    const float *q_a_layernorm;             /* [q_lora_rank] */
    const float *kv_a_layernorm;            /* [kv_lora_rank] */
    struct quant_matrix q_a_proj;           /* [q_lora_rank][hidden_size] */
    struct quant_matrix q_b_proj;           /* [heads * (nope + rope)][q_lora_rank] */
    struct quant_matrix kv_a_proj_with_mqa; /* [kv_lora_rank + rope][hidden_size] */
    struct quant_matrix kv_b_proj;          /* [heads * (nope + v)][kv_lora_rank] */
    struct quant_matrix o_proj;             /* [hidden_size][heads * v] */
    struct spine_indexer indexer;           /* if has_indexer */
    struct expert_weights mlp;              /* the MLP of a dense layer, the shared expert of a sparse one */
    struct quant_matrix router;             /* sparse: [n_routed_experts][hidden_size], F32 */
    const float *e_score_correction_bias;   /* sparse: [n_routed_experts] */
};

struct spine {
    struct quant_matrix embed_tokens; /* [vocab_size][hidden_size] */
    struct quant_matrix lm_head;      /* [vocab_size][hidden_size] */
    const float *norm;                /* [hidden_size] */
    struct spine_layer *layers;       /* [num_hidden_layers], owned */
    struct os_pages memory;
};

uint64_t spine_bytes(const struct container *container);

/* Reads everything. log (may be NULL) hears of the progress in bytes. */
sluice_status spine_open(struct spine *out, const struct container *container, const struct log *log,
                         sluice_error *err);
void spine_close(struct spine *spine); /* safe on a zeroed one */

#endif
