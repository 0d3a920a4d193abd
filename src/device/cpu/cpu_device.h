/* The CPU device: expert blocks by the kernel table over the thread pool. */
#ifndef SLUICE_DEVICE_CPU_CPU_DEVICE_H
#define SLUICE_DEVICE_CPU_CPU_DEVICE_H

#include "device/device.h"
#include "kernels/kernels.h"
#include "os/thread_pool.h"

/* Largest work one call of run_blocks may carry; scratch is allocated for it at open. */
struct cpu_device_limits {
    size_t max_rows; /* sum of m over the blocks of one call */
    size_t max_blocks;
    uint32_t max_hidden;
    uint32_t max_intermediate;
};

/* kernels and pool are borrowed and must outlive the device. */
sluice_status cpu_device_open(struct device **out, const struct kernel_table *kernels, struct thread_pool *pool,
                              const struct cpu_device_limits *limits, sluice_error *err);

/* Scratch bytes that cpu_device_open will allocate. */
size_t cpu_device_bytes(const struct cpu_device_limits *limits);

/* A weight product over the pool: out [m][rows] = w · x. `act` is scratch of kernel_act_bytes(w->kind, w->cols, m). */
struct cpu_linear {
    const struct quant_matrix *w;
    float *out;
    size_t out_stride;
};

/* n products that share one input x [m][cols]. The matrices have equal cols; kinds may differ: act must
 * then hold the sum of kernel_act_bytes over the distinct kinds among them. */
void cpu_linear_run(const struct kernel_table *kernels, struct thread_pool *pool, const struct cpu_linear *products,
                    size_t n, const float *x, size_t x_stride, size_t m, void *act);

#endif
