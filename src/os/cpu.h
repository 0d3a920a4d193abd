/* What the processor can do. Compiled without any instruction-set flag. */
#ifndef SLUICE_OS_CPU_H
#define SLUICE_OS_CPU_H

#include <stdint.h>

#include "base/error.h"

enum cpu_feature {
    CPU_AVX2 = 1u << 0, /* AVX2 and FMA, and the system saves the registers */
};

/* Every feature of this machine. */
uint32_t cpu_features(void);

/* Parses a list such as "avx2" or "scalar" (none) or "all", joined by commas, into a mask, whatever this machine has;
 * an unknown or empty name is SLUICE_INVALID. */
sluice_status cpu_features_parse(const char *list, uint32_t *out, sluice_error *err);

/* Processors this process may run on, at least 1. */
unsigned cpu_count(void);

#endif
