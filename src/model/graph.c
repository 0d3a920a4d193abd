/* Row-wise steps that several parts of the graph need (graph.h). */
#include "model/graph.h"

void chunk_run(const struct chunk *chunk, thread_pool_task *task, void *arg, size_t n, size_t grain)
{
    if (n <= grain) {
        task(arg, 0, 0, n);
    } else {
        thread_pool_run(chunk->model->options.pool, task, arg, n, grain);
    }
}

void chunk_linear(const struct chunk *chunk, const struct cpu_linear *products, size_t n, const float *x, size_t cols)
{
    const struct model *model = chunk->model;
    cpu_linear_run(model->options.kernels, model->options.pool, products, n, x, cols, chunk->m, model->scratch.act);
}

struct norm_job {
    const struct chunk *chunk;
    const float *x;
    const float *weight;
    size_t n;
    float *out;
};

static void norm_rows(void *arg, unsigned worker, size_t begin, size_t end)
{
    (void)worker;
    const struct norm_job *job = arg;
    const struct model *model = job->chunk->model;
    for (size_t i = begin; i < end; i++) {
        model->options.kernels->rmsnorm(job->x + i * job->n, job->weight, job->n, model->config->rms_norm_eps,
                                        job->out + i * job->n);
    }
}

void chunk_rmsnorm(const struct chunk *chunk, const float *x, const float *weight, size_t n, float *out)
{
    struct norm_job job = {chunk, x, weight, n, out};
    chunk_run(chunk, norm_rows, &job, chunk->m, 1);
}

static void add_rows(void *arg, unsigned worker, size_t begin, size_t end)
{
    (void)worker;
    const struct chunk *chunk = arg;
    const struct model *model = chunk->model;
    size_t hidden = model->config->hidden_size;
    model->options.kernels->add(model->scratch.x + begin * hidden, model->scratch.branch + begin * hidden,
                                (end - begin) * hidden);
}

void chunk_add_branch(const struct chunk *chunk)
{
    chunk_run(chunk, add_rows, (void *)chunk, chunk->m, 1);
}
