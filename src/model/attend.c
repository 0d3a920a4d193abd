/* Attention over blocks of cached positions (attend.h). */
#include "model/attend.h"

#include <string.h>

#include "model/indexer.h"

/* Heads that share one pass over the keys; more would crowd the queries out of the nearest cache. */
#define MAX_GROUP 16

struct attend_job {
    const struct chunk *chunk;
    uint32_t layer;
    float scale;     /* f32(1 / sqrt(nope + rope)) */
    size_t group;    /* heads of an item */
    size_t n_groups; /* items of a row */
};

/* One row, heads [head, head + heads). */
struct attend_item {
    const struct attend_job *job;
    float *query; /* [heads][kv_lora_rank + rope] */
    size_t heads;
    const uint32_t *positions; /* [n] ascending; NULL: 0..n-1 */
    size_t n;
    float *scores;  /* worker's, [heads][score_stride] */
    float *partial; /* worker's, [heads][kv_lora_rank] */
};

/* Allowed positions of one block. */
struct key_block {
    size_t block;
    size_t n;
    const uint8_t *index; /* [n] positions inside the block; NULL: 0..n-1 */
    uint8_t list[KERNEL_POSITION_BLOCK];
};

uint64_t attend_worker_bytes(const struct model_config *config, size_t score_stride)
{
    return (uint64_t)MAX_GROUP * (score_stride + config->kv_lora_rank) * sizeof(float);
}

/* The block that holds the item's position number `next`, and how many of its positions follow there. */
static void gather_block(const struct attend_item *item, size_t next, struct key_block *out)
{
    const uint32_t *positions = item->positions;
    out->n = 0;
    if (!positions) {
        size_t left = item->n - next;
        out->block = next / KERNEL_POSITION_BLOCK;
        out->index = NULL;
        out->n = left < KERNEL_POSITION_BLOCK ? left : KERNEL_POSITION_BLOCK;
        return;
    }
    out->block = positions[next] / KERNEL_POSITION_BLOCK;
    out->index = out->list;
    for (; next < item->n && positions[next] / KERNEL_POSITION_BLOCK == out->block; next++) {
        out->list[out->n++] = (uint8_t)(positions[next] % KERNEL_POSITION_BLOCK);
    }
}

static void score_positions(const struct attend_item *item)
{
    const struct attend_job *job = item->job;
    const struct kv_cache *cache = job->chunk->cache;
    const struct model *model = job->chunk->model;
    struct key_block keys;
    for (size_t next = 0; next < item->n; next += keys.n) {
        gather_block(item, next, &keys);
        model->options.kernels->scores(item->query, cache->row, item->heads,
                                       kv_cache_block(cache, job->layer, keys.block), cache->row, keys.index, keys.n,
                                       cache->row, job->scale, item->scores + next, model->scratch.score_stride);
    }
}

/* Turns scores into exponentials and mixes the latents by them into the item's query; sum[h] of the exponentials. */
static void mix_positions(const struct attend_item *item, const float *max, float *sum)
{
    const struct attend_job *job = item->job;
    const struct kv_cache *cache = job->chunk->cache;
    const struct model *model = job->chunk->model;
    const struct kernel_table *kernels = model->options.kernels;
    size_t latent = model->config->kv_lora_rank;
    size_t stride = model->scratch.score_stride;
    struct key_block keys;
    for (size_t next = 0; next < item->n; next += keys.n) {
        gather_block(item, next, &keys);
        for (size_t h = 0; h < item->heads; h++) {
            sum[h] += kernels->exp_sum(item->scores + h * stride + next, keys.n, max[h]);
        }
        kernels->mix(item->scores + next, stride, item->heads, kv_cache_block(cache, job->layer, keys.block),
                     cache->row, keys.index, keys.n, latent, item->partial, latent);
        for (size_t h = 0; h < item->heads; h++) {
            kernels->add(item->query + h * cache->row, item->partial + h * latent, latent);
        }
    }
}

static void attend(const struct attend_item *item)
{
    const struct model *model = item->job->chunk->model;
    size_t row = item->job->chunk->cache->row;
    size_t latent = model->config->kv_lora_rank;
    float max[MAX_GROUP];
    float sum[MAX_GROUP] = {0};
    score_positions(item);
    for (size_t h = 0; h < item->heads; h++) {
        max[h] = model->options.kernels->max(item->scores + h * model->scratch.score_stride, item->n);
        memset(item->query + h * row, 0, latent * sizeof(float));
    }
    mix_positions(item, max, sum);
    for (size_t h = 0; h < item->heads; h++) {
        float *mix = item->query + h * row;
        for (size_t d = 0; d < latent; d++) {
            mix[d] = mix[d] / sum[h];
        }
    }
}

static void attend_items(void *arg, unsigned worker, size_t begin, size_t end)
{
    const struct attend_job *job = arg;
    const struct chunk *chunk = job->chunk;
    const struct model *model = chunk->model;
    size_t n_heads = model->config->num_attention_heads;
    float *scores = chunk_worker(chunk, worker);
    for (size_t i = begin; i < end; i++) {
        size_t row = i / job->n_groups;
        size_t head = i % job->n_groups * job->group;
        struct attend_item item = {
            .job = job,
            .query = model->scratch.query + (row * n_heads + head) * chunk->cache->row,
            .heads = n_heads - head < job->group ? n_heads - head : job->group,
            .positions = indexer_selection(chunk, row),
            .scores = scores,
            .partial = scores + MAX_GROUP * model->scratch.score_stride,
        };
        item.n = item.positions ? model->config->index_topk : chunk_visible(chunk, row);
        attend(&item);
    }
}

/* Heads of an item: as many as share well, but few enough that every thread finds work. */
static size_t group_size(const struct chunk *chunk)
{
    size_t heads = chunk->model->config->num_attention_heads;
    size_t per_thread = heads * chunk->m / thread_pool_size(chunk->model->options.pool);
    size_t group = per_thread < MAX_GROUP ? per_thread : MAX_GROUP;
    if (group > heads) {
        group = heads;
    }
    return group > 0 ? group : 1;
}

void attend_run(const struct chunk *chunk, uint32_t layer)
{
    const struct model_config *config = chunk->model->config;
    struct attend_job job = {
        .chunk = chunk,
        .layer = layer,
        .scale = model_inverse_sqrt(config->qk_nope_head_dim + config->qk_rope_head_dim),
        .group = group_size(chunk),
    };
    job.n_groups = (config->num_attention_heads + job.group - 1) / job.group;
    chunk_run(chunk, attend_items, &job, chunk->m * job.n_groups, 1);
}
