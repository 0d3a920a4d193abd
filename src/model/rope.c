/* The rotary table, by arithmetic that every processor rounds alike (rope.h).
 *
 * logarithm: x = m 2^e with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m-1)/(m+1)) by its series.
 * exponential: y = k log 2 + r with |r| <= log(2)/2, Taylor series of e^r.
 * sine, cosine: angle = k pi/2 + r with |r| <= pi/4, Taylor series, then the quadrant. log 2 and pi/2 are split
 * in a short head, whose product with k is exact, and a tail. */
#include "model/rope.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/graph.h"

#define LOG2_HEAD 6.93147180369123816490e-01 /* 33 bits */
#define LOG2_TAIL 1.90821492927058770002e-10
#define HALF_PI_HEAD 1.57079632673412561417e+00 /* 33 bits */
#define HALF_PI_TAIL 6.07710050650619224932e-11
#define TWO_OVER_PI 6.36619772367581382433e-01
#define SQRT_HALF 7.07106781186547524401e-01

#define GRAIN_POSITIONS 256

static double plain_log(double x)
{
    int exponent;
    double m = frexp(x, &exponent);
    if (m < SQRT_HALF) {
        m *= 2.0;
        exponent -= 1;
    }
    double s = (m - 1.0) / (m + 1.0);
    double s2 = s * s;
    double sum = 0.0;
    for (int n = 25; n >= 1; n -= 2) {
        sum = sum * s2 + 1.0 / n;
    }
    return exponent * LOG2_HEAD + (2.0 * s * sum + exponent * LOG2_TAIL);
}

static double plain_exp(double y)
{
    double k = floor(y / LOG2_HEAD + 0.5);
    double r = (y - k * LOG2_HEAD) - k * LOG2_TAIL;
    double sum = 1.0;
    for (int n = 16; n >= 1; n--) {
        sum = 1.0 + sum * r / n;
    }
    return ldexp(sum, (int)k);
}

double rope_frequency(double theta, size_t pair, size_t dims)
{
    if (pair == 0) {
        return 1.0;
    }
    return plain_exp(-(2.0 * (double)pair / (double)dims) * plain_log(theta));
}

void rope_sine_cosine(double angle, double *sine, double *cosine)
{
    double k = floor(angle * TWO_OVER_PI + 0.5);
    double r = (angle - k * HALF_PI_HEAD) - k * HALF_PI_TAIL;
    double r2 = r * r;
    double s = 1.0;
    double c = 1.0;
    for (int n = 18; n >= 2; n -= 2) {
        s = 1.0 - s * r2 * (1.0 / (n * (n + 1)));
        c = 1.0 - c * r2 * (1.0 / (n * (n - 1)));
    }
    s *= r;
    unsigned quadrant = (unsigned)((int64_t)k & 3);
    double turned_s = quadrant & 1 ? c : s;
    double turned_c = quadrant & 1 ? s : c;
    *sine = quadrant & 2 ? -turned_s : turned_s;
    *cosine = quadrant == 1 || quadrant == 2 ? -turned_c : turned_c;
}

struct rope_job {
    struct rope_table *table;
    const double *frequencies; /* [n_pairs] */
};

static void fill_positions(void *arg, unsigned worker, size_t begin, size_t end)
{
    (void)worker;
    const struct rope_job *job = arg;
    size_t n_pairs = job->table->n_pairs;
    for (size_t position = begin; position < end; position++) {
        for (size_t j = 0; j < n_pairs; j++) {
            double s, c;
            rope_sine_cosine((double)position * job->frequencies[j], &s, &c);
            job->table->sine[position * n_pairs + j] = (float)s;
            job->table->cosine[position * n_pairs + j] = (float)c;
        }
    }
}

uint64_t rope_table_bytes(size_t n_positions, size_t dims)
{
    return model_page_bytes((uint64_t)n_positions * (dims / 2) * 2 * sizeof(float));
}

sluice_status rope_table_open(struct rope_table *out, size_t n_positions, size_t dims, double theta,
                              struct thread_pool *pool, sluice_error *err)
{
    struct rope_table table = {.n_pairs = dims / 2};
    double *frequencies = mem_zalloc(table.n_pairs, sizeof(*frequencies));
    if (!frequencies) {
        return error_set(err, SLUICE_NO_MEMORY, "no memory for %zu rotary frequencies", table.n_pairs);
    }
    sluice_status status = os_pages_alloc(&table.memory, rope_table_bytes(n_positions, dims), err);
    if (status == SLUICE_OK) {
        table.cosine = table.memory.data;
        table.sine = table.cosine + n_positions * table.n_pairs;
        for (size_t j = 0; j < table.n_pairs; j++) {
            frequencies[j] = rope_frequency(theta, j, dims);
        }
        struct rope_job job = {&table, frequencies};
        thread_pool_run(pool, fill_positions, &job, n_positions, GRAIN_POSITIONS);
        *out = table;
    }
    free(frequencies);
    return status;
}

void rope_table_close(struct rope_table *table)
{
    os_pages_free(&table->memory);
    *table = (struct rope_table){0};
}
