/* Benchmarks of the project, kept apart from the library because they print.
 *
 * Every figure is a ratio against a limit that the same run measured, interleaved with the case itself
 * (docs/performance.md says how to read them). */
#ifndef SLUICE_BENCH_BENCH_H
#define SLUICE_BENCH_BENCH_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "sluice/sluice.h"

/* Measures every CPU kernel in each version among `features` (a mask of enum cpu_feature) and writes one
 * line a case, then one JSON line a case, to `out`. Takes under a minute and a few hundred MB.
 * Returns 0, or 1 when memory is too short. */
int bench_kernels(FILE *out, uint32_t features);

/* What this machine has among the instruction sets of a --cpu-features list; NULL: all of it. */
sluice_status bench_features_parse(const char *list, uint32_t *out, sluice_error *err);

struct bench_decode_options {
    uint32_t prompt_tokens; /* at least 1, and */
    uint32_t tokens;        /* decoded in a run: together they fit the engine's context */
    uint32_t runs;          /* at least 1, after one that is not measured */
};

/* Measures decoding on an open engine that has room for a session, and writes four lines for people and one JSON
 * line. The streaming read goes over the engine's own spine, so the plan holds. */
sluice_status bench_decode(FILE *out, sluice_engine *engine, const struct bench_decode_options *options,
                           sluice_error *err);

#endif
