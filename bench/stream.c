/* Streaming read: see stream.h.
 *
 * Each item is a piece of memory that one thread sums up in eight independent accumulators, so that the
 * additions never wait for each other and the loads are what is measured. */
#include "bench/stream.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"

#define PIECE_WORDS ((size_t)1 << 16) /* 512 KiB */
#define ACCUMULATORS 8

struct stream_job {
    const uint64_t *words;
    _Atomic uint64_t sum; /* keeps the reads alive */
};

static void piece_sum(void *arg, unsigned worker, size_t begin, size_t end)
{
    struct stream_job *job = arg;
    uint64_t sums[ACCUMULATORS] = {0};

    (void)worker;
    for (size_t i = begin * PIECE_WORDS; i < end * PIECE_WORDS; i += ACCUMULATORS) {
        for (size_t lane = 0; lane < ACCUMULATORS; lane++) {
            sums[lane] += job->words[i + lane];
        }
    }
    for (size_t lane = 1; lane < ACCUMULATORS; lane++) {
        sums[0] += sums[lane];
    }
    atomic_fetch_add(&job->sum, sums[0]);
}

sluice_status bench_stream_open(struct bench_stream *out, unsigned threads, size_t bytes, sluice_error *err)
{
    struct bench_stream stream = {0};

    TRY(thread_pool_open(&stream.pool, threads, err));
    sluice_status status = os_pages_alloc(&stream.pages, bytes, err);
    if (status != SLUICE_OK) {
        thread_pool_close(&stream.pool);
        return status;
    }
    memset(stream.pages.data, 1, bytes); /* pages that were never written may all be one */
    *out = stream;
    return SLUICE_OK;
}

void bench_stream_close(struct bench_stream *stream)
{
    thread_pool_close(&stream->pool);
    os_pages_free(&stream->pages);
}

double bench_stream_measure(struct bench_stream *stream)
{
    struct stream_job job = {.words = stream->pages.data};
    size_t pieces = stream->pages.size / (PIECE_WORDS * sizeof(uint64_t));
    double start = clock_seconds();

    thread_pool_run(stream->pool, piece_sum, &job, pieces, 1);
    return (double)(pieces * PIECE_WORDS * sizeof(uint64_t)) / (clock_seconds() - start);
}
