/* What the AVX2 weight products share: a run of whole lane rounds of some weight rows, its unpacking,
 * and the scales of grouped int4 spread to one per word.
 *
 * A row's last, partial round is copied into a zero-padded buffer and treated as a run of one round, so
 * no inner loop has a tail and nothing is read beyond a row. */
#ifndef SLUICE_KERNELS_AVX2_MATMUL_H
#define SLUICE_KERNELS_AVX2_MATMUL_H

#include <stdbool.h>
#include <string.h>

#include "kernels/avx2_common.h"
#include "kernels/avx2_int4.h"

#define CACHE_LINE 64
#define ROUND_BYTES_MAX 128 /* weights of a row in one round: int4 and f32 128 bytes, int8 32 */

/* Rounds [first, first + rounds) of a row's dot product. */
struct matmul_run {
    const uint8_t *weights; /* of the first weight row, at round `first` */
    size_t weight_stride;   /* bytes to the next weight row */
    size_t first;
    size_t rounds;
};

ALWAYS_INLINE bool kind_is_int4(enum quant_kind kind)
{
    return kind == QUANT_INT4_ROW || kind == QUANT_INT4_GROUP;
}

ALWAYS_INLINE size_t round_bytes(enum quant_kind kind)
{
    return kind == QUANT_INT8_ROW ? KERNEL_LANES : ROUND_BYTES_MAX;
}

ALWAYS_INLINE size_t round_steps(enum quant_kind kind)
{
    return kind_is_int4(kind) ? KERNEL_WORD_COLS : 1;
}

ALWAYS_INLINE size_t round_cols(enum quant_kind kind)
{
    return kind_is_int4(kind) ? KERNEL_INT4_ROUND : KERNEL_LANE_ROUND;
}

/* Eight weights of an int8 or f32 row, converted. */
ALWAYS_INLINE __m256 load_columns(enum quant_kind kind, const uint8_t *weights)
{
    if (kind == QUANT_INT8_ROW) {
        return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)weights)));
    }
    return _mm256_loadu_ps((const float *)(const void *)weights);
}

/* Copies the partial last round of `rows` rows into buffer [rows][ROUND_BYTES_MAX], zero-padded. */
static inline struct matmul_run matmul_tail(const struct quant_matrix *w, size_t row, size_t rows, size_t whole_rounds,
                                            uint8_t *buffer)
{
    size_t row_bytes = quant_row_bytes(w->kind, w->cols);
    size_t offset = whole_rounds * round_bytes(w->kind);
    memset(buffer, 0, rows * ROUND_BYTES_MAX);
    for (size_t r = 0; r < rows; r++) {
        const uint8_t *source = (const uint8_t *)w->weights + (row + r) * row_bytes + offset;
        memcpy(buffer + r * ROUND_BYTES_MAX, source, row_bytes - offset);
    }
    struct matmul_run run = {buffer, ROUND_BYTES_MAX, whole_rounds, 1};
    return run;
}

/* Writes the scale of each word in rounds [first, first + rounds) of a grouped row to out [rounds][32].
 * Words beyond the row get -0: their register holds +0, and the product -0 changes no lane. */
static inline void spread_scales(const struct quant_matrix *w, size_t row, size_t first, size_t rounds, float *out)
{
    size_t words = w->cols / KERNEL_WORD_COLS;
    size_t group_words = w->group / KERNEL_WORD_COLS;
    const float *scales = w->scales + row * quant_row_scales(w->kind, w->cols, w->group);
    size_t begin = first * KERNEL_LANES;
    size_t count = rounds * KERNEL_LANES;
    size_t present = words - begin < count ? words - begin : count;
    if (present == count && w->group % (VECTOR * KERNEL_WORD_COLS) == 0 && (w->group & (w->group - 1)) == 0) {
        int shift = __builtin_ctz(w->group / (VECTOR * KERNEL_WORD_COLS));
        for (size_t vector = 0; vector < count / VECTOR; vector++) {
            __m256 scale = _mm256_broadcast_ss(scales + ((begin / VECTOR + vector) >> shift));
            _mm256_storeu_ps(out + vector * VECTOR, scale);
        }
        return;
    }
    size_t group = begin / group_words;
    size_t group_end = (group + 1) * group_words - begin;
    size_t i = 0;
    while (i < present) {
        size_t end = group_end < present ? group_end : present;
        const __m256 scale = _mm256_set1_ps(scales[group]);
        for (; i + VECTOR <= end; i += VECTOR) {
            _mm256_storeu_ps(out + i, scale);
        }
        for (; i < end; i++) {
            out[i] = scales[group];
        }
        group++;
        group_end += group_words;
    }
    for (; i < count; i++) {
        out[i] = -0.0f;
    }
}

/* One input row, not plain: rows [begin, end) of w to out[row]. */
void matmul_single_avx2(const struct quant_matrix *w, size_t begin, size_t end, const float *x, float *out);

/* Any number of input rows, all plain or none. */
void matmul_batch_avx2(const struct quant_matrix *w, size_t begin, size_t end, const struct kernel_act_row *act,
                       size_t m, float *out, size_t out_stride);

#endif
