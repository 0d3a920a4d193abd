/* A whole engine's worth of parts around one model, for tests: container, threads, kernels, reader, expert store,
 * device, executor, model, cache. Opening fails the test with the part's own message. */
#ifndef SLUICE_TESTS_MODEL_STACK_H
#define SLUICE_TESTS_MODEL_STACK_H

#include "container/container.h"
#include "device/cpu/cpu_device.h"
#include "experts/executor.h"
#include "experts/store.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "os/async_read.h"
#include "os/thread_pool.h"

struct stack_options {
    const char *dir;
    unsigned threads;
    uint32_t features; /* mask for the kernel table */
    bool few_slots;    /* the smallest store there is; else one that holds every expert */
    size_t max_rows;
    size_t context;
};

struct stack {
    struct container *container;
    struct thread_pool *pool;
    struct kernel_table kernels;
    struct async_reader *reader;
    struct expert_store *store;
    struct device *device;
    struct executor *executor;
    struct model *model;
    struct kv_cache *cache;
    struct model_options model_options;
};

void stack_open(struct stack *stack, const struct stack_options *options);
void stack_close(struct stack *stack);

/* Passes ids [n] through the model in chunks of at most `chunk` rows, with the logits of every row
 * ([n][vocab_size], may be NULL). The test fails if a step does. */
void stack_feed(struct stack *stack, const uint32_t *ids, size_t n, size_t chunk, float *logits,
                const struct model_trace *trace);

/* Index of the largest of n values, the lower one of equals. */
uint32_t stack_argmax(const float *x, size_t n);

#endif
