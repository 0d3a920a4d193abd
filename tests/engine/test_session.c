/* Sessions: the same bits however a context came about, evaluation of every position, one token at a time,
 * cancelling, and several sessions at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/demo.h"

#define LOGITS_BYTES (DEMO_VOCAB * sizeof(float))
#define CLEAR_MARGIN 0.01f

/* The last reference prompt is by far the longest: too slow under a sanitizer. */
#if defined(SLUICE_TEST_EMULATED)
#define N_REFERENCES 1
#elif defined(SLUICE_SANITIZED)
#define N_REFERENCES (DEMO_PROMPTS - 1)
#else
#define N_REFERENCES DEMO_PROMPTS
#endif

static int set_up(void **state)
{
    static sluice_engine *engine;
    sluice_engine_options options = demo_options();
    options.sessions = 3;
    engine = demo_open(&options);
    *state = &engine;
    return 0;
}

static int tear_down(void **state)
{
    demo_close(*state);
    return 0;
}

/* Logits after these tokens, computed by a session that has seen nothing else. */
static void fresh_logits(sluice_engine *engine, const uint32_t *ids, size_t n, float *out)
{
    sluice_session *session = demo_session(engine);
    demo_sync(session, ids, n);
    memcpy(out, sluice_session_logits(session), LOGITS_BYTES);
    sluice_session_close(&session);
}

static void expect_logits(const sluice_session *session, const float *expected)
{
    assert_non_null(sluice_session_logits(session));
    assert_memory_equal(sluice_session_logits(session), expected, LOGITS_BYTES);
}

/* Tokens up to the first eos or near tie of the reference. */
static size_t clear_length(const sluice_engine *engine, const struct demo_prompt *prompt)
{
    size_t n = prompt->n_prompt;
    while (n < prompt->n && prompt->margin[n - 1] > CLEAR_MARGIN && !sluice_engine_is_eos(engine, prompt->ids[n])) {
        n++;
    }
    return n;
}

static void test_reference(void **state)
{
    sluice_engine *engine = *(sluice_engine **)*state;
    for (size_t i = 0; i < N_REFERENCES; i++) {
        struct demo_prompt prompt;
        demo_load_prompt(&prompt, i);
        size_t n = clear_length(engine, &prompt);
        assert_true(n > prompt.n_prompt + 4);
        sluice_session *session = demo_session(engine);
        demo_sync(session, prompt.ids, prompt.n_prompt);
        demo_expect_ids(session, prompt.ids + prompt.n_prompt, n - prompt.n_prompt);
        sluice_session_close(&session);
    }
}

static void test_prefix_reuse(void **state)
{
    if (DEMO_EMULATED) {
        skip();
    }
    sluice_engine *engine = *(sluice_engine **)*state;
    static float expected[DEMO_VOCAB];
    struct demo_prompt prompt;
    demo_load_prompt(&prompt, 3);
    sluice_session *session = demo_session(engine);
    static const size_t lengths[] = {20, 21, 21, 17, 1, 30, 25};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        demo_sync(session, prompt.ids, lengths[i]);
        fresh_logits(engine, prompt.ids, lengths[i], expected);
        expect_logits(session, expected);
    }
    prompt.ids[18] = 17; /* another conversation from here on */
    demo_sync(session, prompt.ids, 23);
    fresh_logits(engine, prompt.ids, 23, expected);
    expect_logits(session, expected);
    prompt.ids[0] = 18;
    demo_sync(session, prompt.ids, 5);
    fresh_logits(engine, prompt.ids, 5, expected);
    expect_logits(session, expected);
    sluice_session_close(&session);
}

/* A generated answer stays in the cache; its last token is computed with what follows. */
static void test_sync_after_generate(void **state)
{
    sluice_engine *engine = *(sluice_engine **)*state;
    static float expected[DEMO_VOCAB];
    uint32_t ids[64];
    size_t n = 0;
    sluice_stats before, after;
    sluice_session *session = demo_question(engine);
    const sluice_generate_options options = {.max_tokens = 6};
    assert_int_equal(demo_generate(session, &options, NULL), SLUICE_STOP_LIMIT);
    assert_null(sluice_session_logits(session));
    const uint32_t *tokens = sluice_session_tokens(session, &n);
    memcpy(ids, tokens, n * sizeof *ids);
    ids[n] = 100;
    ids[n + 1] = 200;
    sluice_engine_get_stats(engine, &before);
    demo_sync(session, ids, n + 2);
    sluice_engine_get_stats(engine, &after);
    assert_int_equal(after.prefill_tokens - before.prefill_tokens, 3);
    fresh_logits(engine, ids, n + 2, expected);
    expect_logits(session, expected);
    sluice_session_close(&session);
}

static void test_work_done(void **state)
{
    if (DEMO_EMULATED) {
        skip();
    }
    sluice_engine *engine = *(sluice_engine **)*state;
    struct demo_prompt prompt;
    sluice_stats stats[5];
    size_t n = 0;
    demo_load_prompt(&prompt, 3);
    sluice_session *session = demo_session(engine);
    sluice_engine_get_stats(engine, &stats[0]);
    demo_sync(session, prompt.ids, 40);
    sluice_engine_get_stats(engine, &stats[1]);
    demo_sync(session, prompt.ids, 40);
    demo_sync(session, sluice_session_tokens(session, &n), 40);
    sluice_engine_get_stats(engine, &stats[2]);
    demo_sync(session, prompt.ids, 30);
    sluice_engine_get_stats(engine, &stats[3]);
    uint32_t token;
    assert_int_equal(sluice_session_next(session, &token, NULL), SLUICE_OK);
    assert_int_equal(sluice_session_next(session, &token, NULL), SLUICE_OK);
    sluice_engine_get_stats(engine, &stats[4]);
    assert_int_equal(stats[1].prefill_tokens - stats[0].prefill_tokens, 40);
    assert_int_equal(stats[2].prefill_tokens, stats[1].prefill_tokens);
    assert_int_equal(stats[3].prefill_tokens - stats[2].prefill_tokens, 1);
    assert_int_equal(stats[4].prefill_tokens, stats[3].prefill_tokens);
    assert_int_equal(stats[4].decode_tokens - stats[3].decode_tokens, 2);
    assert_true(stats[1].prefill_seconds > stats[0].prefill_seconds);
    assert_true(stats[4].decode_seconds > stats[3].decode_seconds);
    assert_true(stats[4].expert_hits + stats[4].expert_misses > 0);
    assert_true(stats[4].bytes_read > 0 && stats[4].planned_bytes > 0 && stats[4].peak_rss_bytes > 0);
    sluice_session_close(&session);
}

/* Chunks, threads, instruction sets and the number of slots change no bit. */
static void test_same_bits_everywhere(void **state)
{
    if (DEMO_EMULATED) {
        skip();
    }
    sluice_engine *engine = *(sluice_engine **)*state;
    static float expected[DEMO_VOCAB];
    struct demo_prompt prompt;
    demo_load_prompt(&prompt, 1);
    fresh_logits(engine, prompt.ids, 34, expected);
    static const struct {
        uint32_t chunk, threads;
        bool few_slots;
        const char *features;
    } cases[] = {{1, 1, false, NULL}, {7, 3, true, NULL}, {64, 2, true, "scalar"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sluice_engine_options options = demo_options();
        options.prefill_chunk = cases[i].chunk;
        options.threads = cases[i].threads;
        options.cpu_features = cases[i].features;
        options.memory_limit = cases[i].few_slots ? demo_least_memory(&options) : 0;
        sluice_engine *other = demo_open(&options);
        sluice_session *session = demo_session(other);
        demo_sync(session, prompt.ids, 34);
        expect_logits(session, expected);
        sluice_session_close(&session);
        demo_close(&other);
    }
}

struct rows {
    float *logits; /* [n][DEMO_VOCAB] */
    size_t n, stop_after;
};

static bool keep_rows(void *user, size_t first, size_t n_rows, const float *logits)
{
    struct rows *rows = user;
    assert_int_equal(first, rows->n);
    memcpy(rows->logits + first * DEMO_VOCAB, logits, n_rows * LOGITS_BYTES);
    rows->n += n_rows;
    return rows->n < rows->stop_after;
}

static void test_evaluate(void **state)
{
    if (DEMO_EMULATED) {
        skip();
    }
    sluice_engine *engine = *(sluice_engine **)*state;
    static float expected[DEMO_VOCAB];
    struct demo_prompt prompt;
    demo_load_prompt(&prompt, 0);
    struct rows rows = {.logits = malloc(prompt.n * LOGITS_BYTES), .stop_after = SIZE_MAX};
    assert_non_null(rows.logits);
    sluice_session *session = demo_question(engine);
    assert_int_equal(sluice_session_evaluate(session, prompt.ids, prompt.n, keep_rows, &rows, NULL), SLUICE_OK);
    assert_int_equal(rows.n, prompt.n);
    expect_logits(session, rows.logits + (prompt.n - 1) * DEMO_VOCAB);
    static const size_t positions[] = {0, 1, 15, 16, 40};
    for (size_t i = 0; i < sizeof positions / sizeof positions[0]; i++) {
        fresh_logits(engine, prompt.ids, positions[i] + 1, expected);
        assert_memory_equal(rows.logits + positions[i] * DEMO_VOCAB, expected, LOGITS_BYTES);
    }
    rows.n = 0;
    rows.stop_after = 20;
    assert_int_equal(sluice_session_evaluate(session, prompt.ids, prompt.n, keep_rows, &rows, NULL), SLUICE_CANCELLED);
    assert_int_equal(rows.n, 32);
    size_t n = 0;
    sluice_session_tokens(session, &n);
    assert_int_equal(n, 32);
    assert_int_equal(sluice_session_evaluate(session, prompt.ids, prompt.n, NULL, &rows, NULL), SLUICE_INVALID);
    assert_int_equal(sluice_session_evaluate(session, prompt.ids, 0, keep_rows, &rows, NULL), SLUICE_INVALID);
    free(rows.logits);
    sluice_session_close(&session);
}

static void test_refused_tokens(void **state)
{
    sluice_engine *engine = *(sluice_engine **)*state;
    static float expected[DEMO_VOCAB];
    uint32_t ids[600] = {0};
    uint32_t token = 12345;
    size_t before = 0, after = 0;
    sluice_error error = {0};
    sluice_session *session = demo_session(engine);
    assert_null(sluice_session_logits(session));
    assert_int_equal(sluice_session_next(session, &token, &error), SLUICE_INVALID);
    demo_sync(session, (const uint32_t[]){5, 6, 7}, 3);
    memcpy(expected, sluice_session_logits(session), LOGITS_BYTES);
    assert_int_equal(sluice_session_sync(session, ids, 513, &error), SLUICE_CONTEXT_FULL);
    ids[11] = DEMO_VOCAB;
    assert_int_equal(sluice_session_sync(session, ids, 20, &error), SLUICE_INVALID);
    assert_non_null(strstr(error.message, "token 11 is 4096"));
    assert_int_equal(sluice_session_sync(session, ids, 0, &error), SLUICE_INVALID);
    assert_int_equal(sluice_session_sync(session, NULL, 1, &error), SLUICE_INVALID);
    const uint32_t *tokens = sluice_session_tokens(session, &before);
    assert_int_equal(before, 3);
    assert_int_equal(tokens[2], 7);
    expect_logits(session, expected);
    sluice_sampling sampling;
    sluice_sampling_init(&sampling);
    sampling.top_p = 2.0f;
    assert_int_equal(sluice_session_set_sampling(session, &sampling, &error), SLUICE_INVALID);
    assert_int_equal(sluice_session_set_sampling(session, NULL, &error), SLUICE_INVALID);
    sluice_session_tokens(session, &after);
    assert_int_equal(token, 12345);
    assert_int_equal(after, before);
    sluice_session_close(&session);
}

static void test_next_until_eos(void **state)
{
    if (DEMO_EMULATED) {
        skip();
    }
    sluice_engine *engine = *(sluice_engine **)*state;
    struct demo_prompt prompt;
    demo_load_prompt(&prompt, 1);
    sluice_session *session = demo_session(engine);
    demo_sync(session, prompt.ids, prompt.n_prompt);
    size_t expected = prompt.n_prompt;
    size_t n = 0;
    for (uint32_t token = 0; !sluice_engine_is_eos(engine, token); expected++) {
        assert_int_equal(sluice_session_next(session, &token, NULL), SLUICE_OK);
        assert_int_equal(token, prompt.ids[expected]);
    }
    sluice_session_tokens(session, &n);
    assert_int_equal(n, expected - 1); /* without the eos */
    assert_non_null(sluice_session_logits(session));
    sluice_session_close(&session);
}

static void test_full_context(void **state)
{
    (void)state;
    sluice_engine_options options = demo_options();
    options.context = 20;
    sluice_engine *engine = demo_open(&options);
    sluice_session *session = demo_question(engine);
    struct demo_prompt prompt;
    size_t n = 0;
    uint32_t token = 0;
    demo_load_prompt(&prompt, 0);
    for (size_t i = prompt.n_prompt; i < 20; i++) {
        assert_int_equal(sluice_session_next(session, &token, NULL), SLUICE_OK);
        assert_int_equal(token, prompt.ids[i]);
    }
    token = 12345;
    assert_int_equal(sluice_session_next(session, &token, NULL), SLUICE_CONTEXT_FULL);
    assert_int_equal(token, 12345);
    sluice_session_tokens(session, &n);
    assert_int_equal(n, 20);
    demo_sync(session, prompt.ids, prompt.n_prompt);
    const sluice_generate_options generate = {.max_tokens = 0};
    assert_int_equal(demo_generate(session, &generate, &n), SLUICE_STOP_CONTEXT);
    assert_int_equal(n, 8);
    sluice_session_close(&session);
    demo_close(&engine);
}

static void test_same_seed_same_tokens(void **state)
{
    if (DEMO_EMULATED) {
        skip();
    }
    sluice_engine *engine = *(sluice_engine **)*state;
    uint32_t ids[3][24];
    static const uint64_t seeds[] = {5, 5, 6};
    for (size_t i = 0; i < 3; i++) {
        sluice_session *session = demo_session(engine);
        const sluice_sampling sampling = {.temperature = 3.0f, .top_p = 1.0f, .seed = seeds[i]};
        demo_sync(session, (const uint32_t[]){300, 301}, 2);
        assert_int_equal(sluice_session_set_sampling(session, &sampling, NULL), SLUICE_OK);
        for (size_t at = 0; at < 24; at++) {
            assert_int_equal(sluice_session_next(session, &ids[i][at], NULL), SLUICE_OK);
        }
        sluice_session_close(&session);
    }
    assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
    assert_memory_not_equal(ids[0], ids[2], sizeof ids[0]);
}

/* Cancels at a moment of the prefill that is always the same. */
struct canceller {
    sluice_session *session;
    uint64_t at;
};

static void cancel_at(void *user, const char *what, uint64_t done, uint64_t total)
{
    struct canceller *canceller = user;
    (void)total;
    if (canceller->session != NULL && strcmp(what, "prefill") == 0 && done == canceller->at) {
        sluice_session_cancel(canceller->session);
    }
}

static void test_cancelled_sync(void **state)
{
    (void)state;
    if (DEMO_EMULATED) {
        skip();
    }
    static float expected[DEMO_VOCAB];
    struct canceller canceller = {.at = 32};
    struct demo_prompt prompt;
    sluice_engine_options options = demo_options();
    options.progress = cancel_at;
    options.user = &canceller;
    sluice_engine *engine = demo_open(&options);
    demo_load_prompt(&prompt, 3);
    fresh_logits(engine, prompt.ids, 60, expected);
    sluice_session *session = demo_session(engine);
    canceller.session = session;
    assert_int_equal(sluice_session_sync(session, prompt.ids, 60, NULL), SLUICE_CANCELLED);
    size_t n = 0;
    sluice_session_tokens(session, &n);
    assert_int_equal(n, 32);
    assert_null(sluice_session_logits(session));
    uint32_t token;
    assert_int_equal(sluice_session_next(session, &token, NULL), SLUICE_CANCELLED); /* the flag stands until a sync */
    canceller.session = NULL;
    demo_sync(session, prompt.ids, 60);
    expect_logits(session, expected);
    sluice_session_close(&session);
    demo_close(&engine);
}

static void *cancel_soon(void *arg)
{
    struct timespec time = {.tv_nsec = 30 * 1000000};
    nanosleep(&time, NULL);
    sluice_session_cancel(arg);
    return NULL;
}

/* Generates without an end until another thread cancels. */
static void test_cancel_from_another_thread(void **state)
{
    sluice_engine *engine = *(sluice_engine **)*state;
    sluice_session *session = demo_session(engine);
    const sluice_sampling sampling = {.temperature = 1.0f, .top_p = 1.0f, .seed = 1};
    const sluice_generate_options options = {.max_tokens = 0};
    sluice_stop stop = SLUICE_STOP_EOS;
    assert_int_equal(sluice_session_set_sampling(session, &sampling, NULL), SLUICE_OK);
    for (int attempt = 0; attempt < 50 && stop != SLUICE_STOP_CANCELLED; attempt++) {
        pthread_t thread;
        demo_sync(session, (const uint32_t[]){300, 301, 302}, 3);
        assert_int_equal(pthread_create(&thread, NULL, cancel_soon, session), 0);
        stop = demo_generate(session, &options, NULL);
        pthread_join(thread, NULL);
    }
    assert_int_equal(stop, SLUICE_STOP_CANCELLED);
    demo_sync(session, (const uint32_t[]){300}, 1);
    sluice_session_close(&session);
}

struct conversation {
    sluice_session *session;
    const struct demo_prompt *prompt;
    size_t n;
    bool equal;
};

/* Assertions belong to the main thread. */
static void *converse(void *arg)
{
    struct conversation *conversation = arg;
    const struct demo_prompt *prompt = conversation->prompt;
    conversation->equal = sluice_session_sync(conversation->session, prompt->ids, prompt->n_prompt, NULL) == SLUICE_OK;
    for (size_t i = prompt->n_prompt; i < conversation->n && conversation->equal; i++) {
        uint32_t token = 0;
        conversation->equal = sluice_session_next(conversation->session, &token, NULL) == SLUICE_OK;
        conversation->equal = conversation->equal && token == prompt->ids[i];
    }
    return NULL;
}

static void test_two_threads(void **state)
{
    if (DEMO_EMULATED) {
        skip();
    }
    sluice_engine *engine = *(sluice_engine **)*state;
    static struct demo_prompt prompts[2];
    struct conversation conversations[2];
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        demo_load_prompt(&prompts[i], i);
        conversations[i] = (struct conversation){
            .session = demo_session(engine), .prompt = &prompts[i], .n = clear_length(engine, &prompts[i])};
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, converse, &conversations[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_true(conversations[i].equal);
        sluice_session_close(&conversations[i].session);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_prefix_reuse),
        cmocka_unit_test(test_sync_after_generate),
        cmocka_unit_test(test_work_done),
        cmocka_unit_test(test_same_bits_everywhere),
        cmocka_unit_test(test_evaluate),
        cmocka_unit_test(test_refused_tokens),
        cmocka_unit_test(test_next_until_eos),
        cmocka_unit_test(test_full_context),
        cmocka_unit_test(test_same_seed_same_tokens),
        cmocka_unit_test(test_cancelled_sync),
        cmocka_unit_test(test_cancel_from_another_thread),
        cmocka_unit_test(test_two_threads),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
