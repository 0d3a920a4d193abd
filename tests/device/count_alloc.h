/* Counts what the code under test takes from the heap, by -Wl,--wrap of the allocators. */
#ifndef SLUICE_TESTS_DEVICE_COUNT_ALLOC_H
#define SLUICE_TESTS_DEVICE_COUNT_ALLOC_H

#include <stddef.h>

void count_alloc_start(void); /* sets both counters to 0 */
void count_alloc_stop(void);
size_t count_alloc_calls(void);
size_t count_alloc_bytes(void);

#endif
