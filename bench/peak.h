/* The rate at which one core issues fma: the limit of work bound by arithmetic. */
#ifndef SLUICE_BENCH_PEAK_H
#define SLUICE_BENCH_PEAK_H

#include <stddef.h>

/* Multiplications and additions done by one round of bench_peak_run. */
#define BENCH_PEAK_MACS (12 * 8)

/* `rounds` times twelve independent 8-wide fma in registers. Needs AVX2 and FMA; x86-64 builds only. */
float bench_peak_run(size_t rounds);

#endif
