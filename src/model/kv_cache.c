/* Layout and life of the compressed cache (kv_cache.h). */
#include "model/kv_cache.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "model/graph.h"

/* Fills in the sizes of a cache for this container. */
static void lay_out(const struct container *container, struct kv_cache *cache)
{
    const struct model_config *config = &container->config;
    cache->row = (size_t)config->kv_lora_rank + config->qk_rope_head_dim;
    cache->key = config->index_head_dim;
    cache->block = 0;
    for (uint32_t layer = 0; layer < config->num_hidden_layers; layer++) {
        cache->layer_offset[layer] = cache->block;
        cache->block += KERNEL_POSITION_BLOCK * cache->row;
        if (container->layers[layer].has_indexer) {
            cache->block += KERNEL_POSITION_BLOCK * cache->key;
        }
    }
}

static uint64_t mapping_bytes(const struct kv_cache *cache, size_t context)
{
    uint64_t blocks = ((uint64_t)context + KERNEL_POSITION_BLOCK - 1) / KERNEL_POSITION_BLOCK;
    return model_page_bytes(blocks * cache->block * sizeof(float));
}

uint64_t kv_cache_bytes(const struct container *container, size_t context)
{
    struct kv_cache sizes;
    lay_out(container, &sizes);
    return mapping_bytes(&sizes, context) + sizeof(sizes);
}

sluice_status kv_cache_open(struct kv_cache **out, const struct model *model, size_t context, sluice_error *err)
{
    if (context == 0 || context > model->options.context) {
        return error_set(err, SLUICE_INVALID, "cache of %zu positions asked for; the model was opened for 1 to %zu",
                         context, model->options.context);
    }
    struct kv_cache *cache = mem_zalloc(1, sizeof(*cache));
    if (!cache) {
        return error_set(err, SLUICE_NO_MEMORY, "no memory for a cache");
    }
    cache->model = model;
    cache->context = context;
    lay_out(model->options.container, cache);
    sluice_status status = os_pages_alloc(&cache->memory, mapping_bytes(cache, context), err);
    if (status != SLUICE_OK) {
        free(cache);
        return status;
    }
    *out = cache;
    return SLUICE_OK;
}

void kv_cache_close(struct kv_cache **cache)
{
    if (!cache || !*cache) {
        return;
    }
    os_pages_free(&(*cache)->memory);
    free(*cache);
    *cache = NULL;
}

size_t kv_cache_length(const struct kv_cache *cache)
{
    return cache->length;
}

void kv_cache_truncate(struct kv_cache *cache, size_t length)
{
    if (length < cache->length) {
        cache->length = length;
    }
}

float *kv_cache_block(const struct kv_cache *cache, uint32_t layer, size_t block)
{
    return (float *)cache->memory.data + block * cache->block + cache->layer_offset[layer];
}

float *kv_cache_index_block(const struct kv_cache *cache, uint32_t layer, size_t block)
{
    return kv_cache_block(cache, layer, block) + KERNEL_POSITION_BLOCK * cache->row;
}
