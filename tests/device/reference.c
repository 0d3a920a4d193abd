/* See reference.h. Loops in the order of the contract, fmaf from the C library. */
#include "device/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/exp.h"

#define LANES 32

static float tree_sum(float acc[LANES])
{
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        for (int i = 0; i < offset; i++) {
            acc[i] += acc[i + offset];
        }
    }
    return acc[0];
}

static float int4_weight(const uint8_t *row, uint32_t col)
{
    return (float)((int)((row[col / 2] >> (col % 2 * 4)) & 15) - 8);
}

static float plain_weight(const struct quant_matrix *w, const uint8_t *row, uint32_t col)
{
    if (w->kind == QUANT_INT8_ROW) {
        return (float)(int8_t)row[col];
    }
    float value;
    memcpy(&value, row + col * sizeof value, sizeof value);
    return value;
}

static float dot_int4(const struct quant_matrix *w, const uint8_t *row, const float *scales, const float *x)
{
    float acc[LANES] = {0};
    for (uint32_t word = 0; word < w->cols / 8; word++) {
        float *lane = &acc[word % LANES];
        float part = 0.0f;
        for (uint32_t j = word * 8; j < word * 8 + 8; j++) {
            if (w->kind == QUANT_INT4_ROW) {
                *lane = fmaf(int4_weight(row, j), x[j], *lane);
            } else {
                part = fmaf(int4_weight(row, j), x[j], part);
            }
        }
        if (w->kind == QUANT_INT4_GROUP) {
            *lane = fmaf(part, scales[word * 8 / w->group], *lane);
        }
    }
    float sum = tree_sum(acc);
    return w->kind == QUANT_INT4_ROW ? sum * scales[0] : sum;
}

static float dot_plain(const struct quant_matrix *w, const uint8_t *row, const float *scales, const float *x)
{
    float acc[LANES] = {0};
    for (uint32_t j = 0; j < w->cols; j++) {
        acc[j % LANES] = fmaf(plain_weight(w, row, j), x[j], acc[j % LANES]);
    }
    float sum = tree_sum(acc);
    return scales != NULL ? sum * scales[0] : sum; /* f32 has none */
}

void reference_matmul(const struct quant_matrix *w, const float *x, float *out)
{
    for (uint32_t i = 0; i < w->rows; i++) {
        const uint8_t *row = (const uint8_t *)w->weights + i * quant_row_bytes(w->kind, w->cols);
        const float *scales = w->scales == NULL ? NULL : w->scales + i * quant_row_scales(w->kind, w->cols, w->group);
        bool int4 = w->kind == QUANT_INT4_ROW || w->kind == QUANT_INT4_GROUP;
        out[i] = int4 ? dot_int4(w, row, scales, x) : dot_plain(w, row, scales, x);
    }
}

void reference_block(const struct expert_weights *w, const float *x, float *out)
{
    float *gate = calloc(w->gate.rows, sizeof(float));
    float *up = calloc(w->up.rows, sizeof(float));
    reference_matmul(&w->gate, x, gate);
    reference_matmul(&w->up, x, up);
    for (uint32_t i = 0; i < w->gate.rows; i++) {
        gate[i] = quant_silu_mul(gate[i], up[i]);
    }
    reference_matmul(&w->down, gate, out);
    free(gate);
    free(up);
}

uint32_t reference_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

float reference_random_float(uint64_t *state)
{
    return (float)(int32_t)(reference_random(state) - (1u << 30)) / (float)(1u << 30);
}

void reference_matrix_make(struct quant_matrix *out, enum quant_kind kind, uint32_t rows, uint32_t cols, uint32_t group,
                           uint64_t *state)
{
    size_t bytes = rows * quant_row_bytes(kind, cols);
    size_t n_scales = rows * quant_row_scales(kind, cols, group);
    uint8_t *weights = malloc(bytes);
    float *scales = kind == QUANT_F32 ? NULL : malloc(n_scales * sizeof(float));
    for (size_t i = 0; i < bytes && kind != QUANT_F32; i++) {
        weights[i] = (uint8_t)(reference_random(state) >> 8);
    }
    for (size_t i = 0; i < bytes / sizeof(float) && kind == QUANT_F32; i++) {
        float value = reference_random_float(state);
        memcpy(weights + i * sizeof value, &value, sizeof value);
    }
    for (size_t i = 0; i < n_scales && scales != NULL; i++) {
        scales[i] = 0.02f + 0.01f * reference_random_float(state);
    }
    *out = (struct quant_matrix){kind, rows, cols, group, weights, scales};
}

void reference_matrix_free(struct quant_matrix *matrix)
{
    free((void *)matrix->weights);
    free((void *)matrix->scales);
}
