/* AVX2 + FMA: which product serves a batch, and the embedding row.
 *
 * Input rows are taken in runs that are all plain or all scaled; a lone scaled row has its own product. */
#include "kernels/avx2_matmul.h"

static const struct kernel_act_row *act_row(const void *act, size_t stride, size_t i)
{
    return (const struct kernel_act_row *)(const void *)((const char *)act + i * stride);
}

void kernel_matmul_avx2(const struct quant_matrix *w, size_t row_begin, size_t row_end, const void *act, size_t m,
                        float *out, size_t out_stride)
{
    size_t stride = kernel_act_stride(w->kind, w->cols);
    size_t i = 0;
    while (i < m) {
        const struct kernel_act_row *first = act_row(act, stride, i);
        size_t end = i + 1;
        while (end < m && act_row(act, stride, end)->plain == first->plain) {
            end++;
        }
        if (end - i == 1 && !first->plain) {
            matmul_single_avx2(w, row_begin, row_end, first->values, out + i * out_stride);
        } else {
            matmul_batch_avx2(w, row_begin, row_end, first, end - i, out + i * out_stride, out_stride);
        }
        i = end;
    }
}

/* The eight columns of one int4 word, in order. */
static __m256 word_columns(uint32_t word)
{
    const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    __m256i nibbles = _mm256_srlv_epi32(_mm256_set1_epi32((int32_t)word), shifts);
    nibbles = _mm256_and_si256(nibbles, _mm256_set1_epi32(15));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(nibbles, _mm256_set1_epi32(8)));
}

void kernel_dequant_row_avx2(const struct quant_matrix *w, size_t row, float *out)
{
    if (w->kind == QUANT_F32 || w->cols % VECTOR != 0) {
        kernel_dequant_row_c(w, row, out);
        return;
    }
    const uint8_t *weights = (const uint8_t *)w->weights + row * quant_row_bytes(w->kind, w->cols);
    const float *scales = w->scales + row * quant_row_scales(w->kind, w->cols, w->group);
    size_t group = w->kind == QUANT_INT4_GROUP ? w->group : w->cols;
    for (size_t c = 0; c < w->cols; c += VECTOR) {
        __m256 value;
        if (w->kind == QUANT_INT8_ROW) {
            value = load_columns(w->kind, weights + c);
        } else {
            uint32_t word;
            memcpy(&word, weights + c / 2, sizeof word);
            value = word_columns(word);
        }
        _mm256_storeu_ps(out + c, _mm256_mul_ps(value, _mm256_set1_ps(scales[c / group])));
    }
}
