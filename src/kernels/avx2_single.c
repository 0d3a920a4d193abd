/* AVX2 + FMA: weight rows times one input row.
 *
 * Two rows at a time share each load of x and give eight independent accumulators, four lane vectors
 * each, enough to hide the latency of fma. Weights are unpacked in registers: per eight int4 weights one
 * mask, one subtraction and the fma, plus a blend, a shift and an or per word. */
#include "kernels/avx2_matmul.h"

#define PAIR 2              /* weight rows at a time */
#define SCALE_ROUNDS 8      /* rounds of grouped scales spread at once */
#define PREFETCH_BYTES 8192 /* how far ahead weights are asked for; rows lie one behind the other */

/* The line PREFETCH_BYTES further on. It may lie beyond the matrix: a prefetch never faults. */
ALWAYS_INLINE void single_prefetch(const uint8_t *weights)
{
    _mm_prefetch((const char *)((uintptr_t)weights + PREFETCH_BYTES), _MM_HINT_T0);
}

/* A pair of rows in progress. */
struct single_sum {
    __m256 lane[PAIR][LANE_VECTORS];
};

/* int4, one scale a row. x [4][steps][8] at the run's first step, vector_stride floats between lane vectors. */
ALWAYS_INLINE void single_int4(size_t rows, struct matmul_run run, const float *x, size_t vector_stride,
                               struct single_sum *sum)
{
    for (size_t round = 0; round < run.rounds; round++) {
        UNROLL
        for (size_t v = 0; v < LANE_VECTORS; v++) {
            const float *steps = x + v * vector_stride + round * (KERNEL_WORD_COLS * VECTOR);
            __m256i half[2][PAIR];
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                const uint8_t *at = run.weights + r * run.weight_stride + (round * LANE_VECTORS + v) * sizeof(__m256i);
                __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)at);
                if (v % 2 == 0) {
                    single_prefetch(at);
                }
                half[0][r] = int4_low_half(words);
                half[1][r] = int4_high_half(words);
            }
            UNROLL
            for (size_t j = 0; j < KERNEL_WORD_COLS; j++) {
                __m256 value = _mm256_load_ps(steps + VECTOR * j);
                UNROLL
                for (size_t r = 0; r < rows; r++) {
                    __m256 weight = int4_expand(half[j / INT4_PHASES][r], j % INT4_PHASES);
                    sum->lane[r][v] = _mm256_fmadd_ps(weight, value, sum->lane[r][v]);
                }
            }
        }
    }
}

/* int4, grouped scales: scales [rows][SCALE_ROUNDS][32] from the run's first round on. */
ALWAYS_INLINE void single_group(size_t rows, struct matmul_run run, const float *scales, const float *x,
                                size_t vector_stride, struct single_sum *sum)
{
    for (size_t round = 0; round < run.rounds; round++) {
        UNROLL
        for (size_t v = 0; v < LANE_VECTORS; v++) {
            const float *steps = x + v * vector_stride + round * (KERNEL_WORD_COLS * VECTOR);
            __m256i half[2][PAIR];
            __m256 word[PAIR];
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                const uint8_t *at = run.weights + r * run.weight_stride + (round * LANE_VECTORS + v) * sizeof(__m256i);
                __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)at);
                if (v % 2 == 0) {
                    single_prefetch(at);
                }
                half[0][r] = int4_low_half(words);
                half[1][r] = int4_high_half(words);
                word[r] = _mm256_setzero_ps();
            }
            UNROLL
            for (size_t j = 0; j < KERNEL_WORD_COLS; j++) {
                __m256 value = _mm256_load_ps(steps + VECTOR * j);
                UNROLL
                for (size_t r = 0; r < rows; r++) {
                    __m256 weight = int4_expand(half[j / INT4_PHASES][r], j % INT4_PHASES);
                    word[r] = _mm256_fmadd_ps(weight, value, word[r]);
                }
            }
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                __m256 scale = _mm256_loadu_ps(scales + (r * SCALE_ROUNDS + round) * KERNEL_LANES + v * VECTOR);
                sum->lane[r][v] = _mm256_fmadd_ps(word[r], scale, sum->lane[r][v]);
            }
        }
    }
}

/* int8 and f32. */
ALWAYS_INLINE void single_columns(enum quant_kind kind, size_t rows, struct matmul_run run, const float *x,
                                  size_t vector_stride, struct single_sum *sum)
{
    for (size_t round = 0; round < run.rounds; round++) {
        UNROLL
        for (size_t v = 0; v < LANE_VECTORS; v++) {
            __m256 value = _mm256_load_ps(x + v * vector_stride + round * VECTOR);
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                size_t at = round * round_bytes(kind) + v * (round_bytes(kind) / LANE_VECTORS);
                if (v % (kind == QUANT_INT8_ROW ? 4 : 2) == 0) {
                    single_prefetch(run.weights + r * run.weight_stride + at);
                }
                __m256 weight = load_columns(kind, run.weights + r * run.weight_stride + at);
                sum->lane[r][v] = _mm256_fmadd_ps(weight, value, sum->lane[r][v]);
            }
        }
    }
}

/* Adds a run of rows row, row + 1, ... to the sum. x is the whole prepared row. */
ALWAYS_INLINE void single_run(const struct quant_matrix *w, enum quant_kind kind, size_t row, size_t rows,
                              struct matmul_run run, const float *x, size_t vector_stride, struct single_sum *sum)
{
    x += run.first * round_steps(kind) * VECTOR;
    if (kind == QUANT_INT4_ROW) {
        single_int4(rows, run, x, vector_stride, sum);
        return;
    }
    if (kind != QUANT_INT4_GROUP) {
        single_columns(kind, rows, run, x, vector_stride, sum);
        return;
    }
    float scales[PAIR * SCALE_ROUNDS * KERNEL_LANES];
    size_t left = run.rounds;
    while (left > 0) {
        run.rounds = left < SCALE_ROUNDS ? left : SCALE_ROUNDS;
        for (size_t r = 0; r < rows; r++) {
            spread_scales(w, row + r, run.first, run.rounds, scales + r * SCALE_ROUNDS * KERNEL_LANES);
        }
        single_group(rows, run, scales, x, vector_stride, sum);
        run.weights += run.rounds * ROUND_BYTES_MAX;
        run.first += run.rounds;
        x += run.rounds * KERNEL_WORD_COLS * VECTOR;
        left -= run.rounds;
    }
}

/* Rows [begin, end), `rows` at a time; returns the first row not done. */
ALWAYS_INLINE size_t single_rows(const struct quant_matrix *w, enum quant_kind kind, size_t begin, size_t end,
                                 size_t rows, const float *x, float *out)
{
    size_t row_bytes = quant_row_bytes(kind, w->cols);
    size_t whole = w->cols / round_cols(kind);
    size_t rounds = (w->cols + round_cols(kind) - 1) / round_cols(kind);
    size_t vector_stride = rounds * round_steps(kind) * VECTOR;
    size_t row = begin;
    for (; row + rows <= end; row += rows) {
        struct single_sum sum;
        for (size_t r = 0; r < rows; r++) {
            for (size_t v = 0; v < LANE_VECTORS; v++) {
                sum.lane[r][v] = _mm256_setzero_ps();
            }
        }
        struct matmul_run run = {(const uint8_t *)w->weights + row * row_bytes, row_bytes, 0, whole};
        single_run(w, kind, row, rows, run, x, vector_stride, &sum);
        if (whole < rounds) {
            uint8_t buffer[PAIR * ROUND_BYTES_MAX];
            single_run(w, kind, row, rows, matmul_tail(w, row, rows, whole, buffer), x, vector_stride, &sum);
        }
        for (size_t r = 0; r < rows; r++) {
            float total = lanes_sum(lanes_fold(sum.lane[r]));
            out[row + r] = kind == QUANT_INT8_ROW || kind == QUANT_INT4_ROW ? total * w->scales[row + r] : total;
        }
    }
    return row;
}

#define SINGLE_KIND(name, kind)                                                                          \
    static void name(const struct quant_matrix *w, size_t begin, size_t end, const float *x, float *out) \
    {                                                                                                    \
        size_t row = single_rows(w, kind, begin, end, PAIR, x, out);                                     \
        single_rows(w, kind, row, end, 1, x, out);                                                       \
    }

SINGLE_KIND(single_matrix_f32, QUANT_F32)
SINGLE_KIND(single_matrix_int8, QUANT_INT8_ROW)
SINGLE_KIND(single_matrix_int4, QUANT_INT4_ROW)
SINGLE_KIND(single_matrix_group, QUANT_INT4_GROUP)

void matmul_single_avx2(const struct quant_matrix *w, size_t begin, size_t end, const float *x, float *out)
{
    switch (w->kind) {
    case QUANT_F32:
        single_matrix_f32(w, begin, end, x, out);
        break;
    case QUANT_INT8_ROW:
        single_matrix_int8(w, begin, end, x, out);
        break;
    case QUANT_INT4_ROW:
        single_matrix_int4(w, begin, end, x, out);
        break;
    case QUANT_INT4_GROUP:
        single_matrix_group(w, begin, end, x, out);
        break;
    }
}
