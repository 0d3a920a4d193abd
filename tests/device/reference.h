/* Expert blocks evaluated the plain way: one row, one column, one weight at a time, straight from docs/numerics.md.
 *
 * Nothing here uses the kernels, so that a device and the executor are compared with something independent. */
#ifndef SLUICE_TESTS_DEVICE_REFERENCE_H
#define SLUICE_TESTS_DEVICE_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quant/matrix.h"

/* out [rows] = w · x for one input row x [cols]. */
void reference_matmul(const struct quant_matrix *w, const float *x, float *out);

/* out [hidden] = down(silu(gate(x)) * up(x)) for one row x [hidden]. */
void reference_block(const struct expert_weights *w, const float *x, float *out);

/* Pseudo-random numbers, the same everywhere. */
uint32_t reference_random(uint64_t *state);
float reference_random_float(uint64_t *state); /* in [-1, 1) */

/* A random matrix whose memory the caller free()s through reference_matrix_free. */
void reference_matrix_make(struct quant_matrix *out, enum quant_kind kind, uint32_t rows, uint32_t cols, uint32_t group,
                           uint64_t *state);
void reference_matrix_free(struct quant_matrix *matrix);

#endif
