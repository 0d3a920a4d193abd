/* What the parts of the graph share: the open model, and the chunk that passes through its layers. */
#ifndef SLUICE_MODEL_GRAPH_H
#define SLUICE_MODEL_GRAPH_H

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cpu/cpu_device.h"
#include "model/kv_cache.h"
#include "model/model.h"
#include "model/rope.h"
#include "model/scratch.h"
#include "model/spine.h"

struct model {
    struct model_options options;
    const struct model_config *config; /* the container's */
    struct spine spine;
    struct rope_table rope;
    struct model_scratch scratch;
};

/* Rows on their way through the layers; row i is position `position + i`. */
struct chunk {
    struct model *model;
    struct executor *executor;
    struct kv_cache *cache;
    const struct model_trace *trace; /* may be NULL */
    const atomic_bool *cancel;       /* may be NULL */
    size_t m;
    size_t position;
    bool has_selection; /* an indexer has chosen positions for this chunk's rows */
};

/* Positions that row i sees, its own included. */
static inline size_t chunk_visible(const struct chunk *chunk, size_t i)
{
    return chunk->position + i + 1;
}

/* Resident bytes of a mapping at most: whole pages, 64 KiB being the largest ordinary page of any system. */
static inline uint64_t model_page_bytes(uint64_t bytes)
{
    const uint64_t page = 64 << 10;
    return (bytes + page - 1) / page * page;
}

/* f32(1 / sqrt(n)), computed in binary64: the scale of a score over n dimensions. */
static inline float model_inverse_sqrt(uint32_t n)
{
    return (float)(1.0 / sqrt((double)n));
}

/* out [m][products' rows] = w · x for n matrices that share x [m][cols]. */
void chunk_linear(const struct chunk *chunk, const struct cpu_linear *products, size_t n, const float *x, size_t cols);

/* out [m][n] = RMSNorm(x [m][n], weight); out may be x. */
void chunk_rmsnorm(const struct chunk *chunk, const float *x, const float *weight, size_t n, float *out);

/* x [m][hidden_size] of the scratch += branch. */
void chunk_add_branch(const struct chunk *chunk);

/* Runs a task over the pool; short work runs on the calling thread. */
void chunk_run(const struct chunk *chunk, thread_pool_task *task, void *arg, size_t n, size_t grain);

/* Scratch private to a worker inside one job. */
static inline void *chunk_worker(const struct chunk *chunk, unsigned worker)
{
    const struct model_scratch *scratch = &chunk->model->scratch;
    return scratch->worker + worker * scratch->worker_bytes;
}

#endif
