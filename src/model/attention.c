/* Multi-head latent attention in its absorbed form (attention.h).
 *
 * kv_b_proj holds, per head, nope rows that make keys and v rows that make values out of a latent. Neither is
 * ever applied to a cached latent: the query is moved into the latent space (absorb) and the mix of latents is
 * taken out of it (the v rows). Both steps run a head at a time over all rows of the chunk, so that a chunk of
 * any size reads kv_b_proj once. */
#include "model/attention.h"

#include <string.h>

#include "model/attend.h"
#include "model/indexer.h"

struct head_job {
    const struct chunk *chunk;
    const struct quant_matrix *kv_b_proj;
};

uint64_t attention_worker_bytes(const struct stored_matrix *kv_b_proj, size_t m)
{
    return kernel_act_bytes(kv_b_proj->kind, kv_b_proj->cols, m);
}

/* h → q_lat, kv and, on full layers, the indexer's key and head weights. */
static void project_down(const struct chunk *chunk, const struct spine_layer *layer)
{
    const struct model_config *config = chunk->model->config;
    const struct model_scratch *scratch = &chunk->model->scratch;
    struct cpu_linear products[4] = {
        {&layer->q_a_proj, scratch->q_lat, config->q_lora_rank},
        {&layer->kv_a_proj_with_mqa, scratch->kv, chunk->cache->row},
    };
    size_t n = 2;
    if (layer->has_indexer) {
        products[n++] = (struct cpu_linear){&layer->indexer.wk, scratch->index_key, config->index_head_dim};
        if (indexer_must_choose(chunk)) {
            products[n++] =
                (struct cpu_linear){&layer->indexer.weights_proj, scratch->index_weights, config->index_n_heads};
        }
    }
    chunk_linear(chunk, products, n, scratch->h, config->hidden_size);
    chunk_rmsnorm(chunk, scratch->q_lat, layer->q_a_layernorm, config->q_lora_rank, scratch->q_lat);
}

/* q_lat → q and, where positions must be chosen, the indexer's queries. */
static void project_queries(const struct chunk *chunk, const struct spine_layer *layer)
{
    const struct model_config *config = chunk->model->config;
    const struct model_scratch *scratch = &chunk->model->scratch;
    struct cpu_linear products[2] = {{&layer->q_b_proj, scratch->q, layer->q_b_proj.rows}};
    size_t n = 1;
    if (layer->has_indexer && indexer_must_choose(chunk)) {
        products[n++] = (struct cpu_linear){&layer->indexer.wq_b, scratch->index_query, layer->indexer.wq_b.rows};
    }
    chunk_linear(chunk, products, n, scratch->q_lat, config->q_lora_rank);
}

/* The normalised latent and the rotated k_rope of every row go to the cache. */
static void append_latents(const struct chunk *chunk, uint32_t layer)
{
    const struct model *model = chunk->model;
    const struct kernel_table *kernels = model->options.kernels;
    const struct rope_table *rope = &model->rope;
    size_t latent = model->config->kv_lora_rank;
    size_t row = chunk->cache->row;
    for (size_t i = 0; i < chunk->m; i++) {
        size_t position = chunk->position + i;
        const float *kv = model->scratch.kv + i * row;
        float *cached = kv_cache_block(chunk->cache, layer, position / KERNEL_POSITION_BLOCK) +
                        position % KERNEL_POSITION_BLOCK * row;
        kernels->rmsnorm(kv, model->spine.layers[layer].kv_a_layernorm, latent, model->config->rms_norm_eps, cached);
        memcpy(cached + latent, kv + latent, (row - latent) * sizeof(float));
        kernels->rope(cached + latent, rope->cosine + position * rope->n_pairs, rope->sine + position * rope->n_pairs,
                      rope->n_pairs);
    }
}

/* q → query: the absorbed nope part, then the rotated rope part. */
static void absorb_heads(void *arg, unsigned worker, size_t begin, size_t end)
{
    (void)worker;
    const struct head_job *job = arg;
    const struct chunk *chunk = job->chunk;
    const struct model *model = chunk->model;
    const struct model_config *config = model->config;
    const struct rope_table *rope = &model->rope;
    size_t nope = config->qk_nope_head_dim;
    size_t latent = config->kv_lora_rank;
    size_t q_stride = config->num_attention_heads * (nope + config->qk_rope_head_dim);
    size_t query_stride = config->num_attention_heads * chunk->cache->row;
    for (size_t head = begin; head < end; head++) {
        const float *q = model->scratch.q + head * (nope + config->qk_rope_head_dim);
        float *query = model->scratch.query + head * chunk->cache->row;
        model->options.kernels->absorb(job->kv_b_proj, head * (nope + config->v_head_dim), nope, 0, latent, q, q_stride,
                                       chunk->m, query, query_stride);
        for (size_t i = 0; i < chunk->m; i++) {
            size_t offset = (chunk->position + i) * rope->n_pairs;
            float *rotated = query + i * query_stride + latent;
            memcpy(rotated, q + i * q_stride + nope, config->qk_rope_head_dim * sizeof(float));
            model->options.kernels->rope(rotated, rope->cosine + offset, rope->sine + offset, rope->n_pairs);
        }
    }
}

/* Rows [row, row + n) of a matrix as a matrix of their own. */
static struct quant_matrix row_range(const struct quant_matrix *w, size_t row, size_t n)
{
    struct quant_matrix range = *w;
    range.rows = (uint32_t)n;
    range.weights = (const unsigned char *)w->weights + row * quant_row_bytes(w->kind, w->cols);
    if (w->scales) {
        range.scales = w->scales + row * quant_row_scales(w->kind, w->cols, w->group);
    }
    return range;
}

/* The mix of latents in query → value. */
static void value_heads(void *arg, unsigned worker, size_t begin, size_t end)
{
    const struct head_job *job = arg;
    const struct chunk *chunk = job->chunk;
    const struct model_config *config = chunk->model->config;
    const struct kernel_table *kernels = chunk->model->options.kernels;
    size_t v = config->v_head_dim;
    size_t n_heads = config->num_attention_heads;
    void *act = chunk_worker(chunk, worker);
    for (size_t head = begin; head < end; head++) {
        size_t first = head * (config->qk_nope_head_dim + v) + config->qk_nope_head_dim;
        struct quant_matrix rows = row_range(job->kv_b_proj, first, v);
        kernels->prepare(rows.kind, chunk->model->scratch.query + head * chunk->cache->row, n_heads * chunk->cache->row,
                         chunk->m, rows.cols, act);
        kernels->matmul(&rows, 0, v, act, chunk->m, chunk->model->scratch.value + head * v, n_heads * v);
    }
}

void attention_run(struct chunk *chunk, uint32_t layer_index)
{
    const struct spine_layer *layer = &chunk->model->spine.layers[layer_index];
    const struct model_config *config = chunk->model->config;
    const struct model_scratch *scratch = &chunk->model->scratch;
    struct head_job job = {chunk, &layer->kv_b_proj};
    project_down(chunk, layer);
    project_queries(chunk, layer);
    append_latents(chunk, layer_index);
    if (layer->has_indexer) {
        indexer_append_keys(chunk, layer_index);
        if (indexer_must_choose(chunk)) {
            indexer_choose(chunk, layer_index);
        }
    }
    indexer_trace(chunk, layer_index);
    chunk_run(chunk, absorb_heads, &job, config->num_attention_heads, 1);
    attend_run(chunk, layer_index);
    chunk_run(chunk, value_heads, &job, config->num_attention_heads, 1);
    struct cpu_linear output = {&layer->o_proj, scratch->branch, config->hidden_size};
    chunk_linear(chunk, &output, 1, scratch->value, layer->o_proj.cols);
}
