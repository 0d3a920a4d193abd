/* Fork-join: every item once, by at most `size` workers, whatever the sizes; and the ends of a pool's life. */
#include "tests.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults.h"
#include "os/thread.h"
#include "os/thread_pool.h"
#include "support/fault_alloc.h"

enum { ITEMS_MAX = 5000, WORKERS_MAX = 64 };

static const unsigned pool_sizes[] = {1, 2, 3, 7};
#define N_POOL_SIZES (sizeof(pool_sizes) / sizeof(pool_sizes[0]))

/* ---- Every item once ------------------------------------------------------------------------------ */

struct job {
    unsigned size; /* of the pool */
    size_t n;
    size_t grain;
    unsigned char done[ITEMS_MAX]; /* plain memory: a thread sanitizer sees who writes it */
    atomic_bool inside[WORKERS_MAX];
    atomic_uint wrong;
};

static void count_items(void *arg, unsigned worker, size_t begin, size_t end)
{
    struct job *job = arg;
    bool good = worker < job->size && begin < end && end <= job->n && end - begin <= job->grain;
    if (!good || atomic_exchange(&job->inside[worker], true)) {
        atomic_fetch_add(&job->wrong, 1);
        return;
    }
    for (size_t i = begin; i < end; i++) {
        job->done[i]++;
    }
    atomic_store(&job->inside[worker], false);
}

static void assert_job(struct thread_pool *pool, size_t n, size_t grain)
{
    static struct job job;
    memset(job.done, 0, sizeof(job.done));
    job.size = thread_pool_size(pool);
    job.n = n;
    job.grain = grain > 0 ? grain : 1;
    thread_pool_run(pool, count_items, &job, n, grain);
    assert_int_equal(atomic_load(&job.wrong), 0);
    for (size_t i = 0; i < ITEMS_MAX; i++) {
        assert_int_equal(job.done[i], i < n);
    }
}

static void run_covers_every_item_once(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 6, 7, 8, 100, 4999};
    static const size_t grains[] = {0, 1, 2, 7, 64, 4998, 100000, SIZE_MAX};
    for (size_t s = 0; s < N_POOL_SIZES; s++) {
        struct thread_pool *pool;
        assert_int_equal(thread_pool_open(&pool, pool_sizes[s], NULL), SLUICE_OK);
        assert_int_equal(thread_pool_size(pool), pool_sizes[s]);
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            for (size_t j = 0; j < sizeof(grains) / sizeof(grains[0]); j++) {
                assert_job(pool, counts[i], grains[j]);
            }
        }
        thread_pool_close(&pool);
        assert_null(pool);
    }
}

struct range_log {
    atomic_size_t items; /* sum of lengths, modulo 2^64 */
    atomic_uint chunks;
};

static void log_range(void *arg, unsigned worker, size_t begin, size_t end)
{
    struct range_log *log = arg;
    (void)worker;
    atomic_fetch_add(&log->items, end - begin);
    atomic_fetch_add(&log->chunks, 1);
}

/* The ends of chunks must not overflow. */
static void run_covers_the_largest_range(void **state)
{
    (void)state;
    struct thread_pool *pool;
    struct range_log log = {0};
    assert_int_equal(thread_pool_open(&pool, 3, NULL), SLUICE_OK);
    thread_pool_run(pool, log_range, &log, SIZE_MAX, SIZE_MAX / 4 - 5);
    assert_true(atomic_load(&log.items) == SIZE_MAX);
    assert_int_equal(atomic_load(&log.chunks), 5);
    thread_pool_close(&pool);
}

/* ---- Many jobs ------------------------------------------------------------------------------------ */

struct sum {
    uint64_t parts[WORKERS_MAX][8]; /* one cache line a worker */
    uint64_t scale;                 /* written by the caller between jobs */
};

static void add_items(void *arg, unsigned worker, size_t begin, size_t end)
{
    struct sum *sum = arg;
    for (size_t i = begin; i < end; i++) {
        sum->parts[worker][0] += sum->scale * i;
    }
}

/* Jobs in a row, and jobs that find the workers asleep. The sums are plain memory: what a job wrote must be seen by
 * the caller and by the next job's workers. */
static void jobs_follow_one_another(void **state)
{
    (void)state;
    static struct sum sum;
    for (size_t s = 0; s < N_POOL_SIZES; s++) {
        struct thread_pool *pool;
        uint64_t expected = 0;
        memset(&sum, 0, sizeof(sum));
        assert_int_equal(thread_pool_open(&pool, pool_sizes[s], NULL), SLUICE_OK);
        for (uint64_t i = 0; i < 3000; i++) {
            size_t n = i % 23;
            sum.scale = i;
            thread_pool_run(pool, add_items, &sum, n, 1 + i % 3);
            expected += n > 0 ? i * (n * (n - 1) / 2) : 0;
            if (i % 100 == 0) {
                usleep(300);
            }
        }
        uint64_t total = 0;
        for (size_t i = 0; i < WORKERS_MAX; i++) {
            total += sum.parts[i][0];
        }
        assert_int_equal(total, expected);
        thread_pool_close(&pool);
    }
}

static void sleep_then_mark(void *arg, unsigned worker, size_t begin, size_t end)
{
    atomic_uint *marks = arg;
    (void)worker;
    usleep(2000);
    atomic_fetch_add(marks, (unsigned)(end - begin));
}

/* Long items, an odd number of them: the caller has to sleep until the last worker is out. */
static void caller_waits_for_slow_workers(void **state)
{
    (void)state;
    for (unsigned size = 2; size <= 3; size++) {
        struct thread_pool *pool;
        atomic_uint marks = 0;
        assert_int_equal(thread_pool_open(&pool, size, NULL), SLUICE_OK);
        for (unsigned i = 1; i <= 10; i++) {
            thread_pool_run(pool, sleep_then_mark, &marks, 5, 1);
            assert_int_equal(atomic_load(&marks), 5 * i);
        }
        thread_pool_close(&pool);
    }
}

struct meeting {
    unsigned size;
    atomic_uint arrived;
    atomic_uint missed;
};

/* Each item waits for all others, so every worker has to come. */
static void meet(void *arg, unsigned worker, size_t begin, size_t end)
{
    struct meeting *meeting = arg;
    (void)worker, (void)begin, (void)end;
    atomic_fetch_add(&meeting->arrived, 1);
    for (int i = 0; atomic_load(&meeting->arrived) < meeting->size; i++) {
        if (i == 20000) {
            atomic_fetch_add(&meeting->missed, 1);
            return;
        }
        usleep(500);
    }
}

static void sleeping_workers_are_woken(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_POOL_SIZES; s++) {
        struct thread_pool *pool;
        assert_int_equal(thread_pool_open(&pool, pool_sizes[s], NULL), SLUICE_OK);
        for (unsigned i = 0; i < 5; i++) {
            struct meeting meeting = {.size = pool_sizes[s]};
            usleep(3000);
            thread_pool_run(pool, meet, &meeting, pool_sizes[s], 1);
            assert_int_equal(atomic_load(&meeting.missed), 0);
        }
        thread_pool_close(&pool);
    }
}

static void run_allocates_nothing(void **state)
{
    (void)state;
    static struct sum sum;
    struct thread_pool *pool;
    assert_int_equal(thread_pool_open(&pool, 3, NULL), SLUICE_OK);
    fault_alloc_fail(-1);
    for (unsigned i = 0; i < 100; i++) {
        thread_pool_run(pool, add_items, &sum, 50, 1);
    }
    assert_int_equal(fault_alloc_count(), 0);
    thread_pool_close(&pool);
}

/* ---- Life of a pool ------------------------------------------------------------------------------- */

static void open_checks_its_size(void **state)
{
    (void)state;
    static const unsigned bad[] = {0, 1025, UINT32_MAX};
    for (size_t i = 0; i < 3; i++) {
        struct thread_pool *pool = (struct thread_pool *)&pool;
        sluice_error err;
        assert_int_equal(thread_pool_open(&pool, bad[i], &err), SLUICE_INVALID);
        assert_non_null(strstr(err.message, "must be from 1 to 1024"));
        assert_ptr_equal(pool, &pool);
    }
}

static void open_fails_cleanly(void **state)
{
    (void)state;
    struct thread_pool *pool = NULL;
    sluice_error err;
    fault_alloc_fail(0);
    assert_int_equal(thread_pool_open(&pool, 4, &err), SLUICE_NO_MEMORY);
    for (int nth = 0; nth < 3; nth++) {
        fault_fail(FAULT_THREAD, nth, EAGAIN);
        assert_int_equal(thread_pool_open(&pool, 4, &err), SLUICE_NO_MEMORY);
        assert_int_equal(err.os_errno, EAGAIN);
        assert_memory_equal(err.message, "thread pool: cannot start thread ", 33);
        assert_int_equal(err.message[33], '2' + nth);
    }
    assert_null(pool);
}

static void pools_open_and_close(void **state)
{
    (void)state;
    struct thread_pool *pool = NULL;
    thread_pool_close(&pool);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(thread_pool_open(&pool, 1 + i % 7, NULL), SLUICE_OK);
        if (i % 2 == 0) {
            assert_job(pool, 10, 1);
        }
        thread_pool_close(&pool);
    }
}

static void pools_may_be_large(void **state)
{
    (void)state;
    struct thread_pool *pool;
    assert_int_equal(thread_pool_open(&pool, WORKERS_MAX, NULL), SLUICE_OK);
    for (unsigned i = 0; i < 20; i++) {
        assert_job(pool, ITEMS_MAX, 3);
    }
    thread_pool_close(&pool);
}

#if !defined(NDEBUG) && !defined(__SANITIZE_THREAD__)
static void run_inside(void *arg, unsigned worker, size_t begin, size_t end)
{
    (void)worker, (void)begin, (void)end;
    thread_pool_run(arg, run_inside, arg, 1, 1);
}

static void nested_run_is_caught(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct thread_pool *pool;
        close(STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        if (thread_pool_open(&pool, 1, NULL) == SLUICE_OK) {
            thread_pool_run(pool, run_inside, pool, 1, 1);
        }
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
#endif

/* ---- Threads -------------------------------------------------------------------------------------- */

struct thread_facts {
    sigset_t mask;
    char name[16];
};

static void *note_facts(void *arg)
{
    struct thread_facts *facts = arg;
    pthread_sigmask(SIG_SETMASK, NULL, &facts->mask);
    for (int i = 0; i < 1000 && strcmp(facts->name, "sluice-test") != 0; i++) { /* the creator sets it */
        pthread_getname_np(pthread_self(), facts->name, sizeof(facts->name));
        usleep(100);
    }
    return NULL;
}

static void threads_take_no_signals(void **state)
{
    (void)state;
    struct thread_facts facts = {0};
    pthread_t thread;
    sigset_t mask;
    assert_int_equal(os_thread_start(&thread, note_facts, &facts, "sluice-test"), 0);
    pthread_join(thread, NULL);
    assert_int_equal(sigismember(&facts.mask, SIGINT), 1);
    assert_int_equal(sigismember(&facts.mask, SIGTERM), 1);
    assert_string_equal(facts.name, "sluice-test");
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGINT), 0);
    fault_fail(FAULT_THREAD, 0, EAGAIN);
    assert_int_equal(os_thread_start(&thread, note_facts, &facts, "sluice-test"), EAGAIN);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGINT), 0);
}

int run_thread_pool_tests(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_covers_every_item_once),
        cmocka_unit_test(run_covers_the_largest_range),
        cmocka_unit_test(jobs_follow_one_another),
        cmocka_unit_test(caller_waits_for_slow_workers),
        cmocka_unit_test(sleeping_workers_are_woken),
        cmocka_unit_test(run_allocates_nothing),
        cmocka_unit_test(open_checks_its_size),
        cmocka_unit_test_teardown(open_fails_cleanly, fault_reset),
        cmocka_unit_test(pools_open_and_close),
        cmocka_unit_test(pools_may_be_large),
#if !defined(NDEBUG) && !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(nested_run_is_caught),
#endif
        cmocka_unit_test_teardown(threads_take_no_signals, fault_reset),
    };
    return cmocka_run_group_tests_name("thread pool", tests, NULL, NULL);
}
