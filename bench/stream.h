/* A streaming read of memory: the limit that work bound by memory is measured against. */
#ifndef SLUICE_BENCH_STREAM_H
#define SLUICE_BENCH_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "os/thread_pool.h"

/* Reads `bytes` bytes (64-byte lines; a rest is left out) and returns something that depends on all of them. */
uint64_t bench_stream_read(const void *data, size_t bytes);

/* Reads all of it once with all threads of the pool; bytes a second. */
double bench_stream_measure(struct thread_pool *pool, const void *data, size_t bytes);

#endif
