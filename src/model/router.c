/* Sigmoid routing with a selection bias (router.h). The bias takes part in the choice, never in the weight. */
#include "model/router.h"

#include "model/select.h"

/* Keeps a sum of vanishing scores from dividing by zero. */
#define SUM_EPS 1e-20f

struct route_job {
    const struct chunk *chunk;
    const float *bias; /* [n_routed_experts] */
};

/* weights[rank] of the chosen ids, from scores that are already sigmoids. */
static void weigh_experts(const struct model_config *config, const float *scores, const uint32_t *ids, float *weights)
{
    size_t k = config->num_experts_per_tok;
    float sum = 0.0f;
    for (size_t rank = 0; rank < k; rank++) {
        weights[rank] = scores[ids[rank]];
        sum += weights[rank];
    }
    sum += SUM_EPS;
    for (size_t rank = 0; rank < k; rank++) {
        if (config->norm_topk_prob) {
            weights[rank] /= sum;
        }
        weights[rank] *= config->routed_scaling_factor;
    }
}

static void route_rows(void *arg, unsigned worker, size_t begin, size_t end)
{
    (void)worker;
    const struct route_job *job = arg;
    const struct model *model = job->chunk->model;
    const struct model_config *config = model->config;
    size_t n_experts = config->n_routed_experts;
    size_t k = config->num_experts_per_tok;
    for (size_t i = begin; i < end; i++) {
        float *scores = model->scratch.router + i * n_experts;
        uint32_t *ids = model->scratch.route_ids + i * k;
        model->options.kernels->sigmoid(scores, n_experts);
        select_ranked(scores, job->bias, n_experts, k, ids);
        weigh_experts(config, scores, ids, model->scratch.route_weights + i * k);
    }
}

void router_run(const struct chunk *chunk, uint32_t layer_index)
{
    const struct model *model = chunk->model;
    const struct spine_layer *layer = &model->spine.layers[layer_index];
    struct cpu_linear product = {&layer->router, model->scratch.router, model->config->n_routed_experts};
    chunk_linear(chunk, &product, 1, model->scratch.h, model->config->hidden_size);
    struct route_job job = {chunk, layer->e_score_correction_bias};
    chunk_run(chunk, route_rows, &job, chunk->m, 1);
    if (chunk->trace && chunk->trace->routes) {
        chunk->trace->routes(chunk->trace->user, layer_index, model->scratch.route_ids, model->scratch.route_weights,
                             chunk->m, model->config->num_experts_per_tok);
    }
}
