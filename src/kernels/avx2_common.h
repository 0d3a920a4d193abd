/* Helpers of the AVX2 + FMA kernels: masks for tails, the lane tree, the exponential.
 *
 * A lane vector is eight of the 32 lanes; the four of a row are numbered 0..3. Folding vectors 0 + 2 and
 * 1 + 3, then their sums, is the tree's offsets 16 and 8; the offsets 4, 2, 1 stay inside one vector.
 * Only files compiled with -mavx2 -mfma may include this. */
#ifndef SLUICE_KERNELS_AVX2_COMMON_H
#define SLUICE_KERNELS_AVX2_COMMON_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/internal.h"
#include "quant/exp.h"

#define VECTOR 8       /* floats in a register */
#define LANE_VECTORS 4 /* registers that hold the 32 lanes */

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Loops over small constant counts must unroll so that arrays of registers stay in registers. */
#define PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define UNROLL PRAGMA(clang loop unroll(full))
#else
#define UNROLL PRAGMA(GCC unroll 8)
#endif

/* Keeps a value that several instructions share in a register: left alone, the compiler would rather make
 * each of them load it again. */
#define KEEP(vector) __asm__("" : "+x"(vector))

/* All ones in the first n of 8 elements, for masked loads and stores, which touch no other memory. */
ALWAYS_INLINE __m256i vector_mask(size_t n)
{
    static const int32_t ones_then_zeros[2 * VECTOR] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(ones_then_zeros + VECTOR - (n < VECTOR ? n : VECTOR)));
}

/* Tree offsets 16 and 8. */
ALWAYS_INLINE __m256 lanes_fold(const __m256 lane[LANE_VECTORS])
{
    return _mm256_add_ps(_mm256_add_ps(lane[0], lane[2]), _mm256_add_ps(lane[1], lane[3]));
}

/* Tree offset 4. */
ALWAYS_INLINE __m128 lanes_halve(__m256 folded)
{
    return _mm_add_ps(_mm256_castps256_ps128(folded), _mm256_extractf128_ps(folded, 1));
}

/* Tree offsets 4, 2, 1. */
ALWAYS_INLINE float lanes_sum(__m256 folded)
{
    __m128 four = lanes_halve(folded);
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* The same for four rows at once. */
ALWAYS_INLINE __m128 lanes_sum4(__m256 a, __m256 b, __m256 c, __m256 d)
{
    __m128 a4 = lanes_halve(a);
    __m128 b4 = lanes_halve(b);
    __m128 c4 = lanes_halve(c);
    __m128 d4 = lanes_halve(d);
    __m128 ab = _mm_add_ps(_mm_unpacklo_ps(a4, b4), _mm_unpackhi_ps(a4, b4));
    __m128 cd = _mm_add_ps(_mm_unpacklo_ps(c4, d4), _mm_unpackhi_ps(c4, d4));
    return _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab));
}

/* In place: row i, element j <-> row j, element i. */
ALWAYS_INLINE void vectors_transpose(__m256 v[VECTOR])
{
    __m256 pair[VECTOR];
    __m256 quad[VECTOR];
    UNROLL
    for (size_t i = 0; i < VECTOR; i += 2) {
        pair[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    UNROLL
    for (size_t i = 0; i < VECTOR; i += 4) {
        quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
        quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xEE);
        quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
        quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xEE);
    }
    UNROLL
    for (size_t i = 0; i < 4; i++) {
        v[i] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31);
    }
}

/* quant_exp, step by step. The operand order of min and max lets NaN through. */
ALWAYS_INLINE __m256 vector_exp(__m256 x)
{
    const __m256 magic = _mm256_set1_ps(QUANT_EXP_MAGIC);
    x = _mm256_min_ps(_mm256_set1_ps(QUANT_EXP_MAX), x);
    x = _mm256_max_ps(_mm256_set1_ps(QUANT_EXP_MIN), x);
    __m256 n = _mm256_sub_ps(_mm256_fmadd_ps(x, _mm256_set1_ps(QUANT_EXP_LOG2E), magic), magic);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-QUANT_EXP_LN2_HIGH), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-QUANT_EXP_LN2_LOW), r);
    __m256 p = _mm256_fmadd_ps(r, _mm256_set1_ps(QUANT_EXP_C6), _mm256_set1_ps(QUANT_EXP_C5));
    p = _mm256_fmadd_ps(r, p, _mm256_set1_ps(QUANT_EXP_C4));
    p = _mm256_fmadd_ps(r, p, _mm256_set1_ps(QUANT_EXP_C3));
    p = _mm256_fmadd_ps(r, p, _mm256_set1_ps(QUANT_EXP_C2));
    p = _mm256_fmadd_ps(_mm256_mul_ps(r, r), p, r);
    p = _mm256_add_ps(_mm256_set1_ps(1.0f), p);
    __m256i power = _mm256_cvtps_epi32(n);
    __m256i half = _mm256_srai_epi32(power, 1);
    const __m256i bias = _mm256_set1_epi32(127);
    __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(power, half), bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}

/* quant_sigmoid. */
ALWAYS_INLINE __m256 vector_sigmoid(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    __m256 e = vector_exp(_mm256_xor_ps(x, _mm256_set1_ps(-0.0f)));
    return _mm256_div_ps(one, _mm256_add_ps(one, e));
}

#endif
