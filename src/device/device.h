/* Where expert blocks are computed.
 *
 * A device runs batches of SwiGLU blocks over weights that are already in memory it can reach. The
 * result of a row never depends on the device, on how many rows or blocks came with it, or on threads. */
#ifndef SLUICE_DEVICE_DEVICE_H
#define SLUICE_DEVICE_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "quant/matrix.h"

/* One block: out row i = down(silu(gate(x)) * up(x)) for x row rows[i]. */
struct device_block {
    struct expert_weights weights;
    const float *x; /* rows of [hidden], x_stride floats apart */
    size_t x_stride;
    const uint32_t *rows; /* [m] indices into x; NULL means 0..m-1 */
    size_t m;
    float *out; /* rows of [hidden] */
    size_t out_stride;
    const uint32_t *out_rows; /* [m] indices into out; NULL means 0..m-1 */
};

struct device;

struct device_ops {
    const char *name;
    /* Computes n blocks and returns when all are done. Allocates nothing. */
    sluice_status (*run_blocks)(struct device *device, const struct device_block *blocks, size_t n, sluice_error *err);
    void (*close)(struct device *device);
};

struct device {
    const struct device_ops *ops;
};

static inline sluice_status device_run_blocks(struct device *device, const struct device_block *blocks, size_t n,
                                              sluice_error *err)
{
    return device->ops->run_blocks(device, blocks, n, err);
}

void device_close(struct device **device); /* safe on NULL */

#endif
