/* Norm, attention, residual; norm, feed-forward, residual (layer.h). */
#include "model/layer.h"

#include "model/attention.h"
#include "model/router.h"

/* Values of one call of the activation: enough to be worth a thread's while. */
#define GRAIN_VALUES 2048

static void silu_values(void *arg, unsigned worker, size_t begin, size_t end)
{
    (void)worker;
    const struct chunk *chunk = arg;
    const struct model_scratch *scratch = &chunk->model->scratch;
    chunk->model->options.kernels->silu_mul(scratch->gate + begin, scratch->up + begin, end - begin,
                                            scratch->gate + begin);
}

/* branch = down(silu(gate h) * up h) */
static void feed_dense(const struct chunk *chunk, const struct spine_layer *layer)
{
    const struct model_scratch *scratch = &chunk->model->scratch;
    size_t hidden = chunk->model->config->hidden_size;
    size_t intermediate = layer->mlp.gate.rows;
    struct cpu_linear in[2] = {
        {&layer->mlp.gate, scratch->gate, intermediate},
        {&layer->mlp.up, scratch->up, intermediate},
    };
    struct cpu_linear out = {&layer->mlp.down, scratch->branch, hidden};
    chunk_linear(chunk, in, 2, scratch->h, hidden);
    chunk_run(chunk, silu_values, (void *)chunk, chunk->m * intermediate, GRAIN_VALUES);
    chunk_linear(chunk, &out, 1, scratch->gate, intermediate);
}

/* branch = sum of weight · expert(h) over ranks, + shared(h) */
static sluice_status feed_sparse(const struct chunk *chunk, uint32_t layer_index, sluice_error *err)
{
    const struct model_scratch *scratch = &chunk->model->scratch;
    const struct spine_layer *layer = &chunk->model->spine.layers[layer_index];
    router_run(chunk, layer_index);
    struct expert_batch batch = {
        .layer = layer_index,
        .m = chunk->m,
        .k = chunk->model->config->num_experts_per_tok,
        .x = scratch->h,
        .ids = scratch->route_ids,
        .weights = scratch->route_weights,
        .shared = &layer->mlp,
        .out = scratch->branch,
        .cancel = chunk->cancel,
    };
    return executor_run(chunk->executor, &batch, err);
}

sluice_status layer_forward(struct chunk *chunk, uint32_t layer_index, sluice_error *err)
{
    const struct model_scratch *scratch = &chunk->model->scratch;
    const struct spine_layer *layer = &chunk->model->spine.layers[layer_index];
    size_t hidden = chunk->model->config->hidden_size;

    chunk_rmsnorm(chunk, scratch->x, layer->input_layernorm, hidden, scratch->h);
    attention_run(chunk, layer_index);
    chunk_add_branch(chunk);

    chunk_rmsnorm(chunk, scratch->x, layer->post_attention_layernorm, hidden, scratch->h);
    if (layer->sparse) {
        TRY(feed_sparse(chunk, layer_index, err));
    } else {
        feed_dense(chunk, layer);
    }
    chunk_add_branch(chunk);

    if (chunk->trace && chunk->trace->layer_out) {
        chunk->trace->layer_out(chunk->trace->user, layer_index, scratch->x, chunk->m);
    }
    return SLUICE_OK;
}
