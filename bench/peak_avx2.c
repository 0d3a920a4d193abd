/* See peak.h. Twelve chains cover the latency of fma on every AVX2 processor. */
#include <immintrin.h>

#include "bench/peak.h"

#define CHAINS 12

float bench_peak_run(size_t rounds)
{
    __m256 chain[CHAINS];
    __m256 factor = _mm256_set1_ps(0.999f);
    __m256 term = _mm256_set1_ps(0.001f);

    for (size_t i = 0; i < CHAINS; i++) {
        chain[i] = _mm256_set1_ps((float)i);
    }
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < CHAINS; i++) {
            chain[i] = _mm256_fmadd_ps(chain[i], factor, term);
        }
    }
    for (size_t i = 1; i < CHAINS; i++) {
        chain[0] = _mm256_add_ps(chain[0], chain[i]);
    }
    return _mm256_cvtss_f32(chain[0]);
}
