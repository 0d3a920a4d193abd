/* Layout of the activations (scratch.h).
 *
 * The walk takes its numbers from the checked container. A buffer that this container or context has no use
 * for has no bytes. */
#include "model/scratch.h"

#include "model/attend.h"
#include "model/attention.h"
#include "model/graph.h"
#include "model/indexer.h"

#define RANGE_ALIGNMENT 64

struct cursor {
    unsigned char *base; /* NULL while measuring */
    uint64_t used;
};

static void *place(struct cursor *cursor, uint64_t n, size_t size)
{
    void *start = cursor->base ? cursor->base + cursor->used : NULL;
    cursor->used += (n * size + RANGE_ALIGNMENT - 1) / RANGE_ALIGNMENT * RANGE_ALIGNMENT;
    return start;
}

static uint64_t round_up(uint64_t n, uint64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Prepared bytes of one input for a group of matrices: once for each kind among them. */
static uint64_t act_bytes(const struct stored_matrix *const *matrices, size_t n, size_t m)
{
    uint64_t bytes = 0;
    unsigned kinds = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(kinds & 1u << matrices[i]->kind)) {
            kinds |= 1u << matrices[i]->kind;
            bytes += kernel_act_bytes(matrices[i]->kind, matrices[i]->cols, m);
        }
    }
    return bytes;
}

#define ACT_BYTES(m, ...)                                    \
    act_bytes((const struct stored_matrix *[]){__VA_ARGS__}, \
              sizeof((const struct stored_matrix *[]){__VA_ARGS__}) / sizeof(struct stored_matrix *), m)

static uint64_t layer_act_bytes(const struct stored_layer *layer, size_t m)
{
    const struct stored_indexer *indexer = &layer->indexer;
    uint64_t bytes = ACT_BYTES(m, &layer->o_proj);
    if (layer->has_indexer) {
        bytes = larger(
            bytes, ACT_BYTES(m, &layer->q_a_proj, &layer->kv_a_proj_with_mqa, &indexer->wk, &indexer->weights_proj));
        bytes = larger(bytes, ACT_BYTES(m, &layer->q_b_proj, &indexer->wq_b));
    } else {
        bytes = larger(bytes, ACT_BYTES(m, &layer->q_a_proj, &layer->kv_a_proj_with_mqa));
        bytes = larger(bytes, ACT_BYTES(m, &layer->q_b_proj));
    }
    if (layer->sparse) {
        return larger(bytes, ACT_BYTES(m, &layer->router));
    }
    bytes = larger(bytes, ACT_BYTES(m, &layer->mlp.gate, &layer->mlp.up));
    return larger(bytes, ACT_BYTES(m, &layer->mlp.down));
}

static uint64_t worker_bytes(const struct model_options *options, size_t score_stride)
{
    const struct container *container = options->container;
    const struct model_config *config = &container->config;
    uint64_t bytes = attend_worker_bytes(config, score_stride);
    if (container->has_indexer) {
        bytes = larger(bytes, indexer_worker_bytes(config));
    }
    for (uint32_t i = 0; i < config->num_hidden_layers; i++) {
        bytes = larger(bytes, attention_worker_bytes(&container->layers[i].kv_b_proj, options->max_rows));
    }
    return round_up(bytes, RANGE_ALIGNMENT);
}

static void place_attention(struct cursor *cursor, const struct model_options *options, struct model_scratch *out)
{
    const struct model_config *config = &options->container->config;
    uint64_t m = options->max_rows;
    uint64_t heads = config->num_attention_heads;
    uint64_t row = (uint64_t)config->kv_lora_rank + config->qk_rope_head_dim;
    out->q_lat = place(cursor, m * config->q_lora_rank, sizeof(float));
    out->kv = place(cursor, m * row, sizeof(float));
    out->q = place(cursor, m * heads * ((uint64_t)config->qk_nope_head_dim + config->qk_rope_head_dim), sizeof(float));
    out->query = place(cursor, m * heads * row, sizeof(float));
    out->value = place(cursor, m * heads * config->v_head_dim, sizeof(float));
}

static void place_indexer(struct cursor *cursor, const struct model_options *options, struct model_scratch *out)
{
    const struct model_config *config = &options->container->config;
    uint64_t m = options->max_rows;
    size_t n_threads = thread_pool_size(options->pool);
    out->index_rows = options->max_rows < n_threads ? options->max_rows : n_threads;
    out->index_stride = round_up(options->context, KERNEL_POSITION_BLOCK);
    out->selected_bytes = place(cursor, options->context, 1);
    if (!options->container->has_indexer) {
        return;
    }
    out->index_key = place(cursor, m * config->index_head_dim, sizeof(float));
    if (options->context <= config->index_topk) {
        return;
    }
    out->index_query = place(cursor, m * config->index_n_heads * config->index_head_dim, sizeof(float));
    out->index_weights = place(cursor, m * config->index_n_heads, sizeof(float));
    out->index_scores = place(cursor, (uint64_t)out->index_rows * out->index_stride, sizeof(float));
    out->selected = place(cursor, m * config->index_topk, sizeof(uint32_t));
}

static void place_mlp(struct cursor *cursor, const struct model_options *options, struct model_scratch *out)
{
    const struct model_config *config = &options->container->config;
    uint64_t m = options->max_rows;
    out->router = place(cursor, m * config->n_routed_experts, sizeof(float));
    out->route_ids = place(cursor, m * config->num_experts_per_tok, sizeof(uint32_t));
    out->route_weights = place(cursor, m * config->num_experts_per_tok, sizeof(float));
    if (config->first_k_dense_replace > 0) {
        out->gate = place(cursor, m * config->intermediate_size, sizeof(float));
        out->up = place(cursor, m * config->intermediate_size, sizeof(float));
    }
}

/* Every buffer, in cursor's memory or only counted. */
static void place_all(struct cursor *cursor, const struct model_options *options, struct model_scratch *out)
{
    const struct container *container = options->container;
    const struct model_config *config = &container->config;
    uint64_t m = options->max_rows;
    out->x = place(cursor, m * config->hidden_size, sizeof(float));
    out->h = place(cursor, m * config->hidden_size, sizeof(float));
    out->branch = place(cursor, m * config->hidden_size, sizeof(float));
    place_attention(cursor, options, out);
    place_indexer(cursor, options, out);
    place_mlp(cursor, options, out);

    uint64_t act = ACT_BYTES(m, &container->lm_head);
    for (uint32_t i = 0; i < config->num_hidden_layers; i++) {
        act = larger(act, layer_act_bytes(&container->layers[i], m));
    }
    out->act = place(cursor, act, 1);

    /* Layer 0 is a full layer, so with an indexer no row ever weighs more than index_topk positions. */
    uint64_t positions = options->context;
    if (container->has_indexer && config->index_topk < positions) {
        positions = config->index_topk;
    }
    out->score_stride = round_up(positions, KERNEL_POSITION_BLOCK);
    out->worker_bytes = worker_bytes(options, out->score_stride);
    out->worker = place(cursor, thread_pool_size(options->pool), out->worker_bytes);
}

uint64_t scratch_bytes(const struct model_options *options)
{
    struct cursor cursor = {0};
    struct model_scratch unused;
    place_all(&cursor, options, &unused);
    return model_page_bytes(cursor.used);
}

sluice_status scratch_open(struct model_scratch *out, const struct model_options *options, sluice_error *err)
{
    struct model_scratch scratch = {0};
    TRY(os_pages_alloc(&scratch.memory, scratch_bytes(options), err));
    struct cursor cursor = {.base = scratch.memory.data};
    place_all(&cursor, options, &scratch);
    *out = scratch;
    return SLUICE_OK;
}

void scratch_close(struct model_scratch *scratch)
{
    os_pages_free(&scratch->memory);
    *scratch = (struct model_scratch){0};
}
