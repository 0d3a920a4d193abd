/* AVX2 + FMA: norms, activations and other kernels that walk over vectors.
 *
 * Elementwise kernels do their tails with masked loads and stores. The norms sum over 32 binary64 lanes
 * in eight registers; what is left of a round goes to its lanes one by one before the tree. */
#include <math.h>

#include "kernels/avx2_common.h"

#define DOUBLES 4                               /* doubles in a register */
#define DOUBLE_VECTORS (KERNEL_LANES / DOUBLES) /* registers that hold the 32 lanes */

void kernel_sigmoid_avx2(float *x, size_t n)
{
    for (size_t j = 0; j < n; j += VECTOR) {
        __m256i mask = vector_mask(n - j);
        __m256 value = _mm256_maskload_ps(x + j, mask);
        _mm256_maskstore_ps(x + j, mask, vector_sigmoid(value));
    }
}

void kernel_silu_mul_avx2(const float *gate, const float *up, size_t n, float *out)
{
    for (size_t j = 0; j < n; j += VECTOR) {
        __m256i mask = vector_mask(n - j);
        __m256 g = _mm256_maskload_ps(gate + j, mask);
        __m256 u = _mm256_maskload_ps(up + j, mask);
        __m256 silu = _mm256_mul_ps(g, vector_sigmoid(g));
        _mm256_maskstore_ps(out + j, mask, _mm256_mul_ps(silu, u));
    }
}

void kernel_add_avx2(float *x, const float *y, size_t n)
{
    for (size_t j = 0; j < n; j += VECTOR) {
        __m256i mask = vector_mask(n - j);
        __m256 sum = _mm256_add_ps(_mm256_maskload_ps(x + j, mask), _mm256_maskload_ps(y + j, mask));
        _mm256_maskstore_ps(x + j, mask, sum);
    }
}

void kernel_add_scaled_avx2(float *x, const float *y, float weight, size_t n)
{
    const __m256 factor = _mm256_set1_ps(weight);
    for (size_t j = 0; j < n; j += VECTOR) {
        __m256i mask = vector_mask(n - j);
        __m256 scaled = _mm256_mul_ps(_mm256_maskload_ps(y + j, mask), factor);
        _mm256_maskstore_ps(x + j, mask, _mm256_add_ps(_mm256_maskload_ps(x + j, mask), scaled));
    }
}

void kernel_rope_avx2(float *x, const float *cosine, const float *sine, size_t n_pairs)
{
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    for (size_t j = 0; j < n_pairs; j += VECTOR / 2) {
        size_t left = n_pairs - j;
        __m256i mask = vector_mask(2 * left);
        __m256i pair_mask = vector_mask(left < VECTOR / 2 ? left : VECTOR / 2);
        __m256 c = _mm256_permutevar8x32_ps(_mm256_maskload_ps(cosine + j, pair_mask), twice);
        __m256 s = _mm256_permutevar8x32_ps(_mm256_maskload_ps(sine + j, pair_mask), twice);
        __m256 value = _mm256_maskload_ps(x + 2 * j, mask);
        __m256 swapped = _mm256_permute_ps(value, 0xB1);
        __m256 rotated = _mm256_addsub_ps(_mm256_mul_ps(value, c), _mm256_mul_ps(swapped, s));
        _mm256_maskstore_ps(x + 2 * j, mask, rotated);
    }
}

/* ---- norms ---- */

/* The tree over 32 lanes: offsets 16, 8 and 4 between registers, 2 and 1 within one. */
static double double_lanes_sum(const double lane[KERNEL_LANES])
{
    __m256d v[DOUBLE_VECTORS];
    for (size_t i = 0; i < DOUBLE_VECTORS; i++) {
        v[i] = _mm256_loadu_pd(lane + DOUBLES * i);
    }
    for (size_t offset = DOUBLE_VECTORS / 2; offset > 0; offset /= 2) {
        for (size_t i = 0; i < offset; i++) {
            v[i] = _mm256_add_pd(v[i], v[i + offset]);
        }
    }
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(v[0]), _mm256_extractf128_pd(v[0], 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

/* Tree sum of (x - mean)^2. With mean 0 the subtraction changes nothing and squares are exact. */
static double square_sum(const float *x, size_t n, double mean)
{
    const __m256d centre = _mm256_set1_pd(mean);
    __m256d acc[DOUBLE_VECTORS];
    for (size_t i = 0; i < DOUBLE_VECTORS; i++) {
        acc[i] = _mm256_setzero_pd();
    }
    size_t whole = n / KERNEL_LANES * KERNEL_LANES;
    for (size_t k = 0; k < whole; k += KERNEL_LANES) {
        UNROLL
        for (size_t i = 0; i < DOUBLE_VECTORS; i++) {
            __m256d value = _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + k + DOUBLES * i)), centre);
            acc[i] = _mm256_add_pd(acc[i], _mm256_mul_pd(value, value));
        }
    }
    double lane[KERNEL_LANES];
    for (size_t i = 0; i < DOUBLE_VECTORS; i++) {
        _mm256_storeu_pd(lane + DOUBLES * i, acc[i]);
    }
    for (size_t k = whole; k < n; k++) {
        double value = (double)x[k] - mean;
        double square = value * value;
        lane[k - whole] += square;
    }
    return double_lanes_sum(lane);
}

static double plain_sum(const float *x, size_t n)
{
    __m256d acc[DOUBLE_VECTORS];
    for (size_t i = 0; i < DOUBLE_VECTORS; i++) {
        acc[i] = _mm256_setzero_pd();
    }
    size_t whole = n / KERNEL_LANES * KERNEL_LANES;
    for (size_t k = 0; k < whole; k += KERNEL_LANES) {
        UNROLL
        for (size_t i = 0; i < DOUBLE_VECTORS; i++) {
            acc[i] = _mm256_add_pd(acc[i], _mm256_cvtps_pd(_mm_loadu_ps(x + k + DOUBLES * i)));
        }
    }
    double lane[KERNEL_LANES];
    for (size_t i = 0; i < DOUBLE_VECTORS; i++) {
        _mm256_storeu_pd(lane + DOUBLES * i, acc[i]);
    }
    for (size_t k = whole; k < n; k++) {
        lane[k - whole] += (double)x[k];
    }
    return double_lanes_sum(lane);
}

void kernel_rmsnorm_avx2(const float *x, const float *weight, size_t n, float eps, float *out)
{
    double mean = square_sum(x, n, 0.0) / (double)n;
    const __m256 inverse = _mm256_set1_ps((float)(1.0 / sqrt(mean + (double)eps)));
    for (size_t k = 0; k < n; k += VECTOR) {
        __m256i mask = vector_mask(n - k);
        __m256 value = _mm256_mul_ps(_mm256_maskload_ps(x + k, mask), inverse);
        _mm256_maskstore_ps(out + k, mask, _mm256_mul_ps(value, _mm256_maskload_ps(weight + k, mask)));
    }
}

void kernel_layernorm_avx2(const float *x, const float *weight, const float *bias, size_t n, float eps, float *out)
{
    double mean = plain_sum(x, n) / (double)n;
    double variance = square_sum(x, n, mean) / (double)n;
    float inverse = (float)(1.0 / sqrt(variance + (double)eps));
    const __m256d centre = _mm256_set1_pd(mean);
    size_t whole = n / DOUBLES * DOUBLES;
    for (size_t k = 0; k < whole; k += DOUBLES) {
        __m128 centred = _mm256_cvtpd_ps(_mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + k)), centre));
        __m128 scaled = _mm_mul_ps(_mm_mul_ps(centred, _mm_set1_ps(inverse)), _mm_loadu_ps(weight + k));
        _mm_storeu_ps(out + k, _mm_add_ps(scaled, _mm_loadu_ps(bias + k)));
    }
    for (size_t k = whole; k < n; k++) {
        float centred = (float)((double)x[k] - mean);
        out[k] = (centred * inverse) * weight[k] + bias[k];
    }
}

/* ---- attention's small steps ---- */

float kernel_exp_sum_avx2(float *x, size_t n, float max)
{
    const __m256 shift = _mm256_set1_ps(max);
    float sum = 0.0f;
    for (size_t j = 0; j < n; j += VECTOR) {
        size_t count = n - j < VECTOR ? n - j : VECTOR;
        __m256i mask = vector_mask(count);
        __m256 value = vector_exp(_mm256_sub_ps(_mm256_maskload_ps(x + j, mask), shift));
        _mm256_maskstore_ps(x + j, mask, value);
        float stored[VECTOR];
        _mm256_storeu_ps(stored, value);
        for (size_t i = 0; i < count; i++) {
            sum = sum + stored[i];
        }
    }
    return sum;
}

float kernel_max_avx2(const float *x, size_t n)
{
    const __m256 lowest = _mm256_set1_ps(-INFINITY);
    __m256 best = lowest;
    __m256 numbers = _mm256_setzero_ps();
    for (size_t j = 0; j < n; j += VECTOR) {
        __m256i mask = vector_mask(n - j);
        __m256 value = _mm256_maskload_ps(x + j, mask);
        __m256 number = _mm256_and_ps(_mm256_cmp_ps(value, value, _CMP_ORD_Q), _mm256_castsi256_ps(mask));
        numbers = _mm256_or_ps(numbers, number);
        best = _mm256_max_ps(_mm256_blendv_ps(lowest, value, number), best);
    }
    if (n > 0 && _mm256_movemask_ps(numbers) == 0) {
        return NAN;
    }
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(best), _mm256_extractf128_ps(best, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    float result = _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
    return result + 0.0f;
}

void kernel_index_combine_avx2(const float *w, size_t heads, const float *s, size_t s_stride, size_t n,
                               float head_scale, float *out)
{
    const __m256 zero = _mm256_setzero_ps();
    const __m256 scale = _mm256_set1_ps(head_scale);
    for (size_t j = 0; j < n; j += 2 * VECTOR) {
        __m256i mask[2] = {vector_mask(n - j), vector_mask(n - j < VECTOR ? 0 : n - j - VECTOR)};
        __m256 sum[2] = {zero, zero};
        for (size_t h = 0; h < heads; h++) {
            const __m256 weight = _mm256_broadcast_ss(w + h);
            UNROLL
            for (size_t i = 0; i < 2; i++) {
                __m256 score = _mm256_maskload_ps(s + h * s_stride + j + VECTOR * i, mask[i]);
                sum[i] = _mm256_fmadd_ps(weight, _mm256_max_ps(score, zero), sum[i]);
            }
        }
        UNROLL
        for (size_t i = 0; i < 2; i++) {
            _mm256_maskstore_ps(out + j + VECTOR * i, mask[i], _mm256_mul_ps(sum[i], scale));
        }
    }
}
