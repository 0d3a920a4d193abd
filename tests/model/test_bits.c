/* The same bits, whatever the threads, the chunks, the kernels and the number of expert slots.
 *
 * Each oracle set and the demo model pass through once in the plainest way there is (one thread, chunk 1, C kernels,
 * every expert resident); then other ways must give the same logits, compared with memcmp: all combinations with
 * the fast kernels, and fewer with the C kernels where those take long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/reference.h"
#include "model/stack.h"
#include "os/cpu.h"

#define MAX_ROWS 64

struct input {
    const char *dir;
    const uint32_t *ids;
    size_t n;
    size_t n_logits; /* n * vocab_size */
    float *expected;
    float *logits;
};

static void feed(const struct input *input, const struct stack_options *options, size_t chunk, float *logits)
{
    struct stack stack;
    stack_open(&stack, options);
    stack_feed(&stack, input->ids, input->n, chunk, logits, NULL);
    stack_close(&stack);
}

static void compare(const struct input *input, const struct stack_options *options, size_t chunk)
{
    memset(input->logits, 0, input->n_logits * sizeof(float));
    feed(input, options, chunk, input->logits);
    if (memcmp(input->logits, input->expected, input->n_logits * sizeof(float)) != 0) {
        fail_msg("%s: %u threads, chunks of %zu, features %#x, %s slots: other bits", input->dir, options->threads,
                 chunk, options->features, options->few_slots ? "few" : "all");
    }
}

/* Chunks, threads and slots with one kernel table; sparsely: each value of each setting, but not every combination. */
static void compare_ways(const struct input *input, uint32_t features, bool sparsely)
{
    static const size_t chunks[] = {1, 7, 64};
    struct stack_options options = {.dir = input->dir, .features = features, .max_rows = MAX_ROWS, .context = input->n};
    for (options.threads = 1; options.threads <= 3; options.threads++) {
        for (size_t c = 0; c < sizeof(chunks) / sizeof(chunks[0]); c++) {
            if (sparsely && (options.threads + c) % 3 != 2) {
                continue;
            }
            options.few_slots = options.threads % 2 == 0;
            compare(input, &options, chunks[c]);
            if (!sparsely) {
                options.few_slots = !options.few_slots;
                compare(input, &options, chunks[c]);
            }
        }
    }
}

enum ways { FAST_KERNELS_ONLY, FEW_WITH_C, ALL_WAYS };

static void run_input(const char *dir, const uint32_t *ids, size_t n, size_t vocab, enum ways ways)
{
    struct input input = {.dir = dir, .ids = ids, .n = n, .n_logits = n * vocab};
    struct stack_options plainest = {.dir = dir, .threads = 1, .max_rows = MAX_ROWS, .context = n};
    input.expected = calloc(input.n_logits, sizeof(float));
    input.logits = calloc(input.n_logits, sizeof(float));
    assert_non_null(input.expected);
    assert_non_null(input.logits);
    if (ways == FAST_KERNELS_ONLY) {
        plainest.features = cpu_features();
    }
    feed(&input, &plainest, 1, input.expected);
    bool slow = cpu_features() == 0;
    compare_ways(&input, cpu_features(), ways == FAST_KERNELS_ONLY || (slow && ways == FEW_WITH_C));
    if (ways != FAST_KERNELS_ONLY && !slow) {
        compare_ways(&input, 0, ways != ALL_WAYS);
    }
    free(input.expected);
    free(input.logits);
}

/* At most `most` tokens: sets whose blocks and choices do not need all of them. */
static void run_set(const char *set, size_t most, enum ways ways)
{
    char dir[4096];
    struct reference reference;
    uint32_t *ids;
    size_t n;
    snprintf(dir, sizeof(dir), "%s/data/oracle/%s", SLUICE_TEST_SOURCE_DIR, set);
    reference_open(&reference, dir);
    reference_ids(reference.json, "full_ids", &ids, &n);
    n = n < most ? n : most;
    size_t vocab = (size_t)json_integer_value(
        json_array_get(json_object_get(json_object_get(reference.header, "logits"), "shape"), 1));
    run_input(dir, ids, n, vocab, ways);
    free(ids);
    reference_close(&reference);
}

static void test_basic(void **state)
{
    (void)state;
    run_set("basic", 24, ALL_WAYS);
}

static void test_dsa(void **state)
{
    (void)state;
    run_set("dsa", 72, FEW_WITH_C);
}

static void test_grouped(void **state)
{
    (void)state;
    run_set("grouped", 24, FEW_WITH_C);
}

static void test_wide(void **state)
{
    (void)state;
    run_set("wide", 48, FEW_WITH_C);
}

/* Beyond index_topk, so that the indexer chooses; the C kernels are too slow for that many tokens. */
#define DEMO_TOKENS 136
#define DEMO_TOKENS_C 9
#define DEMO_VOCAB 4096

static void test_demo(void **state)
{
    (void)state;
    uint32_t ids[DEMO_TOKENS];
    for (uint32_t i = 0; i < DEMO_TOKENS; i++) {
        ids[i] = i * 2654435761u % 4000;
    }
    run_input(SLUICE_MODELS_DIR "/demo", ids, DEMO_TOKENS_C, DEMO_VOCAB, FEW_WITH_C);
    if (cpu_features() != 0) {
        run_input(SLUICE_MODELS_DIR "/demo", ids, DEMO_TOKENS, DEMO_VOCAB, FAST_KERNELS_ONLY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_basic), cmocka_unit_test(test_dsa),  cmocka_unit_test(test_grouped),
        cmocka_unit_test(test_wide),  cmocka_unit_test(test_demo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
