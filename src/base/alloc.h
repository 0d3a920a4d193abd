/* Checked allocation: sizes are multiplied with an overflow check, failure is NULL. */
#ifndef SLUICE_BASE_ALLOC_H
#define SLUICE_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* a·b or a+b into *out; false on overflow. */
bool size_mul(size_t a, size_t b, size_t *out);
bool size_add(size_t a, size_t b, size_t *out);

/* n zeroed items of `size` bytes; NULL on overflow or when memory is out. free() releases it. */
void *mem_zalloc(size_t n, size_t size);

/* n items of `size` bytes aligned to 64 bytes, contents unspecified; free() releases it. */
void *mem_alloc_aligned(size_t n, size_t size);

#endif
