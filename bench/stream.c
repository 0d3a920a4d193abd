/* Streaming read: see stream.h.
 *
 * Four streams at a time and asking ahead are faster than one plain pass; eight independent sums never wait
 * for each other. So the loads are what is measured, and the limit is one that no kernel passes easily. */
#include "bench/stream.h"

#include <stdatomic.h>

#include "base/clock.h"

#define STREAMS 4
#define LINE_WORDS 8
#define READ_AHEAD 2048
#define PIECE_BYTES ((size_t)1 << 19)

uint64_t bench_stream_read(const void *data, size_t bytes)
{
    const uint64_t *words = data;
    uint64_t sums[LINE_WORDS] = {0};
    size_t quarter = bytes / sizeof *words / STREAMS / LINE_WORDS * LINE_WORDS;
    for (size_t i = 0; i < quarter; i += LINE_WORDS) {
        for (size_t stream = 0; stream < STREAMS; stream++) {
            __builtin_prefetch((const char *)(words + stream * quarter + i) + READ_AHEAD);
            for (size_t lane = 0; lane < LINE_WORDS; lane++) {
                sums[lane] += words[stream * quarter + i + lane];
            }
        }
    }
    for (size_t lane = 1; lane < LINE_WORDS; lane++) {
        sums[0] ^= sums[lane];
    }
    return sums[0];
}

struct stream_job {
    const char *data;
    size_t bytes;
    _Atomic uint64_t sum; /* keeps the reads alive */
};

static void read_pieces(void *arg, unsigned worker, size_t begin, size_t end)
{
    struct stream_job *job = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        size_t left = job->bytes - i * PIECE_BYTES;
        size_t bytes = left < PIECE_BYTES ? left : PIECE_BYTES;
        atomic_fetch_add(&job->sum, bench_stream_read(job->data + i * PIECE_BYTES, bytes));
    }
}

double bench_stream_measure(struct thread_pool *pool, const void *data, size_t bytes)
{
    struct stream_job job = {.data = data, .bytes = bytes};
    double start = clock_seconds();
    thread_pool_run(pool, read_pieces, &job, (bytes + PIECE_BYTES - 1) / PIECE_BYTES, 1);
    return (double)bytes / (clock_seconds() - start);
}
