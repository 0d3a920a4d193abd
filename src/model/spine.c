/* Laying out and reading the spine.
 *
 * One walk visits every tensor in the order of the graph. With no memory given it only adds up sizes; with
 * memory it reads each tensor to its place. So the plan cannot differ from what is loaded. */
#include "model/spine.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "model/graph.h"

#define RANGE_ALIGNMENT 64

struct loader {
    const struct container *container;
    const struct log *log;
    unsigned char *base; /* NULL while measuring */
    uint64_t used;
    uint64_t total; /* for progress; unknown while measuring */
};

/* The next range of the mapping; NULL while measuring. */
static void *place(struct loader *loader, uint64_t bytes)
{
    void *start = loader->base ? loader->base + loader->used : NULL;
    loader->used += (bytes + RANGE_ALIGNMENT - 1) / RANGE_ALIGNMENT * RANGE_ALIGNMENT;
    return start;
}

static sluice_status load_matrix(struct loader *loader, const struct stored_matrix *stored, struct quant_matrix *out,
                                 sluice_error *err)
{
    uint64_t n_scales = (uint64_t)stored->rows * quant_row_scales(stored->kind, stored->cols, stored->group);
    void *weights = place(loader, (uint64_t)stored->rows * quant_row_bytes(stored->kind, stored->cols));
    float *scales = place(loader, n_scales * sizeof(float));
    if (!loader->base) {
        return SLUICE_OK;
    }
    TRY(container_read_matrix(loader->container, stored, weights, n_scales ? scales : NULL, out, err));
    log_progress(loader->log, "loading", loader->used, loader->total);
    return SLUICE_OK;
}

static sluice_status load_vector(struct loader *loader, const struct stored_vector *stored, const float **out,
                                 sluice_error *err)
{
    float *values = place(loader, (uint64_t)stored->n * sizeof(float));
    if (!loader->base) {
        return SLUICE_OK;
    }
    TRY(container_read_f32(loader->container, &stored->data, stored->n, values, err));
    *out = values;
    return SLUICE_OK;
}

static sluice_status load_mlp(struct loader *loader, const struct stored_mlp *stored, struct expert_weights *out,
                              sluice_error *err)
{
    TRY(load_matrix(loader, &stored->gate, &out->gate, err));
    TRY(load_matrix(loader, &stored->up, &out->up, err));
    return load_matrix(loader, &stored->down, &out->down, err);
}

static sluice_status load_indexer(struct loader *loader, const struct stored_indexer *stored, struct spine_indexer *out,
                                  sluice_error *err)
{
    TRY(load_matrix(loader, &stored->wq_b, &out->wq_b, err));
    TRY(load_matrix(loader, &stored->wk, &out->wk, err));
    TRY(load_matrix(loader, &stored->weights_proj, &out->weights_proj, err));
    TRY(load_vector(loader, &stored->k_norm_weight, &out->k_norm_weight, err));
    return load_vector(loader, &stored->k_norm_bias, &out->k_norm_bias, err);
}

static sluice_status load_attention(struct loader *loader, const struct stored_layer *stored, struct spine_layer *out,
                                    sluice_error *err)
{
    TRY(load_vector(loader, &stored->input_layernorm, &out->input_layernorm, err));
    TRY(load_matrix(loader, &stored->q_a_proj, &out->q_a_proj, err));
    TRY(load_vector(loader, &stored->q_a_layernorm, &out->q_a_layernorm, err));
    TRY(load_matrix(loader, &stored->q_b_proj, &out->q_b_proj, err));
    TRY(load_matrix(loader, &stored->kv_a_proj_with_mqa, &out->kv_a_proj_with_mqa, err));
    TRY(load_vector(loader, &stored->kv_a_layernorm, &out->kv_a_layernorm, err));
    TRY(load_matrix(loader, &stored->kv_b_proj, &out->kv_b_proj, err));
    TRY(load_matrix(loader, &stored->o_proj, &out->o_proj, err));
    out->has_indexer = stored->has_indexer;
    return stored->has_indexer ? load_indexer(loader, &stored->indexer, &out->indexer, err) : SLUICE_OK;
}

static sluice_status load_layer(struct loader *loader, const struct stored_layer *stored, struct spine_layer *out,
                                sluice_error *err)
{
    TRY(load_attention(loader, stored, out, err));
    TRY(load_vector(loader, &stored->post_attention_layernorm, &out->post_attention_layernorm, err));
    out->sparse = stored->sparse;
    TRY(load_mlp(loader, &stored->mlp, &out->mlp, err));
    if (!stored->sparse) {
        return SLUICE_OK;
    }
    TRY(load_matrix(loader, &stored->router, &out->router, err));
    return load_vector(loader, &stored->e_score_correction_bias, &out->e_score_correction_bias, err);
}

/* Visits every tensor. Measuring needs no layers: one record is overwritten again and again. */
static sluice_status load_all(struct loader *loader, struct spine *spine, sluice_error *err)
{
    const struct container *container = loader->container;
    TRY(load_matrix(loader, &container->embed_tokens, &spine->embed_tokens, err));
    for (uint32_t i = 0; i < container->config.num_hidden_layers; i++) {
        struct spine_layer unused;
        TRY(load_layer(loader, &container->layers[i], spine->layers ? &spine->layers[i] : &unused, err));
    }
    TRY(load_vector(loader, &container->norm, &spine->norm, err));
    return load_matrix(loader, &container->lm_head, &spine->lm_head, err);
}

static uint64_t mapping_bytes(const struct container *container)
{
    struct loader loader = {.container = container};
    struct spine unused = {0};
    (void)load_all(&loader, &unused, NULL);
    return loader.used;
}

uint64_t spine_bytes(const struct container *container)
{
    return model_page_bytes(mapping_bytes(container)) +
           (uint64_t)container->config.num_hidden_layers * sizeof(struct spine_layer);
}

sluice_status spine_open(struct spine *out, const struct container *container, const struct log *log, sluice_error *err)
{
    struct spine spine = {0};
    struct loader loader = {.container = container, .log = log, .total = mapping_bytes(container)};
    sluice_status status;
    spine.layers = mem_zalloc(container->config.num_hidden_layers, sizeof(*spine.layers));
    if (!spine.layers) {
        status = error_set(err, SLUICE_NO_MEMORY, "no memory for the layer table");
        goto fail;
    }
    status = os_pages_alloc(&spine.memory, model_page_bytes(loader.total), err);
    if (status != SLUICE_OK) {
        goto fail;
    }
    loader.base = spine.memory.data;
    status = load_all(&loader, &spine, err);
    if (status != SLUICE_OK) {
        goto fail;
    }
    *out = spine;
    return SLUICE_OK;
fail:
    spine_close(&spine);
    return status;
}

void spine_close(struct spine *spine)
{
    os_pages_free(&spine->memory);
    free(spine->layers);
    *spine = (struct spine){0};
}
