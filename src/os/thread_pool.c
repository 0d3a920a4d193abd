/* Fork-join.
 *
 * One 32-bit word tells everything about the current job: bits 31..16 its generation, bit 15 whether it is open,
 * bits 14..0 how many workers are inside. A worker enters by adding one to the word it saw open, so it is counted
 * before it reads the job; the caller closes the job when no chunk is left and waits only for the workers inside.
 * A worker that the system delays thus never delays a job that it has not entered: it finds it closed and waits
 * for the next. The job's fields are written while no worker can be inside.
 *
 * Waiting is spinning for a few tens of microseconds, the distance between two jobs of a layer, then a futex.
 * Where there are fewer processors than threads nobody spins. The generation may wrap around: a worker that slept
 * through exactly 65,536 jobs misses one, and its chunks are done by others. */
#include "os/thread_pool.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "os/cpu.h"
#include "os/thread.h"

#define SIZE_LIMIT 1024
#define SPIN_NANOSECONDS 30000
#define SPINS_PER_LOOK 64 /* pauses between two looks at the clock */
#define CACHE_LINE 64

#define STATE_ACTIVE 0x7FFFu /* mask: workers inside */
#define STATE_OPEN 0x8000u
#define STATE_GENERATION 0xFFFF0000u
#define STATE_NEXT 0x10000u /* one generation */

struct worker {
    struct thread_pool *pool;
    unsigned index; /* 1..size-1; the caller is 0 */
    pthread_t thread;
};

struct thread_pool {
    /* the job; written by the caller while it is closed and empty, read by workers inside */
    thread_pool_task *task;
    void *arg;
    size_t n;
    size_t grain;
    size_t n_chunks;

    unsigned size;
    unsigned n_started;
    bool spins;
    atomic_bool busy; /* a job runs; to find misuse */
    atomic_bool closing;

    _Alignas(CACHE_LINE) atomic_size_t next_chunk;
    _Alignas(CACHE_LINE) _Atomic uint32_t state;
    atomic_uint sleepers;                          /* workers in, or about to enter, the futex of state */
    _Alignas(CACHE_LINE) _Atomic uint32_t emptied; /* counts jobs that a worker left last, after they were closed */
    atomic_bool caller_sleeps;

    _Alignas(CACHE_LINE) struct worker workers[];
};

/* ---- Waiting -------------------------------------------------------------------------------------- */

static void futex_wait(_Atomic uint32_t *word, uint32_t expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A job that this worker has not seen yet, or the end of the pool. */
static bool is_news(const struct thread_pool *pool, uint32_t state, uint32_t seen)
{
    return ((state & STATE_OPEN) != 0 && (state & STATE_GENERATION) != seen) || atomic_load(&pool->closing);
}

static bool is_empty(uint32_t state)
{
    return (state & STATE_ACTIVE) == 0;
}

/* Waits until there is news; false when the pool closes. */
static bool wait_for_job(struct thread_pool *pool, uint32_t seen)
{
    if (pool->spins) {
        int64_t deadline = nanoseconds() + SPIN_NANOSECONDS;
        do {
            for (unsigned i = 0; i < SPINS_PER_LOOK; i++) {
                if (is_news(pool, atomic_load_explicit(&pool->state, memory_order_relaxed), seen)) {
                    return !atomic_load(&pool->closing);
                }
                cpu_relax();
            }
        } while (nanoseconds() < deadline);
    }
    for (;;) {
        /* announced before the last look: whoever opens a job after that look sees a sleeper to wake */
        atomic_fetch_add(&pool->sleepers, 1);
        uint32_t state = atomic_load(&pool->state);
        bool news = is_news(pool, state, seen);
        if (!news) {
            futex_wait(&pool->state, state);
        }
        atomic_fetch_sub(&pool->sleepers, 1);
        if (news) {
            return !atomic_load(&pool->closing);
        }
    }
}

/* Waits until no worker is inside the job that the caller has closed. */
static void wait_until_empty(struct thread_pool *pool)
{
    if (pool->spins) {
        int64_t deadline = nanoseconds() + SPIN_NANOSECONDS;
        do {
            for (unsigned i = 0; i < SPINS_PER_LOOK; i++) {
                if (is_empty(atomic_load(&pool->state))) {
                    return;
                }
                cpu_relax();
            }
        } while (nanoseconds() < deadline);
    }
    atomic_store(&pool->caller_sleeps, true);
    for (;;) {
        uint32_t emptied = atomic_load(&pool->emptied);
        if (is_empty(atomic_load(&pool->state))) {
            break;
        }
        futex_wait(&pool->emptied, emptied);
    }
    atomic_store(&pool->caller_sleeps, false);
}

/* ---- A job ---------------------------------------------------------------------------------------- */

static void compute_chunks(struct thread_pool *pool, unsigned worker)
{
    for (;;) {
        size_t chunk = atomic_fetch_add_explicit(&pool->next_chunk, 1, memory_order_relaxed);
        if (chunk >= pool->n_chunks) {
            return;
        }
        size_t begin = chunk * pool->grain;
        size_t rest = pool->n - begin;
        pool->task(pool->arg, worker, begin, begin + (rest < pool->grain ? rest : pool->grain));
    }
}

/* Counts this worker into the open job; false when it was closed meanwhile. */
static bool enter(struct thread_pool *pool, uint32_t *seen)
{
    uint32_t state = atomic_load(&pool->state);
    while ((state & STATE_OPEN) != 0 && (state & STATE_GENERATION) != *seen) {
        if (atomic_compare_exchange_weak(&pool->state, &state, state + 1)) {
            *seen = state & STATE_GENERATION;
            return true;
        }
    }
    return false;
}

static void leave(struct thread_pool *pool)
{
    uint32_t state = atomic_fetch_sub(&pool->state, 1) - 1;
    if ((state & STATE_OPEN) == 0 && is_empty(state)) {
        atomic_fetch_add(&pool->emptied, 1);
        if (atomic_load(&pool->caller_sleeps)) {
            futex_wake(&pool->emptied, 1);
        }
    }
}

static void *worker_run(void *arg)
{
    struct worker *worker = arg;
    uint32_t seen = 0;
    while (wait_for_job(worker->pool, seen)) {
        if (enter(worker->pool, &seen)) {
            compute_chunks(worker->pool, worker->index);
            leave(worker->pool);
        }
    }
    return NULL;
}

/* Opens the job to the workers and wakes as many as it has chunks for. */
static void open_job(struct thread_pool *pool)
{
    uint32_t generation = (atomic_load(&pool->state) & STATE_GENERATION) + STATE_NEXT;
    atomic_store(&pool->state, generation | STATE_OPEN);

    size_t sleepers = atomic_load(&pool->sleepers);
    size_t useful = pool->n_chunks - 1;
    if (sleepers > 0) {
        futex_wake(&pool->state, (int)(useful < sleepers ? useful : sleepers));
    }
}

static void close_job(struct thread_pool *pool)
{
    if (!is_empty(atomic_fetch_and(&pool->state, ~STATE_OPEN))) {
        wait_until_empty(pool);
    }
}

void thread_pool_run(struct thread_pool *pool, thread_pool_task *task, void *arg, size_t n, size_t grain)
{
    bool busy = atomic_exchange(&pool->busy, true);
    assert(!busy); /* a task must not run a job, nor two threads at once */
    (void)busy;

    pool->task = task;
    pool->arg = arg;
    pool->n = n;
    pool->grain = grain > 0 ? grain : 1;
    pool->n_chunks = n / pool->grain + (n % pool->grain != 0);
    atomic_store_explicit(&pool->next_chunk, 0, memory_order_relaxed);
    if (pool->size == 1 || pool->n_chunks <= 1) {
        compute_chunks(pool, 0);
    } else {
        open_job(pool);
        compute_chunks(pool, 0);
        close_job(pool);
    }
    atomic_store(&pool->busy, false);
}

/* ---- The pool ------------------------------------------------------------------------------------- */

/* A pool without workers, NULL when memory is out. */
static struct thread_pool *pool_new(unsigned size)
{
    size_t bytes = sizeof(struct thread_pool) + size * sizeof(struct worker);
    struct thread_pool *pool = mem_alloc_aligned(bytes, 1);
    if (pool != NULL) {
        memset(pool, 0, bytes);
        pool->size = size;
        pool->spins = size <= cpu_count();
    }
    return pool;
}

sluice_status thread_pool_open(struct thread_pool **out, unsigned size, sluice_error *err)
{
    if (size < 1 || size > SIZE_LIMIT) {
        return error_set(err, SLUICE_INVALID, "thread pool: %u threads, must be from 1 to %d", size, SIZE_LIMIT);
    }
    struct thread_pool *pool = pool_new(size);
    if (pool == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "thread pool: out of memory for %u threads", size);
    }
    for (unsigned i = 1; i < size; i++) {
        struct worker *worker = &pool->workers[i - 1];
        worker->pool = pool;
        worker->index = i;
        int failure = os_thread_start(&worker->thread, worker_run, worker, "sluice-compute");
        if (failure != 0) {
            thread_pool_close(&pool);
            return error_set_errno(err, SLUICE_NO_MEMORY, failure, "thread pool: cannot start thread %u of %u", i + 1,
                                   size);
        }
        pool->n_started++;
    }
    *out = pool;
    return SLUICE_OK;
}

void thread_pool_close(struct thread_pool **pool_ptr)
{
    struct thread_pool *pool = *pool_ptr;
    if (pool == NULL) {
        return;
    }
    atomic_store(&pool->closing, true);
    atomic_fetch_add(&pool->state, STATE_NEXT); /* a worker about to sleep sees the word changed */
    futex_wake(&pool->state, INT_MAX);
    for (unsigned i = 0; i < pool->n_started; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    free(pool);
    *pool_ptr = NULL;
}

unsigned thread_pool_size(const struct thread_pool *pool)
{
    return pool->size;
}
