/* What may go wrong while a model is opened or a chunk passes, and what must hold afterwards: the cache is as before
 * and the same tokens then give the same bits. Also: passing a chunk allocates nothing. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/graph.h"
#include "model/reference.h"
#include "model/stack.h"
#include "os/cpu.h"
#include "support/fault_alloc.h"

#define SET SLUICE_TEST_SOURCE_DIR "/data/oracle/dsa"
#define VOCAB 256
#define MAX_ROWS 8
#define N_TOKENS 40
#define CONTEXT 48
#define HIDDEN_TOLERANCE 1e-4f

/* ---- injected faults ---- */

static atomic_int reads_until_failure = -1; /* reads that still succeed; negative: all */
static atomic_int mappings = 0;
static atomic_int mappings_until_failure = -1;

static bool is_due(atomic_int *countdown)
{
    int left = atomic_load(countdown);
    while (left > 0 && !atomic_compare_exchange_weak(countdown, &left, left - 1)) {
    }
    return left == 0;
}

ssize_t __real_pread64(int fd, void *dst, size_t len, off64_t offset);
ssize_t __wrap_pread64(int fd, void *dst, size_t len, off64_t offset);
ssize_t __wrap_pread64(int fd, void *dst, size_t len, off64_t offset)
{
    if (is_due(&reads_until_failure)) {
        errno = EIO;
        return -1;
    }
    return __real_pread64(fd, dst, len, offset);
}

void *__real_mmap64(void *address, size_t len, int protection, int flags, int fd, off64_t offset);
void *__wrap_mmap64(void *address, size_t len, int protection, int flags, int fd, off64_t offset);
void *__wrap_mmap64(void *address, size_t len, int protection, int flags, int fd, off64_t offset)
{
    atomic_fetch_add(&mappings, 1);
    if (is_due(&mappings_until_failure)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap64(address, len, protection, flags, fd, offset);
}

/* ---- fixture ---- */

struct fixture {
    struct stack stack;
    uint32_t *ids; /* [n_ids], at least N_TOKENS */
    size_t n_ids;
    float expected[N_TOKENS * VOCAB];
    float logits[N_TOKENS * VOCAB];
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct reference reference;
    reference_open(&reference, SET);
    reference_ids(reference.json, "full_ids", &fixture->ids, &fixture->n_ids);
    reference_close(&reference);
    assert_true(fixture->n_ids >= N_TOKENS);
    struct stack_options options = {
        .dir = SET,
        .threads = 2,
        .features = cpu_features(),
        .few_slots = true,
        .max_rows = MAX_ROWS,
        .context = CONTEXT,
    };
    stack_open(&fixture->stack, &options);
    stack_feed(&fixture->stack, fixture->ids, N_TOKENS, MAX_ROWS, fixture->expected, NULL);
    kv_cache_truncate(fixture->stack.cache, 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    stack_close(&fixture->stack);
    free(fixture->ids);
    free(fixture);
    return 0;
}

static sluice_status forward(struct fixture *fixture, const struct model_step *step, sluice_error *err)
{
    return model_forward(fixture->stack.model, fixture->stack.executor, fixture->stack.cache, step, err);
}

/* Feeds what the cache lacks of the N_TOKENS and compares those rows with what they must be. */
static void finish_with_same_bits(struct fixture *fixture)
{
    size_t done = kv_cache_length(fixture->stack.cache);
    stack_feed(&fixture->stack, fixture->ids + done, N_TOKENS - done, MAX_ROWS, fixture->logits, NULL);
    assert_memory_equal(fixture->logits, fixture->expected + done * VOCAB, (N_TOKENS - done) * VOCAB * sizeof(float));
}

/* ---- arguments ---- */

static void expect_refusal(struct fixture *fixture, const struct model_step *step, sluice_status expected)
{
    sluice_error err = {0};
    size_t length = kv_cache_length(fixture->stack.cache);
    assert_int_equal(forward(fixture, step, &err), expected);
    assert_int_equal(err.status, expected);
    assert_true(err.message[0] != '\0');
    assert_int_equal(kv_cache_length(fixture->stack.cache), length);
}

static void test_bad_steps(void **state)
{
    struct fixture *fixture = *state;
    uint32_t beyond[] = {1, 2, VOCAB};
    expect_refusal(fixture, &(struct model_step){.ids = beyond, .n = 3}, SLUICE_INVALID);
    expect_refusal(fixture, &(struct model_step){.ids = beyond, .n = 0}, SLUICE_INVALID);
    expect_refusal(fixture, &(struct model_step){.ids = fixture->ids, .n = MAX_ROWS + 1}, SLUICE_INVALID);
    struct model_step too_many = {.ids = fixture->ids, .n = 2, .logits = fixture->logits, .n_logits = 3};
    expect_refusal(fixture, &too_many, SLUICE_INVALID);
    expect_refusal(fixture, &(struct model_step){.ids = fixture->ids, .n = 2, .n_logits = 1}, SLUICE_INVALID);
    finish_with_same_bits(fixture);
}

static void test_context_full(void **state)
{
    struct fixture *fixture = *state;
    finish_with_same_bits(fixture);
    stack_feed(&fixture->stack, fixture->ids, CONTEXT - N_TOKENS - 1, MAX_ROWS, NULL, NULL);
    expect_refusal(fixture, &(struct model_step){.ids = fixture->ids, .n = 2}, SLUICE_CONTEXT_FULL);
    stack_feed(&fixture->stack, fixture->ids, 1, 1, NULL, NULL);
    expect_refusal(fixture, &(struct model_step){.ids = fixture->ids, .n = 1}, SLUICE_CONTEXT_FULL);
}

static void test_caches(void **state)
{
    struct fixture *fixture = *state;
    struct stack *stack = &fixture->stack;
    struct kv_cache *cache = NULL;
    sluice_error err;
    assert_int_equal(kv_cache_open(&cache, stack->model, CONTEXT + 1, &err), SLUICE_INVALID);
    assert_int_equal(kv_cache_open(&cache, stack->model, 0, &err), SLUICE_INVALID);
    assert_null(cache);
    kv_cache_close(&cache);
    kv_cache_close(NULL);

    /* Two caches of one model do not disturb each other. */
    assert_int_equal(kv_cache_open(&cache, stack->model, 1, &err), SLUICE_OK);
    stack_feed(stack, fixture->ids, 20, MAX_ROWS, NULL, NULL);
    struct model_step step = {.ids = fixture->ids, .n = 1, .logits = fixture->logits, .n_logits = 1};
    assert_int_equal(model_forward(stack->model, stack->executor, cache, &step, &err), SLUICE_OK);
    assert_memory_equal(fixture->logits, fixture->expected, VOCAB * sizeof(float));
    assert_int_equal(model_forward(stack->model, stack->executor, cache, &step, &err), SLUICE_CONTEXT_FULL);
    finish_with_same_bits(fixture);
    kv_cache_close(&cache);
}

static void test_truncate(void **state)
{
    struct fixture *fixture = *state;
    struct stack *stack = &fixture->stack;
    stack_feed(stack, fixture->ids, 21, MAX_ROWS, NULL, NULL);
    stack_feed(stack, fixture->ids, 9, 2, NULL, NULL); /* another branch */
    kv_cache_truncate(stack->cache, 100);
    assert_int_equal(kv_cache_length(stack->cache), 30);
    kv_cache_truncate(stack->cache, 21);
    assert_int_equal(kv_cache_length(stack->cache), 21);
    finish_with_same_bits(fixture);
}

static void test_foreign_cache(void **state)
{
    struct fixture *fixture = *state;
    struct model *other;
    struct kv_cache *cache;
    sluice_error err;
    assert_int_equal(model_open(&other, &fixture->stack.model_options, &err), SLUICE_OK);
    assert_int_equal(kv_cache_open(&cache, other, 8, &err), SLUICE_OK);
    struct model_step step = {.ids = fixture->ids, .n = 1};
    assert_int_equal(model_forward(fixture->stack.model, fixture->stack.executor, cache, &step, &err), SLUICE_INVALID);
    kv_cache_close(&cache);
    model_close(&other);
    assert_null(other);
    model_close(&other);
}

/* ---- hidden rows ---- */

/* The final norm of every row, whatever logits are asked for; lm_head applied to the last ones only. */
static void test_outputs(void **state)
{
    struct fixture *fixture = *state;
    struct reference reference;
    size_t hidden = fixture->stack.container->config.hidden_size;
    float *rows = calloc(4 * hidden, sizeof(float));
    struct model_step step = {.ids = fixture->ids, .n = 4, .hidden = rows, .logits = fixture->logits, .n_logits = 2};
    sluice_error err;
    reference_open(&reference, SET);
    const float *expected = reference_tensor(&reference, "final_hidden", "F32", fixture->n_ids * hidden);
    assert_non_null(expected);
    assert_int_equal(forward(fixture, &step, &err), SLUICE_OK);
    assert_memory_equal(fixture->logits, fixture->expected + 2 * VOCAB, 2 * VOCAB * sizeof(float));
    for (size_t i = 0; i < 4 * hidden; i++) {
        assert_true(fabsf(rows[i] - expected[i]) <= HIDDEN_TOLERANCE);
    }
    reference_close(&reference);
    free(rows);
    finish_with_same_bits(fixture);
}

/* ---- cancelling ---- */

struct canceller {
    atomic_bool cancel;
    uint32_t layer; /* after which the flag is raised */
};

static void cancel_after_layer(void *user, uint32_t layer, const float *x, size_t m)
{
    struct canceller *canceller = user;
    (void)x;
    (void)m;
    if (layer == canceller->layer) {
        atomic_store(&canceller->cancel, true);
    }
}

static void test_cancel(void **state)
{
    struct fixture *fixture = *state;
    stack_feed(&fixture->stack, fixture->ids, 18, MAX_ROWS, NULL, NULL);
    for (uint32_t layer = 0; layer < 7; layer += 3) {
        struct canceller canceller = {.layer = layer};
        struct model_trace trace = {.layer_out = cancel_after_layer, .user = &canceller};
        struct model_step step = {.ids = fixture->ids + 18, .n = 5, .cancel = &canceller.cancel, .trace = &trace};
        expect_refusal(fixture, &step, SLUICE_CANCELLED);
        expect_refusal(fixture, &step, SLUICE_CANCELLED); /* the flag is still up */
    }
    finish_with_same_bits(fixture);
}

/* ---- the disk ---- */

static void fail_reads_after_layer(void *user, uint32_t layer, const float *x, size_t m)
{
    (void)x;
    (void)m;
    if (layer == *(uint32_t *)user) {
        atomic_store(&reads_until_failure, 1);
    }
}

static void test_disk_failure(void **state)
{
    struct fixture *fixture = *state;
    stack_feed(&fixture->stack, fixture->ids, 10, MAX_ROWS, NULL, NULL);
    for (uint32_t layer = 2; layer < 7; layer += 2) {
        struct model_trace trace = {.layer_out = fail_reads_after_layer, .user = &layer};
        struct model_step step = {.ids = fixture->ids + 10, .n = 7, .trace = &trace};
        expect_refusal(fixture, &step, SLUICE_IO);
        atomic_store(&reads_until_failure, -1);
    }
    finish_with_same_bits(fixture);
}

static void test_open_disk_failure(void **state)
{
    struct fixture *fixture = *state;
    for (int reads = 0; reads < 60; reads += 7) {
        struct model *model = NULL;
        sluice_error err = {0};
        atomic_store(&reads_until_failure, reads);
        assert_int_equal(model_open(&model, &fixture->stack.model_options, &err), SLUICE_IO);
        atomic_store(&reads_until_failure, -1);
        assert_null(model);
        assert_non_null(strstr(err.message, ".safetensors"));
    }
}

/* ---- memory ---- */

static void test_open_without_memory(void **state)
{
    struct fixture *fixture = *state;
    struct model *model = NULL;
    sluice_error err = {0};
    sluice_status status = SLUICE_NO_MEMORY;
    for (int nth = 0; status != SLUICE_OK; nth++) {
        assert_true(nth < 1000);
        fault_alloc_fail(nth);
        status = model_open(&model, &fixture->stack.model_options, &err);
        fault_alloc_fail(-1);
        assert_true(status == SLUICE_OK || (status == SLUICE_NO_MEMORY && model == NULL));
    }
    model_close(&model);
    status = SLUICE_NO_MEMORY;
    for (int nth = 0; status != SLUICE_OK; nth++) {
        atomic_store(&mappings_until_failure, nth);
        status = model_open(&model, &fixture->stack.model_options, &err);
        atomic_store(&mappings_until_failure, -1);
        assert_true(status == SLUICE_OK || (nth < 3 && status == SLUICE_NO_MEMORY && model == NULL));
    }
    struct kv_cache *cache = NULL;
    atomic_store(&mappings_until_failure, 0);
    assert_int_equal(kv_cache_open(&cache, model, CONTEXT, &err), SLUICE_NO_MEMORY);
    atomic_store(&mappings_until_failure, -1);
    fault_alloc_fail(0);
    assert_int_equal(kv_cache_open(&cache, model, CONTEXT, &err), SLUICE_NO_MEMORY);
    fault_alloc_fail(-1);
    assert_null(cache);
    model_close(&model);
}

static void test_bad_options(void **state)
{
    struct fixture *fixture = *state;
    struct model *model = NULL;
    sluice_error err;
    struct model_options options = fixture->stack.model_options;
    options.max_rows = 0;
    assert_int_equal(model_open(&model, &options, &err), SLUICE_INVALID);
    options = fixture->stack.model_options;
    options.context = 0;
    assert_int_equal(model_open(&model, &options, &err), SLUICE_INVALID);
    options.context = fixture->stack.container->config.max_position_embeddings + 1;
    assert_int_equal(model_open(&model, &options, &err), SLUICE_INVALID);

    struct container odd = *fixture->stack.container;
    odd.config.kv_lora_rank = 12; /* legal for int8, but no kernel absorbs half a vector */
    options = fixture->stack.model_options;
    options.container = &odd;
    assert_int_equal(model_open(&model, &options, &err), SLUICE_UNSUPPORTED);
    assert_non_null(strstr(err.message, "kv_lora_rank is 12"));
    assert_null(model);
}

/* The plan covers every mapping, and not much more. */
static void test_memory_plan(void **state)
{
    struct fixture *fixture = *state;
    const struct model *model = fixture->stack.model;
    struct model_memory plan;
    model_memory(&fixture->stack.model_options, &plan);
    uint64_t mapped = model->spine.memory.size + model->rope.memory.size + model->scratch.memory.size;
    uint64_t planned = plan.weights + plan.tables + plan.scratch;
    assert_true(plan.weights >= model->spine.memory.size);
    assert_true(plan.tables >= model->rope.memory.size);
    assert_true(plan.scratch >= model->scratch.memory.size);
    assert_true(planned >= mapped && planned < mapped + (64u << 10));
    assert_true(kv_cache_bytes(fixture->stack.container, CONTEXT) >= fixture->stack.cache->memory.size);
}

static void test_forward_allocates_nothing(void **state)
{
    struct fixture *fixture = *state;
    fault_alloc_fail(-1);
    atomic_store(&mappings, 0);
    finish_with_same_bits(fixture);
    stack_feed(&fixture->stack, fixture->ids, CONTEXT - N_TOKENS, 1, fixture->logits, NULL);
    assert_int_equal(fault_alloc_count(), 0);
    assert_int_equal(atomic_load(&mappings), 0);
}

/* ---- numbers ---- */

static void test_not_finite(void **state)
{
    struct fixture *fixture = *state;
    sluice_error err = {0};
    stack_feed(&fixture->stack, fixture->ids, 12, MAX_ROWS, NULL, NULL);
    float *latent = kv_cache_block(fixture->stack.cache, 1, 0) + 12 / 2 * fixture->stack.cache->row;
    float kept = *latent;
    *latent = NAN;
    struct model_step step = {.ids = fixture->ids + 12, .n = 3, .logits = fixture->logits, .n_logits = 2};
    assert_int_equal(forward(fixture, &step, &err), SLUICE_NUMERIC);
    assert_non_null(strstr(err.message, "position 13"));
    assert_int_equal(kv_cache_length(fixture->stack.cache), 12);
    *latent = kept;
    finish_with_same_bits(fixture);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_bad_steps),
        TEST(test_context_full),
        TEST(test_caches),
        TEST(test_truncate),
        TEST(test_foreign_cache),
        TEST(test_outputs),
        TEST(test_cancel),
        TEST(test_disk_failure),
        TEST(test_open_disk_failure),
        TEST(test_open_without_memory),
        TEST(test_bad_options),
        TEST(test_memory_plan),
        TEST(test_forward_allocates_nothing),
        TEST(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
