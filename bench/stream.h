/* A streaming read of memory: the limit that work bound by memory is measured against. */
#ifndef SLUICE_BENCH_STREAM_H
#define SLUICE_BENCH_STREAM_H

#include <stddef.h>

#include "base/error.h"
#include "os/pages.h"
#include "os/thread_pool.h"

struct bench_stream {
    struct thread_pool *pool;
    struct os_pages pages;
};

/* Threads and memory of its own: `bytes` should be several times the last-level cache. */
sluice_status bench_stream_open(struct bench_stream *out, unsigned threads, size_t bytes, sluice_error *err);
void bench_stream_close(struct bench_stream *stream); /* safe on a zeroed one */

/* Reads all of it once with all threads; bytes a second. */
double bench_stream_measure(struct bench_stream *stream);

#endif
