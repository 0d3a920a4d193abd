/* Making an allocation fail. A test links fault_alloc.c and wraps malloc, calloc, realloc, aligned_alloc and
 * posix_memalign; only calls of objects linked into it are seen, not those inside shared libraries. */
#ifndef SLUICE_TESTS_FAULT_ALLOC_H
#define SLUICE_TESTS_FAULT_ALLOC_H

#include <stddef.h>

/* Makes one allocation fail: the next for 0, the one after for 1. A negative number turns that off. */
void fault_alloc_fail(int nth);

/* Allocations since the last fault_alloc_fail, and the bytes they asked for, on all threads. */
int fault_alloc_count(void);
size_t fault_alloc_bytes(void);

#endif
