/* The executor against a plain evaluation of the same routes: the same bits for any number of slots, threads and
 * readers, for resident and read experts, whatever was evicted before; and what it leaves behind when reads fail or the
 * caller cancels. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "device/cpu/cpu_device.h"
#include "experts/executor.h"
#include "experts/fixture.h"
#include "experts/read_fault.h"
#include "os/cpu.h"
#include "support/fault_alloc.h"

#define HIDDEN 64
#define MIDDLE 48
#define LAYERS 4 /* the first is dense */
#define EXPERTS 24
#define K 4
#define M_MAX 33

static const struct fixture_options options = {.layers = LAYERS,
                                               .dense = 1,
                                               .experts = EXPERTS,
                                               .k = K,
                                               .hidden = HIDDEN,
                                               .intermediate = MIDDLE,
                                               .shards = 3,
                                               .kind = FIXTURE_MIXED,
                                               .skew = 104};

/* Made once: files, inputs, routes of every layer, and the right results with and without a shared expert. */
struct problem {
    struct expert_fixture files;
    struct expert_weights shared;
    float x[M_MAX * HIDDEN];
    uint32_t ids[LAYERS][M_MAX * K];
    float weights[LAYERS][M_MAX * K];
    float routed[LAYERS][M_MAX * HIDDEN]; /* right results without the shared expert */
    float whole[LAYERS][M_MAX * HIDDEN];  /* and with it */
};

static struct problem *problem;

static void make_routes(uint32_t layer, uint64_t *seed)
{
    for (size_t row = 0; row < M_MAX; row++) {
        uint32_t *ids = &problem->ids[layer][row * K];
        for (size_t rank = 0; rank < K; rank++) {
            bool twice;
            do {
                ids[rank] = reference_random(seed) % EXPERTS;
                twice = false;
                for (size_t i = 0; i < rank; i++) {
                    twice = twice || ids[i] == ids[rank];
                }
            } while (twice);
            problem->weights[layer][row * K + rank] = reference_random_float(seed);
        }
    }
}

/* A left fold over ranks from +0, each product rounded, then the shared row. */
static void solve_row(uint32_t layer, size_t row)
{
    const float *x = problem->x + row * HIDDEN;
    float *routed = &problem->routed[layer][row * HIDDEN], *whole = &problem->whole[layer][row * HIDDEN];
    float out[HIDDEN];
    for (size_t rank = 0; rank < K; rank++) {
        size_t route = row * K + rank;
        reference_block(fixture_expert(&problem->files, layer, problem->ids[layer][route]), x, out);
        for (size_t i = 0; i < HIDDEN; i++) {
            float product = out[i] * problem->weights[layer][route];
            routed[i] = routed[i] + product;
        }
    }
    reference_block(&problem->shared, x, out);
    for (size_t i = 0; i < HIDDEN; i++) {
        whole[i] = routed[i] + out[i];
    }
}

static int make_problem(void **state)
{
    (void)state;
    uint64_t seed = 21;
    problem = calloc(1, sizeof *problem);
    fixture_make(&problem->files, &options);
    reference_matrix_make(&problem->shared.gate, QUANT_INT8_ROW, 2 * MIDDLE, HIDDEN, 0, &seed);
    reference_matrix_make(&problem->shared.up, QUANT_INT8_ROW, 2 * MIDDLE, HIDDEN, 0, &seed);
    reference_matrix_make(&problem->shared.down, QUANT_INT8_ROW, HIDDEN, 2 * MIDDLE, 0, &seed);
    for (size_t i = 0; i < M_MAX * HIDDEN; i++) {
        problem->x[i] = reference_random_float(&seed) * 2.0f;
    }
    for (uint32_t layer = 1; layer < LAYERS; layer++) {
        make_routes(layer, &seed);
        for (size_t row = 0; row < M_MAX; row++) {
            solve_row(layer, row);
        }
    }
    return 0;
}

static int free_problem(void **state)
{
    (void)state;
    reference_matrix_free(&problem->shared.gate);
    reference_matrix_free(&problem->shared.up);
    reference_matrix_free(&problem->shared.down);
    fixture_free(&problem->files);
    free(problem);
    return 0;
}

/* Everything that runs batches. */
struct rig {
    struct kernel_table kernels;
    struct thread_pool *pool;
    struct device *device;
    struct async_reader *reader;
    struct expert_store *store;
    struct executor *executor;
    struct executor_options executor_options;
    float out[M_MAX * HIDDEN];
};

static struct rig *rig_open(size_t n_slots, unsigned threads, unsigned readers)
{
    struct rig *rig = calloc(1, sizeof *rig);
    kernel_table_init(&rig->kernels, cpu_features());
    assert_int_equal(thread_pool_open(&rig->pool, threads, NULL), SLUICE_OK);
    assert_int_equal(async_reader_open(&rig->reader, readers, NULL), SLUICE_OK);
    assert_int_equal(expert_store_open(&rig->store, &problem->files.container, rig->reader, n_slots, NULL), SLUICE_OK);
    struct cpu_device_limits limits = {.max_hidden = HIDDEN, .max_intermediate = 2 * MIDDLE};
    rig->executor_options = (struct executor_options){.store = rig->store,
                                                      .kernels = &rig->kernels,
                                                      .pool = rig->pool,
                                                      .max_rows = M_MAX,
                                                      .k = K,
                                                      .hidden = HIDDEN,
                                                      .n_experts = EXPERTS};
    executor_call_limits(&rig->executor_options, &limits.max_rows, &limits.max_blocks);
    assert_int_equal(cpu_device_open(&rig->device, &rig->kernels, rig->pool, &limits, NULL), SLUICE_OK);
    rig->executor_options.device = rig->device;
    assert_int_equal(executor_open(&rig->executor, &rig->executor_options, NULL), SLUICE_OK);
    return rig;
}

/* Fails when a lease is still out. */
static void rig_close(struct rig *rig)
{
    executor_close(&rig->executor);
    assert_null(rig->executor);
    assert_int_equal(expert_store_close(&rig->store, NULL), SLUICE_OK);
    async_reader_close(&rig->reader);
    device_close(&rig->device);
    thread_pool_close(&rig->pool);
    free(rig);
}

static struct expert_batch batch_of(struct rig *rig, uint32_t layer, size_t first_row, size_t m)
{
    return (struct expert_batch){.layer = layer,
                                 .m = m,
                                 .k = K,
                                 .x = problem->x + first_row * HIDDEN,
                                 .ids = problem->ids[layer] + first_row * K,
                                 .weights = problem->weights[layer] + first_row * K,
                                 .shared = &problem->shared,
                                 .out = rig->out};
}

/* Runs rows [first_row, first_row + m) and compares every bit. */
static void run_rows(struct rig *rig, uint32_t layer, size_t first_row, size_t m)
{
    struct expert_batch batch = batch_of(rig, layer, first_row, m);
    sluice_error err = {0};
    memset(rig->out, 0x5A, sizeof rig->out);
    if (executor_run(rig->executor, &batch, &err) != SLUICE_OK) {
        fail_msg("%s", err.message);
    }
    assert_memory_equal(rig->out, problem->whole[layer] + first_row * HIDDEN, m * HIDDEN * sizeof(float));
}

/* ---- Results ---- */

static void test_same_bits(void **state)
{
    (void)state;
    static const size_t slots[] = {1, 2, 3, 7, 19, 40, LAYERS * EXPERTS};
    static const size_t rows[] = {1, 2, 5, 16, M_MAX};
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        for (unsigned threads = 1; threads <= 3; threads++) {
            struct rig *rig = rig_open(slots[i], threads, 1 + (unsigned)(i + threads) % 3);
            for (size_t j = 0; j < sizeof rows / sizeof rows[0]; j++) {
                for (uint32_t layer = 1; layer < LAYERS; layer++) {
                    run_rows(rig, layer, 0, rows[j]);
                }
            }
            rig_close(rig);
        }
    }
}

/* A prompt cut into chunks of any size. */
static void test_chunks(void **state)
{
    (void)state;
    static const size_t chunks[] = {1, 4, 7, 32};
    struct rig *rig = rig_open(9, 2, 2);
    for (size_t i = 0; i < 4; i++) {
        for (size_t row = 0; row < M_MAX; row += chunks[i]) {
            size_t rest = M_MAX - row;
            run_rows(rig, 1 + (uint32_t)i % 3, row, rest < chunks[i] ? rest : chunks[i]);
        }
    }
    rig_close(rig);
}

static void test_without_shared_and_fewer_ranks(void **state)
{
    (void)state;
    struct rig *rig = rig_open(7, 2, 1);
    struct expert_batch batch = batch_of(rig, 2, 0, M_MAX);
    batch.shared = NULL;
    assert_int_equal(executor_run(rig->executor, &batch, NULL), SLUICE_OK);
    assert_memory_equal(rig->out, problem->routed[2], sizeof rig->out);

    /* rows of one expert each: the first route of the first three rows */
    uint32_t ids[3];
    float weights[3], expected[HIDDEN];
    for (size_t i = 0; i < 3; i++) {
        ids[i] = problem->ids[2][i * K];
        weights[i] = problem->weights[2][i * K];
    }
    batch.ids = ids, batch.weights = weights, batch.k = 1, batch.m = 3;
    assert_int_equal(executor_run(rig->executor, &batch, NULL), SLUICE_OK);
    for (size_t row = 0; row < 3; row++) {
        reference_block(fixture_expert(&problem->files, 2, ids[row]), problem->x + row * HIDDEN, expected);
        for (size_t i = 0; i < HIDDEN; i++) {
            float product = expected[i] * weights[row];
            expected[i] = 0.0f + product;
        }
        assert_memory_equal(rig->out + row * HIDDEN, expected, sizeof expected);
    }
    rig_close(rig);
}

/* The fold begins at +0: a single result of -0 comes out as +0. */
static void test_fold_begins_at_zero(void **state)
{
    (void)state;
    static const float x[HIDDEN]; /* silu(0) * 0 = 0, so every product is a zero */
    struct rig *rig = rig_open(2, 1, 1);
    uint32_t id = 0;
    float weight = -1.0f, zero[HIDDEN] = {0};
    struct expert_batch batch = {.layer = 1, .m = 1, .k = 1, .x = x, .ids = &id, .weights = &weight, .out = rig->out};
    assert_int_equal(executor_run(rig->executor, &batch, NULL), SLUICE_OK);
    assert_memory_equal(rig->out, zero, sizeof zero);
    rig_close(rig);
}

/* Every expert is evicted before it is asked for again: others take all slots in between. */
static void test_forced_evictions(void **state)
{
    (void)state;
    struct rig *rig = rig_open(6, 2, 2);
    for (size_t row = 0; row < 8; row++) {
        run_rows(rig, 1, row, 1);
        for (uint32_t expert = 0; expert < EXPERTS; expert++) {
            struct expert_lease lease;
            bool ready;
            size_t which;
            assert_int_equal(expert_store_acquire(rig->store, 2, expert, &lease, &ready, NULL), SLUICE_OK);
            assert_int_equal(expert_store_wait(rig->store, &lease, 1, NULL, &which, NULL), SLUICE_OK);
            assert_int_equal(expert_store_release(rig->store, lease, NULL), SLUICE_OK);
        }
    }
    rig_close(rig);
}

/* All slots but one leased by someone else: slow, but no less right. */
static void test_one_free_slot(void **state)
{
    (void)state;
    struct rig *rig = rig_open(3 + K, 2, 2);
    struct expert_lease leases[3 + K - 1];
    for (uint32_t i = 0; i < 3 + K - 1; i++) {
        bool ready;
        assert_int_equal(expert_store_acquire(rig->store, 3, i, &leases[i], &ready, NULL), SLUICE_OK);
    }
    for (uint32_t layer = 1; layer < LAYERS; layer++) {
        run_rows(rig, layer, 0, 9);
    }
    for (uint32_t i = 0; i < 3 + K - 1; i++) {
        assert_int_equal(expert_store_release(rig->store, leases[i], NULL), SLUICE_OK);
    }
    rig_close(rig);
}

/* ---- Residency ---- */

static uint64_t unique_experts(uint32_t layer, size_t m)
{
    bool seen[EXPERTS] = {false};
    uint64_t n = 0;
    for (size_t i = 0; i < m * K; i++) {
        n += seen[problem->ids[layer][i]] ? 0 : 1;
        seen[problem->ids[layer][i]] = true;
    }
    return n;
}

static void test_statistics(void **state)
{
    (void)state;
    struct rig *rig = rig_open(LAYERS * EXPERTS, 1, 2);
    struct expert_store_stats cold, warm;
    uint64_t n = unique_experts(1, M_MAX);
    run_rows(rig, 1, 0, M_MAX);
    expert_store_get_stats(rig->store, &cold);
    assert_int_equal(cold.hits, 0);
    assert_int_equal(cold.misses, n);
    assert_true(cold.bytes_read > 0);
    run_rows(rig, 1, 0, M_MAX);
    expert_store_get_stats(rig->store, &warm);
    assert_int_equal(warm.hits, n);
    assert_int_equal(warm.misses, n);
    assert_int_equal(warm.bytes_read, cold.bytes_read);
    rig_close(rig);
}

/* A long prompt needs nearly every expert of every layer, round after round. Each layer must find its quota again,
 * though the others need more than there is room for in between. */
static void test_long_prompts_keep_quotas(void **state)
{
    (void)state;
    const size_t quota = 10;
    struct rig *rig = rig_open((LAYERS - 1) * quota + K, 2, 2);
    uint64_t rounds = 4;
    for (uint64_t i = 0; i < rounds; i++) {
        for (uint32_t layer = 1; layer < LAYERS; layer++) {
            run_rows(rig, layer, 0, M_MAX);
        }
    }
    struct expert_store_stats stats;
    expert_store_get_stats(rig->store, &stats);
    assert_true(stats.hits >= (rounds - 1) * (LAYERS - 1) * (quota - 1));
    rig_close(rig);
}

/* ---- Refusals and failures ---- */

static void refuse(struct rig *rig, const struct expert_batch *batch, const char *word)
{
    sluice_error err = {0};
    memset(rig->out, 0x5A, sizeof rig->out);
    assert_int_equal(executor_run(rig->executor, batch, &err), SLUICE_INVALID);
    if (strstr(err.message, word) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", word, err.message);
    }
    assert_int_equal(((unsigned char *)rig->out)[0], 0x5A);
}

static void test_refusals(void **state)
{
    (void)state;
    struct rig *rig = rig_open(9, 1, 1);
    uint32_t ids[2 * K] = {0, 1, 2, 3, 4, 5, 6, EXPERTS};
    struct expert_batch good = batch_of(rig, 1, 0, 2), batch = good;
    batch.m = 0;
    refuse(rig, &batch, "0 rows");
    batch.m = M_MAX + 1;
    refuse(rig, &batch, "34 rows");
    batch = good, batch.k = K + 1;
    refuse(rig, &batch, "5 experts");
    batch = good, batch.ids = ids;
    refuse(rig, &batch, "no expert 24");
    ids[7] = 4;
    refuse(rig, &batch, "expert 4 twice in row 1");
    batch = good, batch.layer = 0;
    refuse(rig, &batch, "layer 0");
    batch = good, batch.layer = LAYERS;
    refuse(rig, &batch, "layer 4");
    struct expert_weights wide = problem->shared;
    wide.gate.cols = HIDDEN + 8;
    batch = good, batch.shared = &wide;
    refuse(rig, &batch, "shared");
    run_rows(rig, 1, 0, M_MAX);

    struct executor *none = NULL;
    struct executor_options wrong = rig->executor_options;
    wrong.k = EXPERTS + 1;
    assert_int_equal(executor_open(&none, &wrong, NULL), SLUICE_INVALID);
    wrong = rig->executor_options, wrong.max_rows = 0;
    assert_int_equal(executor_open(&none, &wrong, NULL), SLUICE_INVALID);
    assert_null(none);
    executor_close(&none);
    rig_close(rig);
}

/* A disk that fails in the middle, at every read in turn: the run says which file and expert; the next one is right. */
static void test_read_errors(void **state)
{
    (void)state;
    static const size_t slots[] = {1, 5, LAYERS * EXPERTS};
    for (size_t i = 0; i < 3; i++) {
        for (unsigned nth = 0; nth < 12; nth += 3) {
            struct rig *rig = rig_open(slots[i], 2, 2);
            struct expert_batch batch = batch_of(rig, 1, 0, 7);
            sluice_error err = {0};
            read_fault_fail(EIO, nth, 1);
            assert_int_equal(executor_run(rig->executor, &batch, &err), SLUICE_IO);
            assert_int_equal(err.os_errno, EIO);
            assert_non_null(strstr(err.message, "out-0000"));
            assert_non_null(strstr(err.message, "of layer 1"));
            assert_non_null(strstr(err.message, strerror(EIO)));
            run_rows(rig, 1, 0, M_MAX);
            rig_close(rig);
        }
    }
    read_fault_go();
}

static void test_scale_not_finite(void **state)
{
    (void)state;
    const struct tensor_ref *scales = &fixture_stored(&problem->files, 2, problem->ids[2][1])->down.scales;
    const struct quant_matrix *down = &fixture_expert(&problem->files, 2, problem->ids[2][1])->down;
    if (scales->bytes == 0) {
        fail_msg("the expert has no scales; choose another");
    }
    const float bad = (float)INFINITY;
    struct rig *rig = rig_open(8, 2, 1);
    struct expert_batch batch = batch_of(rig, 2, 0, 1);
    sluice_error err = {0};
    fixture_poke(&problem->files, scales->shard, scales->offset, &bad, sizeof bad);
    assert_int_equal(executor_run(rig->executor, &batch, &err), SLUICE_NUMERIC);
    assert_non_null(strstr(err.message, scales->name));
    fixture_poke(&problem->files, scales->shard, scales->offset, down->scales, sizeof bad);
    run_rows(rig, 2, 0, 1);
    rig_close(rig);
}

struct canceller {
    atomic_bool cancel;
};

static void *cancel_later(void *arg)
{
    const struct timespec time = {.tv_nsec = 30000000};
    nanosleep(&time, NULL);
    atomic_store(&((struct canceller *)arg)->cancel, true);
    return NULL;
}

/* The reads under way when the run was cancelled drain by themselves; the next run joins them or waits for slots. */
static void test_cancel(void **state)
{
    (void)state;
    static const size_t slots[] = {1, 5, LAYERS * EXPERTS};
    for (size_t i = 0; i < 3; i++) {
        struct rig *rig = rig_open(slots[i], 2, 2);
        struct canceller canceller = {.cancel = false};
        struct expert_batch batch = batch_of(rig, 3, 0, 5);
        pthread_t thread;
        sluice_error err = {0};
        batch.cancel = &canceller.cancel;
        read_fault_hold();
        assert_int_equal(pthread_create(&thread, NULL, cancel_later, &canceller), 0);
        assert_int_equal(executor_run(rig->executor, &batch, &err), SLUICE_CANCELLED);
        pthread_join(thread, NULL);
        assert_int_equal(executor_run(rig->executor, &batch, &err), SLUICE_CANCELLED);
        read_fault_go();
        run_rows(rig, 2, 0, M_MAX);
        run_rows(rig, 3, 0, M_MAX);
        rig_close(rig);
    }
}

/* ---- Memory ---- */

static void test_memory(void **state)
{
    (void)state;
    struct rig *rig = rig_open(11, 3, 2);
    struct executor *second = NULL;
    fault_alloc_fail(-1);
    assert_int_equal(executor_open(&second, &rig->executor_options, NULL), SLUICE_OK);
    assert_int_equal(fault_alloc_bytes(), executor_bytes(&rig->executor_options));
    executor_close(&second);
    fault_alloc_fail(0);
    assert_int_equal(executor_open(&second, &rig->executor_options, NULL), SLUICE_NO_MEMORY);
    fault_alloc_fail(-1);
    for (uint32_t layer = 1; layer < LAYERS; layer++) {
        run_rows(rig, layer, 0, layer == 1 ? 1 : M_MAX);
    }
    assert_int_equal(fault_alloc_count(), 0);

    struct executor_options huge = rig->executor_options;
    huge.max_rows = UINT32_MAX / K - 1;
    huge.hidden = UINT32_MAX;
    assert_int_equal(executor_open(&second, &huge, NULL), SLUICE_NO_MEMORY);
    assert_null(second);
    rig_close(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_without_shared_and_fewer_ranks),
        cmocka_unit_test(test_fold_begins_at_zero),
        cmocka_unit_test(test_forced_evictions),
        cmocka_unit_test(test_one_free_slot),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_long_prompts_keep_quotas),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_read_errors),
        cmocka_unit_test(test_scale_not_finite),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, make_problem, free_problem);
}
