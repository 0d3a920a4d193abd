/* Benchmarks of the project, kept apart from the library because they print.
 *
 * Every figure is a ratio against a limit that the same run measured, interleaved with the case itself
 * (docs/performance.md says how to read them). */
#ifndef SLUICE_BENCH_BENCH_H
#define SLUICE_BENCH_BENCH_H

#include <stdint.h>
#include <stdio.h>

/* Measures every CPU kernel in each version among `features` (a mask of enum cpu_feature) and writes one
 * line a case, then one JSON line a case, to `out`. Takes under a minute and a few hundred MB.
 * Returns 0, or 1 when memory is too short. */
int bench_kernels(FILE *out, uint32_t features);

#endif
