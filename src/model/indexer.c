/* Scores and choice of positions (indexer.h).
 *
 * A few rows are scored at a time, so that the score buffer stays small: first all their blocks of positions in
 * parallel, then the selection, a row to a thread. */
#include "model/indexer.h"

#include <string.h>

#include "model/select.h"

#define LAYERNORM_EPS 1e-6f

/* Blocks of positions that one call of a task scores. */
#define GRAIN_BLOCKS 4

struct indexer_job {
    const struct chunk *chunk;
    uint32_t layer;
    size_t first_row; /* of the rows in hand */
    size_t n_blocks;  /* blocks that the last of them sees */
    float dim_scale;  /* f32(index_head_dim^-1/2) */
    float head_scale; /* f32(index_n_heads^-1/2) */
};

uint64_t indexer_worker_bytes(const struct model_config *config)
{
    return (uint64_t)config->index_n_heads * KERNEL_POSITION_BLOCK * sizeof(float);
}

bool indexer_must_choose(const struct chunk *chunk)
{
    return chunk_visible(chunk, chunk->m - 1) > chunk->model->config->index_topk;
}

const uint32_t *indexer_selection(const struct chunk *chunk, size_t i)
{
    size_t topk = chunk->model->config->index_topk;
    bool chosen = chunk->has_selection && chunk_visible(chunk, i) > topk;
    return chosen ? chunk->model->scratch.selected + i * topk : NULL;
}

static void rotate(const struct chunk *chunk, size_t row, float *x)
{
    const struct rope_table *rope = &chunk->model->rope;
    size_t offset = (chunk->position + row) * rope->n_pairs;
    chunk->model->options.kernels->rope(x, rope->cosine + offset, rope->sine + offset, rope->n_pairs);
}

void indexer_append_keys(const struct chunk *chunk, uint32_t layer)
{
    const struct model *model = chunk->model;
    const struct spine_indexer *indexer = &model->spine.layers[layer].indexer;
    size_t dim = model->config->index_head_dim;
    for (size_t i = 0; i < chunk->m; i++) {
        size_t position = chunk->position + i;
        float *key = kv_cache_index_block(chunk->cache, layer, position / KERNEL_POSITION_BLOCK) +
                     position % KERNEL_POSITION_BLOCK * dim;
        model->options.kernels->layernorm(model->scratch.index_key + i * dim, indexer->k_norm_weight,
                                          indexer->k_norm_bias, dim, LAYERNORM_EPS, key);
        rotate(chunk, i, key);
    }
}

static void rotate_queries(void *arg, unsigned worker, size_t begin, size_t end)
{
    (void)worker;
    const struct indexer_job *job = arg;
    const struct model_config *config = job->chunk->model->config;
    size_t heads = config->index_n_heads;
    for (size_t i = begin; i < end; i++) {
        float *query = job->chunk->model->scratch.index_query + i * heads * config->index_head_dim;
        for (size_t h = 0; h < heads; h++) {
            rotate(job->chunk, i, query + h * config->index_head_dim);
        }
    }
}

/* Scores the positions of one block for one row. */
static void score_block(const struct indexer_job *job, size_t row, size_t block, float *head_scores)
{
    const struct chunk *chunk = job->chunk;
    const struct model *model = chunk->model;
    const struct model_scratch *scratch = &model->scratch;
    size_t heads = model->config->index_n_heads;
    size_t dim = model->config->index_head_dim;
    size_t start = block * KERNEL_POSITION_BLOCK;
    size_t visible = chunk_visible(chunk, row);
    if (start >= visible) {
        return;
    }
    size_t n = visible - start < KERNEL_POSITION_BLOCK ? visible - start : KERNEL_POSITION_BLOCK;
    model->options.kernels->scores(scratch->index_query + row * heads * dim, dim, heads,
                                   kv_cache_index_block(chunk->cache, job->layer, block), dim, NULL, n, dim,
                                   job->dim_scale, head_scores, KERNEL_POSITION_BLOCK);
    model->options.kernels->index_combine(
        scratch->index_weights + row * heads, heads, head_scores, KERNEL_POSITION_BLOCK, n, job->head_scale,
        scratch->index_scores + (row - job->first_row) * scratch->index_stride + start);
}

/* Items are (row, block) pairs, the blocks of a row together. */
static void score_blocks(void *arg, unsigned worker, size_t begin, size_t end)
{
    const struct indexer_job *job = arg;
    float *head_scores = chunk_worker(job->chunk, worker);
    for (size_t i = begin; i < end; i++) {
        score_block(job, job->first_row + i / job->n_blocks, i % job->n_blocks, head_scores);
    }
}

static void choose_rows(void *arg, unsigned worker, size_t begin, size_t end)
{
    (void)worker;
    const struct indexer_job *job = arg;
    const struct model_scratch *scratch = &job->chunk->model->scratch;
    size_t topk = job->chunk->model->config->index_topk;
    for (size_t i = begin; i < end; i++) {
        size_t row = job->first_row + i;
        select_positions(scratch->index_scores + i * scratch->index_stride, chunk_visible(job->chunk, row), topk,
                         scratch->selected + row * topk);
    }
}

void indexer_choose(struct chunk *chunk, uint32_t layer)
{
    const struct model_config *config = chunk->model->config;
    struct indexer_job job = {
        .chunk = chunk,
        .layer = layer,
        .dim_scale = model_inverse_sqrt(config->index_head_dim),
        .head_scale = model_inverse_sqrt(config->index_n_heads),
    };
    /* Rows that see no more than index_topk positions come first, if there are any, and need no choice. */
    if (config->index_topk > chunk->position) {
        job.first_row = config->index_topk - chunk->position;
    }
    chunk_run(chunk, rotate_queries, &job, chunk->m, 1);
    while (job.first_row < chunk->m) {
        size_t left = chunk->m - job.first_row;
        size_t n_rows = left < chunk->model->scratch.index_rows ? left : chunk->model->scratch.index_rows;
        size_t most = chunk_visible(chunk, job.first_row + n_rows - 1);
        job.n_blocks = (most + KERNEL_POSITION_BLOCK - 1) / KERNEL_POSITION_BLOCK;
        chunk_run(chunk, score_blocks, &job, n_rows * job.n_blocks, GRAIN_BLOCKS);
        chunk_run(chunk, choose_rows, &job, n_rows, 1);
        job.first_row += n_rows;
    }
    chunk->has_selection = true;
}

void indexer_trace(const struct chunk *chunk, uint32_t layer)
{
    if (!chunk->trace || !chunk->trace->selection) {
        return;
    }
    uint8_t *bytes = chunk->model->scratch.selected_bytes;
    for (size_t i = 0; i < chunk->m; i++) {
        size_t visible = chunk_visible(chunk, i);
        const uint32_t *positions = indexer_selection(chunk, i);
        memset(bytes, positions ? 0 : 1, visible);
        for (size_t j = 0; positions && j < chunk->model->config->index_topk; j++) {
            bytes[positions[j]] = 1;
        }
        chunk->trace->selection(chunk->trace->user, layer, chunk->position + i, bytes, visible);
    }
}
