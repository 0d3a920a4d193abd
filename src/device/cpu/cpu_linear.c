/* Weight products that share an input: q_a and kv_a of a layer, a projection, lm_head.
 *
 * The input is rearranged once for each kind of weights among the products, then one fork-join runs over
 * the rows of all matrices. */
#include "device/cpu/cpu_device.h"

#include "device/cpu/cpu_rows.h"

struct linear_job {
    const struct kernel_table *kernels;
    const struct cpu_linear *products;
    size_t n, m;
    const void *act[QUANT_INT4_GROUP + 1]; /* the prepared input by kind; NULL where no product has the kind */
};

static void linear_task(void *arg, unsigned worker, size_t begin, size_t end)
{
    (void)worker;
    const struct linear_job *job = arg;
    size_t first = 0;
    for (size_t i = 0; i < job->n && first < end; i++) {
        const struct cpu_linear *product = &job->products[i];
        size_t row_begin, row_end;
        if (rows_clip(begin, end, first, product->w->rows, &row_begin, &row_end)) {
            job->kernels->matmul(product->w, row_begin, row_end, job->act[product->w->kind], job->m, product->out,
                                 product->out_stride);
        }
        first += product->w->rows;
    }
}

void cpu_linear_run(const struct kernel_table *kernels, struct thread_pool *pool, const struct cpu_linear *products,
                    size_t n, const float *x, size_t x_stride, size_t m, void *act)
{
    struct linear_job job = {.kernels = kernels, .products = products, .n = n, .m = m};
    char *next = act;
    size_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        const struct quant_matrix *w = products[i].w;
        if (job.act[w->kind] == NULL) {
            kernels->prepare(w->kind, x, x_stride, m, w->cols, next);
            job.act[w->kind] = next;
            next += kernel_act_bytes(w->kind, w->cols, m);
        }
        rows += w->rows;
    }
    thread_pool_run(pool, linear_task, &job, rows, rows_grain(rows, thread_pool_size(pool)));
}
