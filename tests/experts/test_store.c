/* The store over real files: the life of a slot and its leases, what arrives in it, and what becomes of it when reads
 * fail, stall, or bring a scale that is not finite. Reads are made to fail and to wait by read_fault. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "experts/fixture.h"
#include "experts/layout.h"
#include "experts/read_fault.h"
#include "experts/store.h"
#include "support/fault_alloc.h"

struct bench {
    struct expert_fixture files;
    struct async_reader *reader;
    struct expert_store *store;
};

static const struct fixture_options small = {.layers = 4,
                                             .dense = 1,
                                             .experts = 6,
                                             .k = 2,
                                             .hidden = 64,
                                             .intermediate = 48,
                                             .shards = 2,
                                             .kind = FIXTURE_MIXED,
                                             .skew = 104};

static struct bench *bench_open(const struct fixture_options *options, size_t n_slots, unsigned n_readers)
{
    struct bench *bench = calloc(1, sizeof *bench);
    fixture_make(&bench->files, options);
    assert_int_equal(async_reader_open(&bench->reader, n_readers, NULL), SLUICE_OK);
    assert_int_equal(expert_store_open(&bench->store, &bench->files.container, bench->reader, n_slots, NULL),
                     SLUICE_OK);
    return bench;
}

/* Fails when a lease is still out. */
static void bench_close(struct bench *bench)
{
    assert_int_equal(expert_store_close(&bench->store, NULL), SLUICE_OK);
    assert_null(bench->store);
    async_reader_close(&bench->reader);
    fixture_free(&bench->files);
    free(bench);
}

static struct expert_lease acquire(struct bench *bench, uint32_t layer, uint32_t expert, bool expect_ready)
{
    struct expert_lease lease;
    bool ready;
    assert_int_equal(expert_store_acquire(bench->store, layer, expert, &lease, &ready, NULL), SLUICE_OK);
    assert_int_equal(ready, expect_ready);
    return lease;
}

static sluice_status acquire_status(struct bench *bench, uint32_t layer, uint32_t expert, sluice_error *err)
{
    struct expert_lease lease;
    bool ready;
    return expert_store_acquire(bench->store, layer, expert, &lease, &ready, err);
}

static sluice_status wait_one(struct bench *bench, struct expert_lease lease, sluice_error *err)
{
    size_t which = 99;
    sluice_status status = expert_store_wait(bench->store, &lease, 1, NULL, &which, err);
    assert_int_equal(which, 0);
    return status;
}

static void release(struct bench *bench, struct expert_lease lease)
{
    assert_int_equal(expert_store_release(bench->store, lease, NULL), SLUICE_OK);
}

static void check_view(struct bench *bench, struct expert_lease lease, uint32_t layer, uint32_t expert)
{
    struct expert_weights view;
    assert_int_equal(expert_store_view(bench->store, lease, &view, NULL), SLUICE_OK);
    assert_true(fixture_same(&view, fixture_expert(&bench->files, layer, expert)));
}

/* Reads an expert, compares it and gives it back. */
static void load(struct bench *bench, uint32_t layer, uint32_t expert)
{
    struct expert_lease lease = acquire(bench, layer, expert, false);
    assert_int_equal(wait_one(bench, lease, NULL), SLUICE_OK);
    check_view(bench, lease, layer, expert);
    release(bench, lease);
}

static void pause_ms(long ms)
{
    const struct timespec time = {.tv_nsec = ms * 1000000};
    nanosleep(&time, NULL);
}

/* ---- What arrives ---- */

/* Every expert, whatever its offsets, gaps and shards, arrives byte for byte. */
static void test_every_placement(void **state)
{
    (void)state;
    static const uint32_t skews[] = {0, 4, 3, 4097, 5000}, gaps[] = {0, 0, 0, 1, 12};
    for (size_t i = 0; i < 5; i++) {
        struct fixture_options options = small;
        options.skew = skews[i];
        options.gap = gaps[i];
        options.shards = 1 + (uint32_t)i;
        struct bench *bench = bench_open(&options, 100, 2);
        assert_int_equal(expert_store_slots(bench->store), 3 * 6);
        for (uint32_t layer = 1; layer < 4; layer++) {
            for (uint32_t expert = 0; expert < 6; expert++) {
                load(bench, layer, expert);
            }
        }
        bench_close(bench);
    }
}

/* An expert of several megabytes is read in parts by several threads. */
static void test_parts(void **state)
{
    (void)state;
    struct fixture_options options = {.layers = 1,
                                      .experts = 2,
                                      .k = 1,
                                      .hidden = 1024,
                                      .intermediate = 1536,
                                      .shards = 1,
                                      .kind = QUANT_INT8_ROW,
                                      .skew = 1000};
    struct bench *bench = bench_open(&options, 2, 3);
    unsigned before = read_fault_count();
    load(bench, 0, 0);
    assert_true(read_fault_count() - before >= 3);
    load(bench, 0, 1);
    struct expert_store_stats stats;
    expert_store_get_stats(bench->store, &stats);
    uint64_t payload = 2 * (3 * 1024 * 1536 + (1024 + 2 * 1536) * sizeof(float));
    assert_true(stats.bytes_read >= payload && stats.bytes_read <= payload + 8 * 4096);
    bench_close(bench);
}

static void test_sizes(void **state)
{
    (void)state;
    struct expert_fixture files;
    struct async_reader *reader = NULL;
    struct expert_store *store = NULL;
    fixture_make(&files, &small);
    assert_int_equal(async_reader_open(&reader, 1, NULL), SLUICE_OK);
    assert_int_equal(expert_store_min_slots(&files.container), 3 + 2);
    size_t slot = expert_store_slot_bytes(&files.container);
    assert_int_equal(slot % 16384, 0);

    fault_alloc_fail(-1);
    assert_int_equal(expert_store_open(&store, &files.container, reader, 7, NULL), SLUICE_OK);
    int allocations = fault_alloc_count();
    assert_int_equal(expert_store_bytes(&files.container, 7), fault_alloc_bytes() + 7 * slot);
    assert_int_equal(expert_store_slots(store), 7);
    assert_int_equal(expert_store_close(&store, NULL), SLUICE_OK);
    assert_int_equal(expert_store_bytes(&files.container, 1000), expert_store_bytes(&files.container, 18));

    for (int i = 0; i < allocations; i++) {
        fault_alloc_fail(i);
        assert_int_equal(expert_store_open(&store, &files.container, reader, 7, NULL), SLUICE_NO_MEMORY);
        assert_null(store);
    }
    fault_alloc_fail(-1);
    assert_int_equal(expert_store_open(&store, &files.container, reader, 0, NULL), SLUICE_INVALID);

    sluice_error err = {0};
    files.container.layers[2].experts[3].up.kind = QUANT_F32;
    files.container.layers[2].experts[3].up.weights.dtype = DTYPE_BF16;
    assert_int_equal(expert_store_open(&store, &files.container, reader, 7, &err), SLUICE_UNSUPPORTED);
    assert_non_null(strstr(err.message, "model.layers.2.mlp.experts.3.up_proj.weight"));
    assert_null(store);
    assert_int_equal(expert_store_close(&store, NULL), SLUICE_OK);
    assert_int_equal(expert_store_close(NULL, NULL), SLUICE_OK);
    async_reader_close(&reader);
    fixture_free(&files);
}

/* ---- Leases ---- */

static void test_life_of_a_slot(void **state)
{
    (void)state;
    struct bench *bench = bench_open(&small, 8, 1);
    struct expert_weights view;
    struct expert_lease none;
    sluice_error err = {0};
    read_fault_hold();
    assert_false(expert_store_acquire_ready(bench->store, 2, 5, &none));
    struct expert_lease first = acquire(bench, 2, 5, false);
    struct expert_lease second = acquire(bench, 2, 5, false);
    assert_int_equal(first.slot, second.slot);
    assert_int_equal(first.generation, second.generation);
    assert_false(expert_store_acquire_ready(bench->store, 2, 5, &none));
    assert_int_equal(expert_store_view(bench->store, first, &view, &err), SLUICE_BUSY);
    read_fault_go();
    assert_int_equal(wait_one(bench, first, NULL), SLUICE_OK);
    struct expert_lease third = acquire(bench, 2, 5, true);
    assert_true(expert_store_acquire_ready(bench->store, 2, 5, &none));
    check_view(bench, none, 2, 5);
    release(bench, first);
    release(bench, second);
    release(bench, third);
    check_view(bench, none, 2, 5);
    assert_int_equal(expert_store_close(&bench->store, &err), SLUICE_BUSY);
    assert_non_null(strstr(err.message, "1 leases"));
    release(bench, none);
    assert_int_equal(expert_store_release(bench->store, none, &err), SLUICE_STALE);
    assert_int_equal(expert_store_view(bench->store, none, &view, &err), SLUICE_STALE);

    struct expert_store_stats stats;
    expert_store_get_stats(bench->store, &stats);
    assert_int_equal(stats.hits, 2);
    assert_int_equal(stats.misses, 2);
    assert_true(stats.wait_seconds >= 0.0);
    bench_close(bench);
}

static void test_stale_lease(void **state)
{
    (void)state;
    struct bench *bench = bench_open(&small, 1, 1);
    struct expert_weights view = {0};
    size_t which = 7;
    struct expert_lease old = acquire(bench, 1, 0, false);
    assert_int_equal(wait_one(bench, old, NULL), SLUICE_OK);
    release(bench, old);
    struct expert_lease young = acquire(bench, 1, 1, false);
    assert_int_equal(old.slot, young.slot);
    assert_int_not_equal(old.generation, young.generation);
    assert_int_equal(expert_store_view(bench->store, old, &view, NULL), SLUICE_STALE);
    assert_int_equal(expert_store_release(bench->store, old, NULL), SLUICE_STALE);
    assert_int_equal(expert_store_wait(bench->store, &old, 1, NULL, &which, NULL), SLUICE_STALE);
    assert_null(view.gate.weights);
    struct expert_lease wild = {.slot = 5, .generation = young.generation};
    assert_int_equal(expert_store_release(bench->store, wild, NULL), SLUICE_STALE);
    assert_int_equal(wait_one(bench, young, NULL), SLUICE_OK);
    check_view(bench, young, 1, 1);
    release(bench, young);
    bench_close(bench);
}

static void test_no_such_expert(void **state)
{
    (void)state;
    struct bench *bench = bench_open(&small, 4, 1);
    struct expert_lease lease;
    sluice_error err = {0};
    assert_int_equal(acquire_status(bench, 0, 0, &err), SLUICE_INVALID); /* a dense layer */
    assert_int_equal(acquire_status(bench, 4, 0, &err), SLUICE_INVALID);
    assert_int_equal(acquire_status(bench, UINT32_MAX, 0, &err), SLUICE_INVALID);
    assert_int_equal(acquire_status(bench, 1, 6, &err), SLUICE_INVALID);
    assert_non_null(strstr(err.message, "no expert 6 in layer 1"));
    assert_false(expert_store_acquire_ready(bench->store, 0, 0, &lease));
    bench_close(bench);
}

/* Slots that are leased or loading are never given away; one that comes back is. */
static void test_busy(void **state)
{
    (void)state;
    struct bench *bench = bench_open(&small, 2, 1);
    sluice_error err = {0};
    read_fault_hold();
    struct expert_lease a = acquire(bench, 1, 0, false), b = acquire(bench, 1, 1, false);
    assert_int_equal(acquire_status(bench, 1, 2, &err), SLUICE_BUSY);
    release(bench, a); /* still loading */
    assert_int_equal(acquire_status(bench, 1, 2, &err), SLUICE_BUSY);
    read_fault_go();
    assert_int_equal(wait_one(bench, b, NULL), SLUICE_OK);
    size_t which;
    while (acquire_status(bench, 1, 2, &err) == SLUICE_BUSY) {
        assert_int_equal(expert_store_wait(bench->store, NULL, 0, NULL, &which, NULL), SLUICE_OK);
    }
    check_view(bench, b, 1, 1);
    struct expert_lease again;
    bool ready; /* the read that the loop started may have ended */
    assert_int_equal(expert_store_acquire(bench->store, 1, 2, &again, &ready, NULL), SLUICE_OK);
    assert_int_equal(wait_one(bench, again, NULL), SLUICE_OK);
    check_view(bench, again, 1, 2);
    assert_int_equal(acquire_status(bench, 3, 3, &err), SLUICE_BUSY);
    release(bench, again);
    release(bench, again);
    release(bench, b);
    load(bench, 3, 3);
    bench_close(bench);
}

/* A read whose lease came back early goes on, and its expert is there for the next one to ask. */
static void test_release_while_loading(void **state)
{
    (void)state;
    struct bench *bench = bench_open(&small, 2, 1);
    read_fault_hold();
    release(bench, acquire(bench, 1, 3, false));
    struct expert_lease joined = acquire(bench, 1, 3, false);
    release(bench, joined);
    read_fault_go();
    struct expert_lease lease;
    size_t which;
    while (!expert_store_acquire_ready(bench->store, 1, 3, &lease)) {
        assert_int_equal(expert_store_wait(bench->store, NULL, 0, NULL, &which, NULL), SLUICE_OK);
    }
    assert_int_equal(lease.generation, joined.generation);
    check_view(bench, lease, 1, 3);
    release(bench, lease);
    bench_close(bench);
}

static void *go_later(void *arg)
{
    pause_ms(30);
    read_fault_go();
    return arg;
}

/* Reads in the queue are taken out, one under way is waited for. */
static void test_close_while_loading(void **state)
{
    (void)state;
    struct bench *bench = bench_open(&small, 8, 1);
    pthread_t thread;
    read_fault_hold();
    for (uint32_t i = 0; i < 5; i++) {
        release(bench, acquire(bench, 1, i, false));
    }
    assert_int_equal(pthread_create(&thread, NULL, go_later, NULL), 0);
    bench_close(bench);
    pthread_join(thread, NULL);
}

/* ---- Waiting ---- */

static void *cancel_later(void *arg)
{
    pause_ms(30);
    atomic_store((atomic_bool *)arg, true);
    return NULL;
}

/* The flag alone is enough: a signal handler cannot call expert_store_wake. */
static void test_cancel(void **state)
{
    (void)state;
    struct bench *bench = bench_open(&small, 4, 1);
    atomic_bool cancel = false;
    pthread_t thread;
    sluice_error err = {0};
    size_t which = 7;
    read_fault_hold();
    struct expert_lease lease = acquire(bench, 1, 0, false);
    assert_int_equal(pthread_create(&thread, NULL, cancel_later, &cancel), 0);
    assert_int_equal(expert_store_wait(bench->store, &lease, 1, &cancel, &which, &err), SLUICE_CANCELLED);
    assert_int_equal(which, 7);
    pthread_join(thread, NULL);
    assert_int_equal(expert_store_wait(bench->store, &lease, 1, &cancel, &which, &err), SLUICE_CANCELLED);
    struct expert_store_stats stats;
    expert_store_get_stats(bench->store, &stats);
    assert_true(stats.wait_seconds > 0.0);
    read_fault_go();
    assert_int_equal(wait_one(bench, lease, NULL), SLUICE_OK);
    release(bench, lease);
    expert_store_wake(bench->store);
    bench_close(bench);
}

/* Whichever arrives: the one that is not held up. */
static void test_wait_for_any(void **state)
{
    (void)state;
    struct bench *bench = bench_open(&small, 8, 1);
    struct expert_lease leases[3];
    load(bench, 2, 1);
    read_fault_hold();
    leases[0] = acquire(bench, 2, 0, false);
    leases[1] = acquire(bench, 2, 1, true);
    leases[2] = acquire(bench, 2, 2, false);
    size_t which = 9;
    assert_int_equal(expert_store_wait(bench->store, leases, 3, NULL, &which, NULL), SLUICE_OK);
    assert_int_equal(which, 1);
    read_fault_go();
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(wait_one(bench, leases[i], NULL), SLUICE_OK);
        release(bench, leases[i]);
    }
    bench_close(bench);
}

/* ---- Failures ---- */

static void check_failure(struct bench *bench, struct expert_lease lease, sluice_status expected, int os_errno,
                          const char *words[], size_t n)
{
    sluice_error err = {0}, again = {0};
    struct expert_weights view = {0};
    assert_int_equal(wait_one(bench, lease, &err), expected);
    assert_int_equal(expert_store_view(bench->store, lease, &view, &again), expected);
    assert_null(view.gate.weights);
    assert_int_equal(err.status, expected);
    assert_int_equal(err.os_errno, os_errno);
    assert_string_equal(err.message, again.message);
    for (size_t i = 0; i < n; i++) {
        if (strstr(err.message, words[i]) == NULL) {
            fail_msg("\"%s\" is not in \"%s\"", words[i], err.message);
        }
    }
}

static void test_read_error(void **state)
{
    (void)state;
    struct bench *bench = bench_open(&small, 2, 1);
    const char *words[] = {"out-00000.raw", "cannot read", "model.layers.1.mlp.experts.0.down_proj.weight",
                           "expert 0 of layer 1", strerror(EIO)};
    read_fault_fail(EIO, 0, 1);
    struct expert_lease failed = acquire(bench, 1, 0, false);
    check_failure(bench, failed, SLUICE_IO, EIO, words, 5);
    /* while the failed lease is out, another try takes another slot */
    struct expert_lease other = acquire(bench, 1, 0, false);
    assert_int_not_equal(other.slot, failed.slot);
    assert_int_equal(wait_one(bench, other, NULL), SLUICE_OK);
    check_view(bench, other, 1, 0);
    assert_int_equal(acquire_status(bench, 1, 1, NULL), SLUICE_BUSY);
    release(bench, failed);
    load(bench, 1, 1);
    check_view(bench, other, 1, 0);
    release(bench, other);
    bench_close(bench);
}

/* The scales are the second range of the expert. */
static void test_read_error_in_scales(void **state)
{
    (void)state;
    struct fixture_options options = small;
    options.kind = QUANT_INT4_ROW;
    struct bench *bench = bench_open(&options, 2, 1);
    const char *words[] = {"experts.1.down_proj.weight.qs", strerror(ENXIO)};
    read_fault_fail(ENXIO, 1, 1);
    struct expert_lease failed = acquire(bench, 1, 1, false);
    check_failure(bench, failed, SLUICE_IO, ENXIO, words, 2);
    release(bench, failed);
    load(bench, 1, 1);
    bench_close(bench);
}

/* A failed read that nobody waits for leaves an idle slot behind. */
static void test_failure_without_lease(void **state)
{
    (void)state;
    struct bench *bench = bench_open(&small, 1, 1);
    read_fault_hold();
    read_fault_fail(EIO, 0, 100);
    struct expert_lease lost = acquire(bench, 1, 0, false);
    release(bench, lost);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, go_later, NULL), 0);
    struct expert_lease lease;
    bool ready;
    size_t which;
    /* the only slot is busy until the failed read has drained */
    while (expert_store_acquire(bench->store, 1, 1, &lease, &ready, NULL) == SLUICE_BUSY) {
        assert_int_equal(expert_store_wait(bench->store, NULL, 0, NULL, &which, NULL), SLUICE_OK);
    }
    pthread_join(thread, NULL);
    assert_false(ready);
    assert_int_not_equal(lease.generation, lost.generation);
    sluice_status status = wait_one(bench, lease, NULL);
    assert_true(status == SLUICE_OK || status == SLUICE_IO);
    release(bench, lease);
    bench_close(bench);
}

static void test_short_file(void **state)
{
    (void)state;
    struct fixture_options options = small;
    options.shards = 1;
    struct bench *bench = bench_open(&options, 3, 1);
    const char *words[] = {"out-00000.raw", "the file ends inside", "model.layers.2.mlp.experts.2.gate_proj.weight ("};
    const struct tensor_ref *gate = &fixture_stored(&bench->files, 2, 2)->gate.weights;
    assert_int_equal(truncate(bench->files.shards[0].path, (off_t)(gate->offset + gate->bytes - 1)), 0);
    struct expert_lease failed = acquire(bench, 2, 2, false);
    check_failure(bench, failed, SLUICE_IO, ENODATA, words, 3);
    release(bench, failed);
    load(bench, 1, 2);
    bench_close(bench);
}

static void test_scale_not_finite(void **state)
{
    (void)state;
    struct bench *bench = bench_open(&small, 3, 2);
    static const uint32_t bad[] = {0x7FC00000u, 0x7F800000u, 0xFF800000u, 0x7F800001u};
    for (uint32_t i = 0; i < 4; i++) {
        const struct tensor_ref *scales = &fixture_stored(&bench->files, 3, 1)->up.scales;
        const struct quant_matrix *up = &fixture_expert(&bench->files, 3, 1)->up;
        fixture_poke(&bench->files, scales->shard, scales->offset + 4 * (i + 7), &bad[i], 4);
        char element[32];
        snprintf(element, sizeof element, "element %u ", i + 7);
        const char *words[] = {"out-0000", "model.layers.3.mlp.experts.1.up_proj.weight.qs", element, "not finite"};
        struct expert_lease failed = acquire(bench, 3, 1, false);
        check_failure(bench, failed, SLUICE_NUMERIC, 0, words, 4);
        release(bench, failed);
        fixture_poke(&bench->files, scales->shard, scales->offset + 4 * (i + 7), &up->scales[i + 7], 4);
    }
    load(bench, 3, 1);
    bench_close(bench);
}

/* ---- Many threads ---- */

struct client {
    struct bench *bench;
    uint64_t seed;
    unsigned wrong;
};

/* Leases one to three experts at random, joins what others read, compares what it got, gives it back. */
static void *client_run(void *arg)
{
    struct client *client = arg;
    struct bench *bench = client->bench;
    for (int i = 0; i < 150; i++) {
        uint32_t layer = 1 + reference_random(&client->seed) % 3, expert = reference_random(&client->seed) % 6;
        struct expert_lease lease;
        struct expert_weights view;
        bool ready;
        size_t which;
        sluice_status status = expert_store_acquire(bench->store, layer, expert, &lease, &ready, NULL);
        if (status == SLUICE_BUSY) {
            expert_store_wait(bench->store, NULL, 0, NULL, &which, NULL);
            continue;
        }
        if (reference_random(&client->seed) % 8 != 0) {
            status = expert_store_wait(bench->store, &lease, 1, NULL, &which, NULL);
            client->wrong += status != SLUICE_OK || expert_store_view(bench->store, lease, &view, NULL) != SLUICE_OK ||
                             !fixture_same(&view, fixture_expert(&bench->files, layer, expert));
        }
        client->wrong += expert_store_release(bench->store, lease, NULL) != SLUICE_OK;
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    (void)state;
    for (size_t n_slots = 2; n_slots <= 10; n_slots += 4) {
        struct bench *bench = bench_open(&small, n_slots, 3);
        struct client clients[4];
        pthread_t threads[4];
        for (size_t i = 0; i < 4; i++) {
            clients[i] = (struct client){.bench = bench, .seed = 17 * i + n_slots};
            assert_int_equal(pthread_create(&threads[i], NULL, client_run, &clients[i]), 0);
        }
        for (size_t i = 0; i < 4; i++) {
            pthread_join(threads[i], NULL);
            assert_int_equal(clients[i].wrong, 0);
        }
        bench_close(bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_placement),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_life_of_a_slot),
        cmocka_unit_test(test_stale_lease),
        cmocka_unit_test(test_no_such_expert),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_release_while_loading),
        cmocka_unit_test(test_close_while_loading),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_wait_for_any),
        cmocka_unit_test(test_read_error),
        cmocka_unit_test(test_read_error_in_scales),
        cmocka_unit_test(test_failure_without_lease),
        cmocka_unit_test(test_short_file),
        cmocka_unit_test(test_scale_not_finite),
        cmocka_unit_test(test_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
