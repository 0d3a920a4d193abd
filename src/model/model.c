/* Opening a model and passing a chunk of tokens through it (model.h). */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/graph.h"
#include "model/layer.h"

/* Columns that the absorb kernel takes at once. */
#define ABSORB_COLUMNS 8

void model_memory(const struct model_options *options, struct model_memory *out)
{
    size_t rope_dims = options->container->config.qk_rope_head_dim;
    out->weights = spine_bytes(options->container);
    out->tables = rope_table_bytes(options->context, rope_dims) + sizeof(struct model);
    out->scratch = scratch_bytes(options);
}

static sluice_status check_options(const struct model_options *options, sluice_error *err)
{
    const struct model_config *config = &options->container->config;
    uint32_t most = config->max_position_embeddings;
    if (options->max_rows == 0) {
        return error_set(err, SLUICE_INVALID, "a chunk must have at least one row");
    }
    if (options->context == 0 || options->context > most) {
        return error_set(err, SLUICE_INVALID, "context %zu: this model takes 1 to %u positions", options->context,
                         most);
    }
    if (config->kv_lora_rank % ABSORB_COLUMNS != 0) {
        return error_set(err, SLUICE_UNSUPPORTED, "kv_lora_rank is %u, only multiples of %d are supported",
                         config->kv_lora_rank, ABSORB_COLUMNS);
    }
    return SLUICE_OK;
}

sluice_status model_open(struct model **out, const struct model_options *options, sluice_error *err)
{
    const struct model_config *config = &options->container->config;
    TRY(check_options(options, err));
    struct model *model = mem_zalloc(1, sizeof(*model));
    if (!model) {
        return error_set(err, SLUICE_NO_MEMORY, "no memory for a model");
    }
    model->options = *options;
    model->config = config;
    sluice_status status = scratch_open(&model->scratch, options, err);
    if (status != SLUICE_OK) {
        goto fail;
    }
    status = rope_table_open(&model->rope, options->context, config->qk_rope_head_dim, config->rope_theta,
                             options->pool, err);
    if (status != SLUICE_OK) {
        goto fail;
    }
    status = spine_open(&model->spine, options->container, options->log, err);
    if (status != SLUICE_OK) {
        goto fail;
    }
    *out = model;
    return SLUICE_OK;
fail:
    model_close(&model);
    return status;
}

void model_close(struct model **model)
{
    if (!model || !*model) {
        return;
    }
    spine_close(&(*model)->spine);
    rope_table_close(&(*model)->rope);
    scratch_close(&(*model)->scratch);
    free(*model);
    *model = NULL;
}

static sluice_status check_step(const struct model *model, const struct kv_cache *cache, const struct model_step *step,
                                sluice_error *err)
{
    if (step->n == 0 || step->n > model->options.max_rows) {
        return error_set(err, SLUICE_INVALID, "a chunk of %zu tokens: this model takes 1 to %zu at once", step->n,
                         model->options.max_rows);
    }
    if (step->n_logits > step->n || (step->n_logits > 0 && !step->logits)) {
        return error_set(err, SLUICE_INVALID, "logits of %zu rows asked for in a chunk of %zu", step->n_logits,
                         step->n);
    }
    if (cache->model != model) {
        return error_set(err, SLUICE_INVALID, "the cache belongs to another model");
    }
    for (size_t i = 0; i < step->n; i++) {
        if (step->ids[i] >= model->config->vocab_size) {
            return error_set(err, SLUICE_INVALID, "token id %u at position %zu is not below the vocabulary's %u",
                             step->ids[i], cache->length + i, model->config->vocab_size);
        }
    }
    if (step->n > cache->context - cache->length) {
        return error_set(err, SLUICE_CONTEXT_FULL, "%zu tokens do not fit: the context holds %zu of %zu", step->n,
                         cache->length, cache->context);
    }
    return SLUICE_OK;
}

struct embed_job {
    const struct model *model;
    const uint32_t *ids;
};

static void embed_rows(void *arg, unsigned worker, size_t begin, size_t end)
{
    (void)worker;
    const struct embed_job *job = arg;
    const struct model *model = job->model;
    for (size_t i = begin; i < end; i++) {
        model->options.kernels->dequant_row(&model->spine.embed_tokens, job->ids[i],
                                            model->scratch.x + i * model->config->hidden_size);
    }
}

static sluice_status run_layers(struct chunk *chunk, sluice_error *err)
{
    for (uint32_t layer = 0; layer < chunk->model->config->num_hidden_layers; layer++) {
        if (chunk->cancel && atomic_load_explicit(chunk->cancel, memory_order_relaxed)) {
            return error_set(err, SLUICE_CANCELLED, "cancelled before layer %u", layer);
        }
        TRY(layer_forward(chunk, layer, err));
    }
    return SLUICE_OK;
}

static bool all_finite(const float *x, size_t n)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof(bits));
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

/* The final norm, and lm_head for the rows whose logits are wanted. */
static sluice_status finish(const struct chunk *chunk, const struct model_step *step, sluice_error *err)
{
    const struct model *model = chunk->model;
    size_t hidden = model->config->hidden_size;
    size_t vocab = model->config->vocab_size;
    size_t first = chunk->m - step->n_logits;
    chunk_rmsnorm(chunk, model->scratch.x, model->spine.norm, hidden, model->scratch.h);
    if (step->hidden) {
        memcpy(step->hidden, model->scratch.h, chunk->m * hidden * sizeof(float));
    }
    if (step->n_logits == 0) {
        return SLUICE_OK;
    }
    struct cpu_linear product = {&model->spine.lm_head, step->logits, vocab};
    cpu_linear_run(model->options.kernels, model->options.pool, &product, 1, model->scratch.h + first * hidden, hidden,
                   step->n_logits, model->scratch.act);
    for (size_t i = 0; i < step->n_logits; i++) {
        if (!all_finite(step->logits + i * vocab, vocab)) {
            return error_set(err, SLUICE_NUMERIC, "the logits after the token at position %zu are not finite",
                             chunk->position + first + i);
        }
    }
    return SLUICE_OK;
}

sluice_status model_forward(struct model *model, struct executor *executor, struct kv_cache *cache,
                            const struct model_step *step, sluice_error *err)
{
    TRY(check_step(model, cache, step, err));
    struct chunk chunk = {
        .model = model,
        .executor = executor,
        .cache = cache,
        .trace = step->trace,
        .cancel = step->cancel,
        .m = step->n,
        .position = cache->length,
    };
    struct embed_job embed = {model, step->ids};
    chunk_run(&chunk, embed_rows, &embed, chunk.m, 1);
    TRY(run_layers(&chunk, err));
    TRY(finish(&chunk, step, err));
    cache->length += step->n; /* only now: whatever failed above left rows that nobody will read */
    return SLUICE_OK;
}
