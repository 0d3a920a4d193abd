/* AVX2 + FMA: input rows in the order in which the products read them.
 *
 * The values of a row become [lane vector 0..3][step][8]: a step is one fma of all 32 lanes, that is a
 * round for int8 and f32, and one of the eight nibbles of a round for int4. int4 values are scaled by
 * 2^-(4 * phase), see avx2_int4.h; a row with a value too small for that keeps its values unscaled and
 * says so in its header.
 * Padding must leave an accumulator as it is, the sign of a zero included: int4 meets the weight -8 there
 * and pads with +0, int8 and f32 meet +0 and pad with -0, so that every padded product is -0. */
#include <stdbool.h>
#include <string.h>

#include "kernels/avx2_common.h"
#include "kernels/avx2_int4.h"

/* Columns of one lane vector in one round of int4. */
#define INT4_TILE (VECTOR * KERNEL_WORD_COLS)

static bool row_is_tiny(const float *x, size_t cols)
{
    __m256 tiny = _mm256_setzero_ps();
    for (size_t k = 0; k < cols; k += VECTOR) {
        tiny = _mm256_or_ps(tiny, vector_is_tiny(_mm256_loadu_ps(x + k)));
    }
    return _mm256_movemask_ps(tiny) != 0;
}

/* 64 columns (8 words) to the steps of one round of one lane vector. */
static void prepare_int4_tile(const float *x, bool plain, float *steps)
{
    __m256 v[VECTOR];
    UNROLL
    for (size_t i = 0; i < VECTOR; i++) {
        v[i] = _mm256_loadu_ps(x + VECTOR * i);
    }
    vectors_transpose(v);
    UNROLL
    for (size_t j = 0; j < KERNEL_WORD_COLS; j++) {
        __m256 scaled = _mm256_mul_ps(v[j], int4_unscale(j % INT4_PHASES));
        _mm256_store_ps(steps + VECTOR * j, plain ? v[j] : scaled);
    }
}

static void prepare_int4(const float *x, size_t cols, struct kernel_act_row *row)
{
    size_t rounds = (cols + KERNEL_INT4_ROUND - 1) / KERNEL_INT4_ROUND;
    row->plain = row_is_tiny(x, cols);
    for (size_t round = 0; round < rounds; round++) {
        for (size_t v = 0; v < LANE_VECTORS; v++) {
            size_t k = round * KERNEL_INT4_ROUND + v * INT4_TILE;
            float *steps = row->values + (v * rounds + round) * INT4_TILE;
            if (k + INT4_TILE <= cols) {
                prepare_int4_tile(x + k, row->plain, steps);
                continue;
            }
            float padded[INT4_TILE] = {0};
            if (k < cols) {
                memcpy(padded, x + k, (cols - k) * sizeof(float));
            }
            prepare_int4_tile(padded, row->plain, steps);
        }
    }
}

static void prepare_columns(const float *x, size_t cols, struct kernel_act_row *row)
{
    size_t rounds = (cols + KERNEL_LANE_ROUND - 1) / KERNEL_LANE_ROUND;
    row->plain = false;
    for (size_t round = 0; round < rounds; round++) {
        for (size_t v = 0; v < LANE_VECTORS; v++) {
            size_t k = round * KERNEL_LANE_ROUND + v * VECTOR;
            float *step = row->values + (v * rounds + round) * VECTOR;
            if (k + VECTOR <= cols) {
                _mm256_store_ps(step, _mm256_loadu_ps(x + k));
                continue;
            }
            for (size_t i = 0; i < VECTOR; i++) {
                step[i] = k + i < cols ? x[k + i] : -0.0f;
            }
        }
    }
}

void kernel_prepare_avx2(enum quant_kind kind, const float *x, size_t x_stride, size_t m, size_t cols, void *act)
{
    size_t stride = kernel_act_stride(kind, cols);
    for (size_t i = 0; i < m; i++) {
        struct kernel_act_row *row = (struct kernel_act_row *)((char *)act + i * stride);
        if (kind == QUANT_INT4_ROW || kind == QUANT_INT4_GROUP) {
            prepare_int4(x + i * x_stride, cols, row);
        } else {
            prepare_columns(x + i * x_stride, cols, row);
        }
    }
}
