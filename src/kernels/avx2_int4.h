/* Unpacking int4 words without shifts or conversions.
 *
 * With 0x4B00 in the upper half of a 32-bit word, a nibble at bit s = 0, 4, 8 or 12 of the lower half
 * reads as the float 2^23 + nibble * 2^s once the other bits are masked off; subtracting
 * 2^23 + 8 * 2^s gives (nibble - 8) * 2^s exactly. Nibbles 0..3 of a word are met in its lower half,
 * nibbles 4..7 after one shift by 16. Whoever multiplies has scaled the other factor by 2^-s, which is
 * exact unless that factor is non-zero and below KERNEL_TINY. */
#ifndef SLUICE_KERNELS_AVX2_INT4_H
#define SLUICE_KERNELS_AVX2_INT4_H

#include "kernels/avx2_common.h"

#define INT4_PHASES 4 /* distinct scalings 2^0, 2^-4, 2^-8, 2^-12: nibbles j and j + 4 share one */

/* Eight words, ready for int4_expand: the low or the high four nibbles of each. */
ALWAYS_INLINE __m256i int4_low_half(__m256i words)
{
    return _mm256_blend_epi16(words, _mm256_set1_epi32(0x4B000000), 0xAA);
}

ALWAYS_INLINE __m256i int4_high_half(__m256i words)
{
    /* Not an or: compilers would move it behind the mask of every nibble. */
    return _mm256_blend_epi16(_mm256_srli_epi32(words, 16), _mm256_set1_epi32(0x4B000000), 0xAA);
}

/* (nibble - 8) * 2^(4 * phase) of one nibble of each of eight words. */
ALWAYS_INLINE __m256 int4_expand(__m256i half, size_t phase)
{
    const int32_t mask = (int32_t)(0xFFFF0000u | 15u << (4 * phase));
    const float bias = 8388608.0f + (float)(8 << (4 * phase));
    __m256 biased = _mm256_castsi256_ps(_mm256_and_si256(half, _mm256_set1_epi32(mask)));
    return _mm256_sub_ps(biased, _mm256_set1_ps(bias));
}

/* 2^-(4 * phase). */
ALWAYS_INLINE __m256 int4_unscale(size_t phase)
{
    return _mm256_set1_ps(1.0f / (float)(1 << (4 * phase)));
}

/* Non-zero where a factor is too small to be scaled exactly. */
ALWAYS_INLINE __m256 vector_is_tiny(__m256 x)
{
    __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    __m256 small = _mm256_cmp_ps(magnitude, _mm256_set1_ps(KERNEL_TINY), _CMP_LT_OQ);
    return _mm256_and_ps(small, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_NEQ_OQ));
}

#endif
