/* Wrapped allocation functions that count and, once, fail. */
#include "support/fault_alloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static atomic_int failing = -1;
static atomic_int count;
static atomic_size_t bytes;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
int __real_posix_memalign(void **out, size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
int __wrap_posix_memalign(void **out, size_t align, size_t size);

void fault_alloc_fail(int nth)
{
    atomic_store(&count, 0);
    atomic_store(&bytes, 0);
    atomic_store(&failing, nth);
}

int fault_alloc_count(void)
{
    return atomic_load(&count);
}

size_t fault_alloc_bytes(void)
{
    return atomic_load(&bytes);
}

static bool fails(size_t size)
{
    atomic_fetch_add(&bytes, size);
    return atomic_fetch_add(&count, 1) == atomic_load(&failing);
}

void *__wrap_malloc(size_t size)
{
    return fails(size) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails(n * size) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails(size) ? NULL : __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    return fails(size) ? NULL : __real_aligned_alloc(align, size);
}

int __wrap_posix_memalign(void **out, size_t align, size_t size)
{
    return fails(size) ? ENOMEM : __real_posix_memalign(out, align, size);
}
