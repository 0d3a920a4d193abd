/* The GLM-5.2 graph on spine weights in memory, from token ids to logits.
 *
 * model_open reads the spine (everything but routed experts) as stored. A kv_cache holds what one
 * session has seen. model_forward appends n tokens in one chunk; cutting a prompt into chunks of any
 * size changes no bit. The caller holds the engine's compute lock. Forward allocates nothing. */
#ifndef SLUICE_MODEL_MODEL_H
#define SLUICE_MODEL_MODEL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "container/container.h"
#include "experts/executor.h"
#include "kernels/kernels.h"
#include "os/thread_pool.h"

struct model;
struct kv_cache;

struct model_options {
    const struct container *container; /* all borrowed */
    const struct kernel_table *kernels;
    struct thread_pool *pool;
    const struct log *log; /* progress of loading; may be NULL */
    size_t max_rows;       /* largest chunk model_forward will be given */
    size_t context;        /* largest number of positions of any cache */
};

/* Bytes that model_open will hold: weights as stored, tables, scratch for max_rows and context. */
struct model_memory {
    uint64_t weights; /* spine */
    uint64_t tables;  /* RoPE */
    uint64_t scratch; /* activations, scores */
};
void model_memory(const struct model_options *options, struct model_memory *out);

sluice_status model_open(struct model **out, const struct model_options *options, sluice_error *err);
void model_close(struct model **model);

/* The compressed cache: per layer and token latent (kv_lora_rank) and rotated k_rope, and on full layers the
 * indexer key, in blocks of KERNEL_POSITION_BLOCK positions that never move. */
uint64_t kv_cache_bytes(const struct container *container, size_t context);
sluice_status kv_cache_open(struct kv_cache **out, const struct model *model, size_t context, sluice_error *err);
void kv_cache_close(struct kv_cache **cache);
size_t kv_cache_length(const struct kv_cache *cache);          /* positions held */
void kv_cache_truncate(struct kv_cache *cache, size_t length); /* forget positions >= length */

/* What a caller may look at while a chunk passes; any member may be NULL. For tests and tools. */
struct model_trace {
    void (*layer_out)(void *user, uint32_t layer, const float *x, size_t m); /* x [m][hidden] */
    void (*routes)(void *user, uint32_t layer, const uint32_t *ids, const float *weights, size_t m, size_t k);
    /* selected [n_visible] bytes, 1 where the query at position `pos` keeps that position; full and shared layers. */
    void (*selection)(void *user, uint32_t layer, size_t pos, const uint8_t *selected, size_t n_visible);
    void *user;
};

struct model_step {
    const uint32_t *ids; /* [n] */
    size_t n;            /* 1..max_rows */
    float *hidden;       /* [n][hidden_size] after the final norm, or NULL */
    float *logits;       /* [n_logits][vocab_size] of the last n_logits rows, or NULL */
    size_t n_logits;
    const atomic_bool *cancel;       /* checked between layers; may be NULL */
    const struct model_trace *trace; /* may be NULL */
};

/* Appends the tokens to the cache. On failure (SLUICE_IO, SLUICE_CANCELLED, SLUICE_CONTEXT_FULL, SLUICE_INVALID for an
 * id outside the vocabulary, SLUICE_NUMERIC for a logit that is not finite) the cache is as before. */
sluice_status model_forward(struct model *model, struct executor *executor, struct kv_cache *cache,
                            const struct model_step *step, sluice_error *err);

#endif
