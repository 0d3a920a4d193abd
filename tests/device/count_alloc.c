/* See count_alloc.h. Any thread may allocate while counting is on. */
#include "device/count_alloc.h"

#include <stdatomic.h>
#include <stdbool.h>

static atomic_bool counting;
static atomic_size_t calls, bytes;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
int __real_posix_memalign(void **out, size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
int __wrap_posix_memalign(void **out, size_t align, size_t size);

static void count(size_t size)
{
    if (atomic_load(&counting)) {
        atomic_fetch_add(&calls, 1);
        atomic_fetch_add(&bytes, size);
    }
}

void *__wrap_malloc(size_t size)
{
    count(size);
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    count(n * size);
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    count(size);
    return __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    count(size);
    return __real_aligned_alloc(align, size);
}

int __wrap_posix_memalign(void **out, size_t align, size_t size)
{
    count(size);
    return __real_posix_memalign(out, align, size);
}

void count_alloc_start(void)
{
    atomic_store(&calls, 0);
    atomic_store(&bytes, 0);
    atomic_store(&counting, true);
}

void count_alloc_stop(void)
{
    atomic_store(&counting, false);
}

size_t count_alloc_calls(void)
{
    return atomic_load(&calls);
}

size_t count_alloc_bytes(void)
{
    return atomic_load(&bytes);
}
