/* Assembling and feeding the parts (stack.h). */
#include "model/stack.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define READER_THREADS 2

static void check(sluice_status status, const sluice_error *err)
{
    if (status != SLUICE_OK) {
        fail_msg("%s", err->message);
    }
}

static void open_store(struct stack *stack, bool few_slots)
{
    const struct model_config *config = &stack->container->config;
    sluice_error err = {0};
    size_t n_slots = (size_t)config->num_hidden_layers * config->n_routed_experts;
    if (few_slots) {
        n_slots = expert_store_min_slots(stack->container);
    }
    check(async_reader_open(&stack->reader, READER_THREADS, &err), &err);
    check(expert_store_open(&stack->store, stack->container, stack->reader, n_slots, &err), &err);
}

static void open_executor(struct stack *stack, size_t max_rows)
{
    const struct model_config *config = &stack->container->config;
    sluice_error err = {0};
    struct cpu_device_limits limits = {
        .max_rows = max_rows * (config->num_experts_per_tok + 1),
        .max_blocks = config->n_routed_experts + 1,
        .max_hidden = config->hidden_size,
        .max_intermediate = config->moe_intermediate_size * config->n_shared_experts,
    };
    check(cpu_device_open(&stack->device, &stack->kernels, stack->pool, &limits, &err), &err);
    struct executor_options options = {
        .store = stack->store,
        .device = stack->device,
        .kernels = &stack->kernels,
        .pool = stack->pool,
        .max_rows = max_rows,
        .k = config->num_experts_per_tok,
        .hidden = config->hidden_size,
        .n_experts = config->n_routed_experts,
    };
    check(executor_open(&stack->executor, &options, &err), &err);
}

void stack_open(struct stack *stack, const struct stack_options *options)
{
    sluice_error err = {0};
    *stack = (struct stack){0};
    check(container_open(&stack->container, options->dir, true, NULL, &err), &err);
    check(thread_pool_open(&stack->pool, options->threads, &err), &err);
    kernel_table_init(&stack->kernels, options->features);
    open_store(stack, options->few_slots);
    open_executor(stack, options->max_rows);
    stack->model_options = (struct model_options){
        .container = stack->container,
        .kernels = &stack->kernels,
        .pool = stack->pool,
        .max_rows = options->max_rows,
        .context = options->context,
    };
    check(model_open(&stack->model, &stack->model_options, &err), &err);
    check(kv_cache_open(&stack->cache, stack->model, options->context, &err), &err);
}

void stack_close(struct stack *stack)
{
    sluice_error err = {0};
    kv_cache_close(&stack->cache);
    model_close(&stack->model);
    executor_close(&stack->executor);
    device_close(&stack->device);
    check(expert_store_close(&stack->store, &err), &err);
    async_reader_close(&stack->reader);
    thread_pool_close(&stack->pool);
    container_close(&stack->container);
}

void stack_feed(struct stack *stack, const uint32_t *ids, size_t n, size_t chunk, float *logits,
                const struct model_trace *trace)
{
    size_t vocab = stack->container->config.vocab_size;
    for (size_t done = 0; done < n;) {
        size_t rows = n - done < chunk ? n - done : chunk;
        struct model_step step = {
            .ids = ids + done,
            .n = rows,
            .logits = logits ? logits + done * vocab : NULL,
            .n_logits = logits ? rows : 0,
            .trace = trace,
        };
        sluice_error err = {0};
        check(model_forward(stack->model, stack->executor, stack->cache, &step, &err), &err);
        done += rows;
    }
}

uint32_t stack_argmax(const float *x, size_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) {
        if (x[i] > x[best]) {
            best = i;
        }
    }
    return best;
}
