/* The same bits, whatever the threads, the chunks, the kernels and the number of expert slots.
 *
 * Each oracle set and the demo model pass through once in the plainest way there is (one thread, chunk 1, C kernels,
 * every expert resident); then every other way must give the same logits, compared with memcmp. */
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

/* Every combination for the small sets; for the larger model each setting is varied once. */
static void compare_ways(const struct input *input, size_t context, bool all)
{
    static const size_t chunks[] = {1, 7, 64};
    uint32_t features[] = {cpu_features(), 0};
    struct stack_options options = {.dir = input->dir, .threads = 1, .max_rows = MAX_ROWS, .context = context};
    feed(input, &options, 1, input->expected);
    for (options.threads = 1; options.threads <= 3; options.threads++) {
        for (size_t f = 0; f < 2; f++) {
            for (size_t c = 0; c < sizeof(chunks) / sizeof(chunks[0]); c++) {
                options.features = features[f];
                options.few_slots = (options.threads + c) % 2 == 0;
                if (!all && (options.threads + f + c) % 3 != 0) {
                    continue;
                }
                compare(input, &options, chunks[c]);
                if (all) {
                    options.few_slots = !options.few_slots;
                    compare(input, &options, chunks[c]);
                }
            }
        }
    }
}

static void run_input(const char *dir, const uint32_t *ids, size_t n, size_t vocab, bool all)
{
    struct input input = {.dir = dir, .ids = ids, .n = n, .n_logits = n * vocab};
    input.expected = calloc(input.n_logits, sizeof(float));
    input.logits = calloc(input.n_logits, sizeof(float));
    assert_non_null(input.expected);
    assert_non_null(input.logits);
    compare_ways(&input, n, all);
    free(input.expected);
    free(input.logits);
}

static void run_set(const char *set)
{
    char dir[4096];
    struct reference reference;
    uint32_t *ids;
    size_t n;
    snprintf(dir, sizeof(dir), "%s/data/oracle/%s", SLUICE_TEST_SOURCE_DIR, set);
    reference_open(&reference, dir);
    reference_ids(reference.json, "full_ids", &ids, &n);
    size_t vocab = (size_t)json_integer_value(
        json_array_get(json_object_get(json_object_get(reference.header, "logits"), "shape"), 1));
    run_input(dir, ids, n, vocab, true);
    free(ids);
    reference_close(&reference);
}

static void test_basic(void **state)
{
    (void)state;
    run_set("basic");
}

static void test_dsa(void **state)
{
    (void)state;
    run_set("dsa");
}

static void test_grouped(void **state)
{
    (void)state;
    run_set("grouped");
}

static void test_wide(void **state)
{
    (void)state;
    run_set("wide");
}

/* Beyond index_topk, so that the indexer works across blocks; few tokens, as the C kernels are slow. */
#define DEMO_TOKENS 136
#define DEMO_VOCAB 4096

static void test_demo(void **state)
{
    (void)state;
    uint32_t ids[DEMO_TOKENS];
    for (uint32_t i = 0; i < DEMO_TOKENS; i++) {
        ids[i] = i * 2654435761u % 4000;
    }
    run_input(SLUICE_MODELS_DIR "/demo", ids, DEMO_TOKENS, DEMO_VOCAB, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_basic), cmocka_unit_test(test_dsa),  cmocka_unit_test(test_grouped),
        cmocka_unit_test(test_wide),  cmocka_unit_test(test_demo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
