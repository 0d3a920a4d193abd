/* The compressed cache of one session, as the model's parts see it (model.h has the public half).
 *
 * A block holds KERNEL_POSITION_BLOCK positions of all layers: for each layer a matrix [64][kv_lora_rank + rope]
 * of latent and rotated k_rope, and behind it, on layers with an indexer, a matrix [64][index_head_dim] of keys.
 * Blocks lie one after another in one reserved mapping: a longer context touches further pages, moves nothing
 * and allocates nothing. Rows at or beyond `length` are unspecified. */
#ifndef SLUICE_MODEL_KV_CACHE_H
#define SLUICE_MODEL_KV_CACHE_H

#include <stddef.h>

#include "container/container.h"
#include "model/model.h"
#include "os/pages.h"

struct kv_cache {
    const struct model *model;
    size_t context;                         /* positions it can hold */
    size_t length;                          /* positions it holds */
    size_t row;                             /* floats of one position of one layer: kv_lora_rank + qk_rope_head_dim */
    size_t key;                             /* floats of one indexer key */
    size_t block;                           /* floats of one block, all layers */
    size_t layer_offset[CONFIG_MAX_LAYERS]; /* floats from a block's start to the layer's matrix */
    struct os_pages memory;
};

/* The layer's matrix of a block: rows of cache->row floats. */
float *kv_cache_block(const struct kv_cache *cache, uint32_t layer, size_t block);
/* The layer's indexer keys of a block: rows of cache->key floats. */
float *kv_cache_index_block(const struct kv_cache *cache, uint32_t layer, size_t block);

#endif
