/* Checked allocation.
 *
 * Sizes come from files, so every product is checked here instead of at each caller. A request for nothing still
 * returns memory: NULL always means failure. */
#include "base/alloc.h"

#include <stdlib.h>

#define CACHE_LINE 64

bool size_mul(size_t a, size_t b, size_t *out)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *out = product;
    return true;
}

bool size_add(size_t a, size_t b, size_t *out)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return false;
    }
    *out = sum;
    return true;
}

void *mem_zalloc(size_t n, size_t size)
{
    size_t bytes;
    if (!size_mul(n, size, &bytes)) {
        return NULL;
    }
    return calloc(bytes > 0 ? bytes : 1, 1);
}

void *mem_alloc_aligned(size_t n, size_t size)
{
    size_t bytes;
    if (!size_mul(n, size, &bytes) || !size_add(bytes, CACHE_LINE - 1, &bytes)) {
        return NULL;
    }
    bytes &= ~(size_t)(CACHE_LINE - 1);
    return aligned_alloc(CACHE_LINE, bytes > 0 ? bytes : CACHE_LINE);
}
