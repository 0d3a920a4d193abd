/* The tensors of the architecture, one line each.
 *
 * A line gives the name after its group's prefix, the form, the two dimensions in terms of the config, the role, and
 * where the resolved descriptor stands inside the group's struct. Groups: the model itself, every layer, dense
 * layers, sparse layers, one routed expert, the indexer of a full layer, and what only the MTP layer has. */
#include "container/layout.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum dim {
    DIM_ONE,
    DIM_VOCAB,
    DIM_HIDDEN,
    DIM_TWO_HIDDEN,
    DIM_INTERMEDIATE,
    DIM_MOE_INTERMEDIATE,
    DIM_SHARED_INTERMEDIATE,
    DIM_EXPERTS,
    DIM_Q_LORA,
    DIM_KV_LORA,
    DIM_KV_LORA_ROPE,
    DIM_HEADS_QK,
    DIM_HEADS_NOPE_V,
    DIM_HEADS_V,
    DIM_INDEX_HEADS,
    DIM_INDEX_HEAD,
    DIM_INDEX_HEADS_HEAD,
};

enum group { GROUP_MODEL, GROUP_LAYER, GROUP_DENSE, GROUP_SPARSE, GROUP_EXPERT, GROUP_INDEXER, GROUP_MTP, GROUP_COUNT };

struct layout_tensor {
    const char *suffix;
    enum layout_form form;
    enum dim rows, cols;
    enum layout_role role;
    size_t offset; /* in struct container, stored_layer, stored_mlp (experts) or stored_mtp */
    enum group group;
};

#define VECTOR(group, base, suffix, field, n, role)                                  \
    {                                                                                \
        suffix, LAYOUT_VECTOR, DIM_ONE, n, role, offsetof(struct base, field), group \
    }
#define MATRIX(group, base, suffix, field, rows, cols, role)                         \
    {                                                                                \
        suffix, LAYOUT_MATRIX, rows, cols, role, offsetof(struct base, field), group \
    }
#define PLAIN(group, base, suffix, field, rows, cols, role)                                \
    {                                                                                      \
        suffix, LAYOUT_PLAIN_MATRIX, rows, cols, role, offsetof(struct base, field), group \
    }

/* clang-format off */
static const struct layout_tensor tensors[] = {
    MATRIX(GROUP_MODEL, container, "model.embed_tokens.weight", embed_tokens, DIM_VOCAB, DIM_HIDDEN, ROLE_EMBEDDING),
    MATRIX(GROUP_MODEL, container, "lm_head.weight", lm_head, DIM_VOCAB, DIM_HIDDEN, ROLE_LM_HEAD),
    VECTOR(GROUP_MODEL, container, "model.norm.weight", norm, DIM_HIDDEN, ROLE_NORMS),

    VECTOR(GROUP_LAYER, stored_layer, "input_layernorm.weight", input_layernorm, DIM_HIDDEN, ROLE_NORMS),
    VECTOR(GROUP_LAYER, stored_layer, "post_attention_layernorm.weight", post_attention_layernorm, DIM_HIDDEN,
           ROLE_NORMS),
    MATRIX(GROUP_LAYER, stored_layer, "self_attn.q_a_proj.weight", q_a_proj, DIM_Q_LORA, DIM_HIDDEN, ROLE_ATTENTION),
    VECTOR(GROUP_LAYER, stored_layer, "self_attn.q_a_layernorm.weight", q_a_layernorm, DIM_Q_LORA, ROLE_NORMS),
    MATRIX(GROUP_LAYER, stored_layer, "self_attn.q_b_proj.weight", q_b_proj, DIM_HEADS_QK, DIM_Q_LORA, ROLE_ATTENTION),
    MATRIX(GROUP_LAYER, stored_layer, "self_attn.kv_a_proj_with_mqa.weight", kv_a_proj_with_mqa, DIM_KV_LORA_ROPE,
           DIM_HIDDEN, ROLE_ATTENTION),
    VECTOR(GROUP_LAYER, stored_layer, "self_attn.kv_a_layernorm.weight", kv_a_layernorm, DIM_KV_LORA, ROLE_NORMS),
    MATRIX(GROUP_LAYER, stored_layer, "self_attn.kv_b_proj.weight", kv_b_proj, DIM_HEADS_NOPE_V, DIM_KV_LORA,
           ROLE_ATTENTION),
    MATRIX(GROUP_LAYER, stored_layer, "self_attn.o_proj.weight", o_proj, DIM_HIDDEN, DIM_HEADS_V, ROLE_ATTENTION),

    MATRIX(GROUP_DENSE, stored_layer, "mlp.gate_proj.weight", mlp.gate, DIM_INTERMEDIATE, DIM_HIDDEN, ROLE_DENSE_MLP),
    MATRIX(GROUP_DENSE, stored_layer, "mlp.up_proj.weight", mlp.up, DIM_INTERMEDIATE, DIM_HIDDEN, ROLE_DENSE_MLP),
    MATRIX(GROUP_DENSE, stored_layer, "mlp.down_proj.weight", mlp.down, DIM_HIDDEN, DIM_INTERMEDIATE, ROLE_DENSE_MLP),

    PLAIN(GROUP_SPARSE, stored_layer, "mlp.gate.weight", router, DIM_EXPERTS, DIM_HIDDEN, ROLE_NORMS),
    VECTOR(GROUP_SPARSE, stored_layer, "mlp.gate.e_score_correction_bias", e_score_correction_bias, DIM_EXPERTS,
           ROLE_NORMS),
    MATRIX(GROUP_SPARSE, stored_layer, "mlp.shared_experts.gate_proj.weight", mlp.gate, DIM_SHARED_INTERMEDIATE,
           DIM_HIDDEN, ROLE_SHARED_EXPERTS),
    MATRIX(GROUP_SPARSE, stored_layer, "mlp.shared_experts.up_proj.weight", mlp.up, DIM_SHARED_INTERMEDIATE,
           DIM_HIDDEN, ROLE_SHARED_EXPERTS),
    MATRIX(GROUP_SPARSE, stored_layer, "mlp.shared_experts.down_proj.weight", mlp.down, DIM_HIDDEN,
           DIM_SHARED_INTERMEDIATE, ROLE_SHARED_EXPERTS),

    MATRIX(GROUP_EXPERT, stored_mlp, "gate_proj.weight", gate, DIM_MOE_INTERMEDIATE, DIM_HIDDEN, ROLE_ROUTED_EXPERTS),
    MATRIX(GROUP_EXPERT, stored_mlp, "up_proj.weight", up, DIM_MOE_INTERMEDIATE, DIM_HIDDEN, ROLE_ROUTED_EXPERTS),
    MATRIX(GROUP_EXPERT, stored_mlp, "down_proj.weight", down, DIM_HIDDEN, DIM_MOE_INTERMEDIATE, ROLE_ROUTED_EXPERTS),

    MATRIX(GROUP_INDEXER, stored_layer, "self_attn.indexer.wq_b.weight", indexer.wq_b, DIM_INDEX_HEADS_HEAD,
           DIM_Q_LORA, ROLE_INDEXER),
    MATRIX(GROUP_INDEXER, stored_layer, "self_attn.indexer.wk.weight", indexer.wk, DIM_INDEX_HEAD, DIM_HIDDEN,
           ROLE_INDEXER),
    MATRIX(GROUP_INDEXER, stored_layer, "self_attn.indexer.weights_proj.weight", indexer.weights_proj,
           DIM_INDEX_HEADS, DIM_HIDDEN, ROLE_INDEXER),
    VECTOR(GROUP_INDEXER, stored_layer, "self_attn.indexer.k_norm.weight", indexer.k_norm_weight, DIM_INDEX_HEAD,
           ROLE_INDEXER),
    VECTOR(GROUP_INDEXER, stored_layer, "self_attn.indexer.k_norm.bias", indexer.k_norm_bias, DIM_INDEX_HEAD,
           ROLE_INDEXER),

    MATRIX(GROUP_MTP, stored_mtp, "eh_proj.weight", eh_proj, DIM_HIDDEN, DIM_TWO_HIDDEN, ROLE_MTP),
    VECTOR(GROUP_MTP, stored_mtp, "enorm.weight", enorm, DIM_HIDDEN, ROLE_MTP),
    VECTOR(GROUP_MTP, stored_mtp, "hnorm.weight", hnorm, DIM_HIDDEN, ROLE_MTP),
    VECTOR(GROUP_MTP, stored_mtp, "shared_head.norm.weight", shared_head_norm, DIM_HIDDEN, ROLE_MTP),
};
/* clang-format on */

#define N_TENSORS (sizeof(tensors) / sizeof(tensors[0]))

/* The config's bounds keep every product far below 2^32. */
static uint32_t dim_value(const struct model_config *c, enum dim dim)
{
    switch (dim) {
    case DIM_ONE:
        return 1;
    case DIM_VOCAB:
        return c->vocab_size;
    case DIM_HIDDEN:
        return c->hidden_size;
    case DIM_TWO_HIDDEN:
        return 2 * c->hidden_size;
    case DIM_INTERMEDIATE:
        return c->intermediate_size;
    case DIM_MOE_INTERMEDIATE:
        return c->moe_intermediate_size;
    case DIM_SHARED_INTERMEDIATE:
        return c->moe_intermediate_size * c->n_shared_experts;
    case DIM_EXPERTS:
        return c->n_routed_experts;
    case DIM_Q_LORA:
        return c->q_lora_rank;
    case DIM_KV_LORA:
        return c->kv_lora_rank;
    case DIM_KV_LORA_ROPE:
        return c->kv_lora_rank + c->qk_rope_head_dim;
    case DIM_HEADS_QK:
        return c->num_attention_heads * (c->qk_nope_head_dim + c->qk_rope_head_dim);
    case DIM_HEADS_NOPE_V:
        return c->num_attention_heads * (c->qk_nope_head_dim + c->v_head_dim);
    case DIM_HEADS_V:
        return c->num_attention_heads * c->v_head_dim;
    case DIM_INDEX_HEADS:
        return c->index_n_heads;
    case DIM_INDEX_HEAD:
        return c->index_head_dim;
    case DIM_INDEX_HEADS_HEAD:
        return c->index_n_heads * c->index_head_dim;
    }
    assert(!"dimension");
    return 0;
}

/* ---- Walking ---------------------------------------------------------------------------------------- */

struct walk {
    const struct model_config *config;
    layout_visitor *visit;
    void *user;
};

static sluice_status visit_group(const struct walk *walk, enum group group, uint32_t layer, uint32_t expert,
                                 const char *prefix, sluice_error *err)
{
    struct layout_place place = {.layer = layer, .expert = expert};
    for (size_t i = 0; i < N_TENSORS; i++) {
        const struct layout_tensor *tensor = &tensors[i];
        if (tensor->group != group) {
            continue;
        }
        place.tensor = tensor;
        place.form = tensor->form;
        place.role = group != GROUP_MODEL && layer == walk->config->num_hidden_layers ? ROLE_MTP : tensor->role;
        place.rows = dim_value(walk->config, tensor->rows);
        place.cols = dim_value(walk->config, tensor->cols);
        snprintf(place.name, sizeof(place.name), "%s%s", prefix, tensor->suffix);
        TRY(walk->visit(walk->user, &place, err));
    }
    return SLUICE_OK;
}

static sluice_status visit_experts(const struct walk *walk, uint32_t layer, sluice_error *err)
{
    char prefix[64];
    for (uint32_t i = 0; i < walk->config->n_routed_experts; i++) {
        snprintf(prefix, sizeof(prefix), "model.layers.%" PRIu32 ".mlp.experts.%" PRIu32 ".", layer, i);
        TRY(visit_group(walk, GROUP_EXPERT, layer, i, prefix, err));
    }
    return SLUICE_OK;
}

static sluice_status visit_layer(const struct walk *walk, uint32_t layer, bool main, bool indexer, sluice_error *err)
{
    char prefix[64];
    snprintf(prefix, sizeof(prefix), "model.layers.%" PRIu32 ".", layer);
    if (main) {
        bool sparse = layer >= walk->config->first_k_dense_replace;
        TRY(visit_group(walk, GROUP_LAYER, layer, 0, prefix, err));
        TRY(visit_group(walk, sparse ? GROUP_SPARSE : GROUP_DENSE, layer, 0, prefix, err));
        if (sparse) {
            TRY(visit_experts(walk, layer, err));
        }
    }
    return indexer ? visit_group(walk, GROUP_INDEXER, layer, 0, prefix, err) : SLUICE_OK;
}

sluice_status layout_visit(const struct model_config *config, unsigned parts, layout_visitor *visit, void *user,
                           sluice_error *err)
{
    const struct walk walk = {config, visit, user};
    if (parts & LAYOUT_MAIN) {
        TRY(visit_group(&walk, GROUP_MODEL, 0, 0, "", err));
    }
    for (uint32_t i = 0; i < config->num_hidden_layers; i++) {
        TRY(visit_layer(&walk, i, parts & LAYOUT_MAIN, (parts & LAYOUT_INDEXER) && config->index_full[i], err));
    }
    if (parts & LAYOUT_MTP) {
        char prefix[64];
        snprintf(prefix, sizeof(prefix), "model.layers.%" PRIu32 ".", config->num_hidden_layers);
        TRY(visit_layer(&walk, config->num_hidden_layers, true, false, err));
        TRY(visit_group(&walk, GROUP_MTP, config->num_hidden_layers, 0, prefix, err));
    }
    return SLUICE_OK;
}

const void *layout_stored(const struct container *container, const struct layout_place *place)
{
    const struct layout_tensor *tensor = place->tensor;
    bool in_mtp = place->layer == container->config.num_hidden_layers;
    const struct stored_layer *layer = in_mtp ? &container->mtp->layer : &container->layers[place->layer];
    const void *base = layer;
    if (tensor->group == GROUP_MODEL) {
        base = container;
    } else if (tensor->group == GROUP_MTP) {
        base = container->mtp;
    } else if (tensor->group == GROUP_EXPERT) {
        base = &layer->experts[place->expert];
    }
    return (const char *)base + tensor->offset;
}

/* ---- Names ------------------------------------------------------------------------------------------ */

static bool group_has(enum group group, const char *suffix)
{
    for (size_t i = 0; i < N_TENSORS; i++) {
        size_t len = strlen(tensors[i].suffix);
        if (tensors[i].group == group && strncmp(suffix, tensors[i].suffix, len) == 0 &&
            (suffix[len] == '\0' || strcmp(suffix + len, ".qs") == 0)) {
            return true;
        }
    }
    return false;
}

bool layout_is_mtp_suffix(const char *suffix)
{
    return group_has(GROUP_MTP, suffix);
}

bool layout_is_indexer_suffix(const char *suffix)
{
    return group_has(GROUP_INDEXER, suffix);
}

const char *layout_role_name(enum layout_role role)
{
    static const char *const names[ROLE_COUNT] = {
        [ROLE_EMBEDDING] = "embedding",
        [ROLE_LM_HEAD] = "lm_head",
        [ROLE_ATTENTION] = "attention",
        [ROLE_INDEXER] = "indexer",
        [ROLE_DENSE_MLP] = "dense mlp",
        [ROLE_SHARED_EXPERTS] = "shared experts",
        [ROLE_NORMS] = "norms and routers",
        [ROLE_ROUTED_EXPERTS] = "routed experts",
        [ROLE_MTP] = "mtp",
    };
    return names[role];
}
