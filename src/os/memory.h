/* How much memory there is, and how much this process uses. */
#ifndef SLUICE_OS_MEMORY_H
#define SLUICE_OS_MEMORY_H

#include <stdint.h>

/* None of these allocates, fails or caches: where the system does not tell, the next best figure is returned. */

/* Smallest of physical memory and the limits of this process's cgroups (v1 and v2, every ancestor). */
uint64_t memory_limit_bytes(void);

uint64_t memory_rss_bytes(void);      /* resident now */
uint64_t memory_peak_rss_bytes(void); /* most ever resident (VmHWM) */

#endif
