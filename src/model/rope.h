/* Rotary position embedding: the table of cosines and sines.
 *
 * Pair j of position p turns by p * theta^(-2j / dims). Frequency and angle are binary64, cosine and sine are
 * rounded to binary32. Everything is computed with additions, multiplications and divisions alone: the
 * functions of the C library may differ in the last bit between processors, and then a table would, too. */
#ifndef SLUICE_MODEL_ROPE_H
#define SLUICE_MODEL_ROPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "os/pages.h"
#include "os/thread_pool.h"

struct rope_table {
    float *cosine; /* [n_positions][n_pairs] */
    float *sine;   /* [n_positions][n_pairs] */
    size_t n_pairs;
    struct os_pages memory;
};

uint64_t rope_table_bytes(size_t n_positions, size_t dims);

/* theta > 0; pool is only used during the call. */
sluice_status rope_table_open(struct rope_table *out, size_t n_positions, size_t dims, double theta,
                              struct thread_pool *pool, sluice_error *err);
void rope_table_close(struct rope_table *table); /* safe on a zeroed one */

/* theta^(-2 pair / dims) within a few units of the last place; 1 exactly for pair 0. */
double rope_frequency(double theta, size_t pair, size_t dims);

/* Sine and cosine of an angle in [0, 2^20 * pi/2), error below 1e-10 there (far less for small angles). */
void rope_sine_cosine(double angle, double *sine, double *cosine);

#endif
