/* The graph against float64 reference outputs: every layer, route and selected position of the oracle sets, and the
 * answers of the demo model. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/reference.h"
#include "model/stack.h"
#include "os/cpu.h"

#define LOGIT_TOLERANCE 1e-4
#define HIDDEN_TOLERANCE 1e-4
#define WEIGHT_TOLERANCE 1e-5f
#define CHUNK 16

/* An oracle set while its tokens pass: checks what the trace reports. */
struct oracle {
    struct reference reference;
    struct stack stack;
    uint32_t *ids; /* full_ids [n] */
    size_t n;
    size_t routes_checked;
    size_t selections_checked;
    size_t selections_sparse; /* of these, rows that really left positions out */
};

static double largest_difference(const float *a, const float *b, size_t n)
{
    double largest = 0.0;
    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)a[i] - (double)b[i]);
        largest = difference > largest ? difference : largest;
    }
    return largest;
}

static const void *layer_tensor(const struct oracle *oracle, const char *name, uint32_t layer, const char *dtype,
                                size_t n)
{
    char full[64];
    snprintf(full, sizeof(full), "%s.%u", name, layer);
    return reference_tensor(&oracle->reference, full, dtype, n);
}

static void check_layer(void *user, uint32_t layer, const float *x, size_t m)
{
    struct oracle *oracle = user;
    const struct model_config *config = &oracle->stack.container->config;
    size_t hidden = config->hidden_size;
    const float *expected =
        reference_tensor(&oracle->reference, "layer_out", "F32", config->num_hidden_layers * oracle->n * hidden);
    assert_non_null(expected);
    expected += (layer * oracle->n + kv_cache_length(oracle->stack.cache)) * hidden;
    if (!(largest_difference(x, expected, m * hidden) <= HIDDEN_TOLERANCE)) {
        fail_msg("layer %u: output differs by %g", layer, largest_difference(x, expected, m * hidden));
    }
}

/* The reference lists a row's experts in no particular order: each of ours must be there, with its weight. */
static void check_route(const uint32_t *ids, const float *weights, const int32_t *expected_ids,
                        const float *expected_weights, size_t k)
{
    for (size_t rank = 0; rank < k; rank++) {
        size_t i = 0;
        while (i < k && (uint32_t)expected_ids[i] != ids[rank]) {
            i++;
        }
        if (i == k) {
            fail_msg("expert %u is not in the reference's choice", ids[rank]);
        }
        assert_true(fabsf(weights[rank] - expected_weights[i]) <= WEIGHT_TOLERANCE);
        for (size_t other = 0; other < rank; other++) {
            assert_int_not_equal(ids[other], ids[rank]);
        }
    }
}

static void check_routes(void *user, uint32_t layer, const uint32_t *ids, const float *weights, size_t m, size_t k)
{
    struct oracle *oracle = user;
    size_t first = kv_cache_length(oracle->stack.cache) * k;
    const int32_t *expected_ids = layer_tensor(oracle, "route_ids", layer, "I32", oracle->n * k);
    const float *expected_weights = layer_tensor(oracle, "route_weights", layer, "F32", oracle->n * k);
    assert_non_null(expected_ids);
    assert_non_null(expected_weights);
    for (size_t i = 0; i < m; i++) {
        check_route(ids + i * k, weights + i * k, expected_ids + first + i * k, expected_weights + first + i * k, k);
    }
    oracle->routes_checked += m;
}

/* The reference names full layers; a shared layer must have the selection of the nearest full layer below. */
static void check_selection(void *user, uint32_t layer, size_t pos, const uint8_t *selected, size_t n_visible)
{
    struct oracle *oracle = user;
    const uint8_t *expected = NULL;
    for (uint32_t full = layer + 1; !expected && full > 0; full--) {
        expected = layer_tensor(oracle, "dsa_selected", full - 1, "U8", oracle->n * oracle->n);
    }
    assert_non_null(expected);
    assert_int_equal(n_visible, pos + 1);
    assert_memory_equal(selected, expected + pos * oracle->n, n_visible);
    oracle->selections_checked++;
    oracle->selections_sparse += memchr(selected, 0, n_visible) != NULL;
}

static void oracle_open(struct oracle *oracle, const char *set)
{
    char dir[4096];
    *oracle = (struct oracle){0};
    snprintf(dir, sizeof(dir), "%s/data/oracle/%s", SLUICE_TEST_SOURCE_DIR, set);
    reference_open(&oracle->reference, dir);
    reference_ids(oracle->reference.json, "full_ids", &oracle->ids, &oracle->n);
    struct stack_options options = {
        .dir = dir,
        .threads = 2,
        .features = cpu_features(),
        .max_rows = CHUNK,
        .context = oracle->n,
    };
    stack_open(&oracle->stack, &options);
}

static void oracle_close(struct oracle *oracle)
{
    stack_close(&oracle->stack);
    reference_close(&oracle->reference);
    free(oracle->ids);
}

/* Prompt first, then each token the model itself finds likeliest. */
static void check_continuation(struct oracle *oracle)
{
    size_t vocab = oracle->stack.container->config.vocab_size;
    uint32_t *prompt;
    size_t n_prompt;
    reference_ids(oracle->reference.json, "prompt_ids", &prompt, &n_prompt);
    float *logits = calloc(n_prompt, vocab * sizeof(float));
    assert_non_null(logits);
    kv_cache_truncate(oracle->stack.cache, 0);
    stack_feed(&oracle->stack, prompt, n_prompt, CHUNK, logits, NULL);
    uint32_t next = stack_argmax(logits + (n_prompt - 1) * vocab, vocab);
    for (size_t i = n_prompt; i < oracle->n; i++) {
        assert_int_equal(next, oracle->ids[i]);
        stack_feed(&oracle->stack, &next, 1, 1, logits, NULL);
        next = stack_argmax(logits, vocab);
    }
    free(prompt);
    free(logits);
}

static void check_set(const char *set, bool sparse)
{
    struct oracle oracle;
    oracle_open(&oracle, set);
    const struct model_config *config = &oracle.stack.container->config;
    size_t vocab = config->vocab_size;
    float *logits = calloc(oracle.n, vocab * sizeof(float));
    assert_non_null(logits);
    struct model_trace trace = {check_layer, check_routes, check_selection, &oracle};
    stack_feed(&oracle.stack, oracle.ids, oracle.n, CHUNK, logits, &trace);

    const float *expected = reference_tensor(&oracle.reference, "logits", "F32", oracle.n * vocab);
    assert_non_null(expected);
    double difference = largest_difference(logits, expected, oracle.n * vocab);
    if (!(difference <= LOGIT_TOLERANCE)) {
        fail_msg("logits differ by %g", difference);
    }
    uint32_t *argmax;
    size_t n_argmax;
    reference_ids(oracle.reference.json, "argmax", &argmax, &n_argmax);
    assert_int_equal(n_argmax, oracle.n);
    for (size_t i = 0; i < oracle.n; i++) {
        assert_int_equal(stack_argmax(logits + i * vocab, vocab), argmax[i]);
    }
    assert_int_equal(oracle.routes_checked, oracle.n * (config->num_hidden_layers - config->first_k_dense_replace));
    assert_int_equal(oracle.selections_checked, oracle.n * config->num_hidden_layers);
    assert_int_equal(oracle.selections_sparse > 0, sparse);
    check_continuation(&oracle);
    free(argmax);
    free(logits);
    oracle_close(&oracle);
}

static void test_basic(void **state)
{
    (void)state;
    check_set("basic", false);
}

static void test_dsa(void **state)
{
    (void)state;
    check_set("dsa", true);
}

static void test_grouped(void **state)
{
    (void)state;
    check_set("grouped", false);
}

static void test_wide(void **state)
{
    (void)state;
    check_set("wide", true);
}

/* ---- the demo model ---- */

#define DEMO_LOGIT_ROWS 16
#define DEMO_LONG_PROMPT 3

/* Larger logits than the oracle's (up to 40), float32 against float64: what may differ. */
#define DEMO_TOLERANCE 2e-4

static void check_demo_prompt(struct stack *stack, const struct reference *reference, size_t index)
{
    const json_t *prompt = json_array_get(json_object_get(reference->json, "prompts"), index);
    const json_t *margins = json_object_get(prompt, "top2_margin");
    size_t vocab = stack->container->config.vocab_size;
    uint32_t *ids, *argmax;
    size_t n, n_argmax;
    char name[32];
    reference_ids(prompt, "full_ids", &ids, &n);
    reference_ids(prompt, "argmax", &argmax, &n_argmax);
    assert_int_equal(n, n_argmax);
    float *logits = calloc(n, vocab * sizeof(float));
    assert_non_null(logits);
    kv_cache_truncate(stack->cache, 0);
    stack_feed(stack, ids, n, CHUNK, logits, NULL);

    snprintf(name, sizeof(name), "logits.%zu", index);
    const float *expected = reference_tensor(reference, name, "F32", DEMO_LOGIT_ROWS * vocab);
    assert_non_null(expected);
    double difference = largest_difference(logits + (n - DEMO_LOGIT_ROWS) * vocab, expected, DEMO_LOGIT_ROWS * vocab);
    if (!(difference <= DEMO_TOLERANCE)) {
        fail_msg("prompt %zu: logits differ by %g", index, difference);
    }
    for (size_t i = 0; i < n; i++) {
        if (json_number_value(json_array_get(margins, i)) > 2 * DEMO_TOLERANCE) {
            assert_int_equal(stack_argmax(logits + i * vocab, vocab), argmax[i]);
        }
    }
    free(logits);
    free(argmax);
    free(ids);
}

static void test_demo(void **state)
{
    (void)state;
    struct stack stack;
    struct reference reference;
    struct stack_options options = {
        .dir = SLUICE_MODELS_DIR "/demo",
        .threads = 2,
        .features = cpu_features(),
        .max_rows = CHUNK,
        .context = 512,
    };
    reference_open(&reference, options.dir);
    stack_open(&stack, &options);
    size_t n_prompts = json_array_size(json_object_get(reference.json, "prompts"));
    assert_true(n_prompts > 0);
    for (size_t i = 0; i < n_prompts; i++) {
        if (i == DEMO_LONG_PROMPT && cpu_features() == 0) {
            continue; /* too long for the C kernels */
        }
        check_demo_prompt(&stack, &reference, i);
    }
    stack_close(&stack);
    reference_close(&reference);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_basic), cmocka_unit_test(test_dsa),  cmocka_unit_test(test_grouped),
        cmocka_unit_test(test_wide),  cmocka_unit_test(test_demo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
