/* Running the routed experts of one layer.
 *
 * The executor groups a batch's routes into unique experts, leases what is resident, starts reads for
 * the rest, computes resident experts and the shared expert while reads run, computes each arriving
 * expert as it lands, and composes every row in rank order. With fewer slots than unique experts it
 * goes round by round. Nothing in the result depends on residency or on the order of arrival. */
#ifndef SLUICE_EXPERTS_EXECUTOR_H
#define SLUICE_EXPERTS_EXECUTOR_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "device/device.h"
#include "experts/store.h"
#include "kernels/kernels.h"
#include "os/thread_pool.h"

struct expert_batch {
    uint32_t layer;                      /* index of the model's layer */
    size_t m;                            /* rows, at most max_rows */
    size_t k;                            /* experts per row */
    const float *x;                      /* [m][hidden] */
    const uint32_t *ids;                 /* [m][k], by decreasing selection score; no id twice in a row */
    const float *weights;                /* [m][k] */
    const struct expert_weights *shared; /* added last; NULL for none */
    float *out;                          /* [m][hidden]: sum over ranks, then + shared */
    const atomic_bool *cancel;           /* may be NULL; checked while waiting */
};

struct executor;

struct executor_options {
    struct expert_store *store; /* all borrowed */
    struct device *device;
    const struct kernel_table *kernels;
    struct thread_pool *pool;
    size_t max_rows, k;
    uint32_t hidden, n_experts;
};

sluice_status executor_open(struct executor **out, const struct executor_options *options, sluice_error *err);
void executor_close(struct executor **executor);
size_t executor_bytes(const struct executor_options *options); /* scratch that open allocates */

/* What the device must take in one call, to be passed to its open: a batch is computed in groups of experts. */
void executor_call_limits(const struct executor_options *options, size_t *max_rows, size_t *max_blocks);

/* Computes the batch. On failure no lease is left out and the store is as usable as before. */
sluice_status executor_run(struct executor *executor, const struct expert_batch *batch, sluice_error *err);

#endif
