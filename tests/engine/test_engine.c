/* Opening and closing, facts, options out of range, text, and models that lack something. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/demo.h"
#include "support/temp_dir.h"

static int set_up(void **state)
{
    static sluice_engine *engine;
    engine = demo_open(NULL);
    *state = &engine;
    return 0;
}

static int tear_down(void **state)
{
    demo_close(*state);
    return 0;
}

static void test_info(void **state)
{
    const sluice_engine *engine = *(sluice_engine **)*state;
    sluice_engine_info info;
    sluice_engine_get_info(engine, &info);
    assert_int_equal(info.vocab_size, DEMO_VOCAB);
    assert_int_equal(info.hidden_size, 256);
    assert_int_equal(info.layers, 9);
    assert_int_equal(info.sparse_layers, 8);
    assert_int_equal(info.experts, 32);
    assert_int_equal(info.experts_per_token, 4);
    assert_int_equal(info.context, 512);
    assert_int_equal(info.threads, 2);
    assert_int_equal(info.expert_slots, 256);
    assert_true(info.planned_bytes > 0);
    assert_string_equal(info.numerics, "f32");
    assert_string_equal(info.device, "cpu");
    assert_non_null(strstr(info.reader, " ("));
    assert_true(strlen(info.cpu_kernels) > 0);
    assert_true(info.has_indexer && info.has_mtp && info.has_tokenizer);
}

static void test_eos(void **state)
{
    const sluice_engine *engine = *(sluice_engine **)*state;
    assert_true(sluice_engine_is_eos(engine, 4076));
    assert_true(sluice_engine_is_eos(engine, 4083));
    assert_true(sluice_engine_is_eos(engine, 4085));
    assert_false(sluice_engine_is_eos(engine, 0));
    assert_false(sluice_engine_is_eos(engine, 4084));
    assert_false(sluice_engine_is_eos(engine, UINT32_MAX));
}

static void test_close_with_sessions(void **state)
{
    (void)state;
    sluice_engine_options options = demo_options();
    options.sessions = 2;
    sluice_engine *engine = demo_open(&options);
    sluice_session *sessions[3] = {demo_session(engine), demo_session(engine), NULL};
    sluice_error error = {0};
    assert_int_equal(sluice_session_open(&sessions[2], engine, &error), SLUICE_LIMIT);
    assert_null(sessions[2]);
    assert_int_equal(sluice_engine_close(&engine, &error), SLUICE_BUSY);
    assert_non_null(engine);
    sluice_session_close(&sessions[0]);
    assert_null(sessions[0]);
    assert_int_equal(sluice_engine_close(&engine, &error), SLUICE_BUSY);
    sessions[0] = demo_session(engine);
    sluice_session_close(&sessions[0]);
    sluice_session_close(&sessions[1]);
    demo_close(&engine);
}

static void test_nothing_to_close(void **state)
{
    (void)state;
    sluice_engine *engine = NULL;
    sluice_session *session = NULL;
    sluice_text *text = NULL;
    assert_int_equal(sluice_engine_close(&engine, NULL), SLUICE_OK);
    assert_int_equal(sluice_engine_close(NULL, NULL), SLUICE_OK);
    sluice_session_close(&session);
    sluice_session_close(NULL);
    sluice_text_close(&text);
    sluice_text_close(NULL);
    sluice_free(NULL);
}

static void expect_refusal(const sluice_engine_options *options, sluice_status expected, const char *names)
{
    sluice_engine *engine = NULL;
    sluice_plan plan;
    sluice_error error = {0};
    assert_int_equal(sluice_engine_open(&engine, options, &error), expected);
    assert_null(engine);
    assert_int_equal(error.status, expected);
    assert_non_null(strstr(error.message, names));
    assert_null(strchr(error.message, '\n'));
    assert_int_equal(sluice_engine_open(&engine, options, NULL), expected);
    assert_int_equal(sluice_plan_compute(&plan, options, NULL), expected);
}

static void test_bad_options(void **state)
{
    (void)state;
    sluice_engine_options options = demo_options();
    options.context = 2049;
    expect_refusal(&options, SLUICE_INVALID, "context 2049: the model's limit is 2048");
    options = demo_options();
    options.sessions = UINT32_MAX;
    expect_refusal(&options, SLUICE_INVALID, "sessions");
    options = demo_options();
    options.threads = UINT32_MAX;
    expect_refusal(&options, SLUICE_INVALID, "threads");
    options = demo_options();
    options.prefill_chunk = UINT32_MAX;
    expect_refusal(&options, SLUICE_INVALID, "prefill_chunk");
    options = demo_options();
    options.numerics = (sluice_numerics)7;
    expect_refusal(&options, SLUICE_INVALID, "numerics 7");
    options = demo_options();
    options.device = (sluice_device)7;
    expect_refusal(&options, SLUICE_INVALID, "device 7");
    options = demo_options();
    options.cpu_features = "avx2,abacus";
    expect_refusal(&options, SLUICE_INVALID, "abacus");
    options = demo_options();
    options.model_dir = NULL;
    expect_refusal(&options, SLUICE_INVALID, "model directory");
    expect_refusal(NULL, SLUICE_INVALID, "model directory");
}

static void test_default_context(void **state)
{
    (void)state;
    sluice_engine_options options = demo_options();
    options.context = 0;
    options.sessions = 0;
    options.threads = 0;
    options.prefill_chunk = 0;
    sluice_engine *engine = demo_open(&options);
    sluice_engine_info info;
    sluice_engine_get_info(engine, &info);
    assert_int_equal(info.context, 2048);
    assert_true(info.threads >= 1);
    demo_close(&engine);
}

static void test_places_that_are_no_model(void **state)
{
    (void)state;
    struct temp_dir dir;
    assert_int_equal(temp_dir_make(&dir), 0);
    sluice_engine_options options = demo_options();
    options.model_dir = dir.path;
    sluice_engine *engine = NULL;
    sluice_error error = {0};
    assert_int_not_equal(sluice_engine_open(&engine, &options, &error), SLUICE_OK);
    assert_non_null(strstr(error.message, dir.path));
    options.model_dir = temp_dir_write(&dir, "file", "x", 1);
    assert_int_not_equal(sluice_engine_open(&engine, &options, &error), SLUICE_OK);
    options.model_dir = temp_dir_path(&dir, "absent");
    assert_int_not_equal(sluice_engine_open(&engine, &options, &error), SLUICE_OK);
    assert_null(engine);
    assert_int_equal(temp_dir_remove(&dir), 0);
}

/* The demo's files under another directory, without one of them. */
static void link_demo(const struct temp_dir *dir, const char *without)
{
    char source[1024];
    DIR *list = opendir(DEMO_DIR);
    assert_non_null(list);
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, without) != 0) {
            snprintf(source, sizeof source, "%s/%s", DEMO_DIR, entry->d_name);
            assert_int_equal(symlink(source, temp_dir_path(dir, entry->d_name)), 0);
        }
    }
    closedir(list);
}

static void count_lines(void *user, const char *line)
{
    (void)line;
    ++*(int *)user;
}

static void test_without_tokenizer(void **state)
{
    (void)state;
    struct temp_dir dir;
    struct demo_prompt prompt;
    struct demo_text text;
    int lines = 0;
    assert_int_equal(temp_dir_make(&dir), 0);
    link_demo(&dir, "tokenizer.json");
    sluice_engine_options options = demo_options();
    options.model_dir = dir.path;
    options.message = count_lines;
    options.user = &lines;
    sluice_engine *engine = demo_open(&options);
    assert_true(lines >= 1);
    sluice_engine_info info;
    sluice_engine_get_info(engine, &info);
    assert_false(info.has_tokenizer);

    sluice_session *session = demo_session(engine);
    demo_load_prompt(&prompt, 0);
    demo_sync(session, prompt.ids, prompt.n_prompt);
    const sluice_generate_options with_text = demo_generate_options(&text);
    const char *const strings[] = {"x"};
    const sluice_generate_options with_stop = {.stop_strings = strings, .n_stop_strings = 1};
    sluice_stop stop;
    assert_int_equal(sluice_session_generate(session, &with_text, &stop, NULL, NULL), SLUICE_UNSUPPORTED);
    assert_int_equal(sluice_session_generate(session, &with_stop, &stop, NULL, NULL), SLUICE_UNSUPPORTED);
    demo_expect_ids(session, prompt.ids + prompt.n_prompt, 8);
    sluice_session_close(&session);

    uint32_t *ids = NULL;
    char *bytes = NULL;
    size_t n;
    sluice_text *alone = NULL;
    const sluice_message message = {.role = SLUICE_USER, .text = "Hi"};
    assert_int_equal(sluice_tokenize(engine, "a", 1, false, &ids, &n, NULL), SLUICE_UNSUPPORTED);
    assert_int_equal(sluice_detokenize(engine, prompt.ids, 1, &bytes, &n, NULL), SLUICE_UNSUPPORTED);
    assert_int_equal(sluice_chat_tokenize(engine, &message, 1, false, &ids, &n, NULL), SLUICE_UNSUPPORTED);
    assert_int_equal(sluice_text_open(&alone, dir.path, NULL), SLUICE_UNSUPPORTED);
    demo_close(&engine);
    assert_int_equal(temp_dir_remove(&dir), 0);
}

static void test_broken_tokenizer(void **state)
{
    (void)state;
    struct temp_dir dir;
    assert_int_equal(temp_dir_make(&dir), 0);
    link_demo(&dir, "tokenizer.json");
    temp_dir_write(&dir, "tokenizer.json", "{]", 2);
    sluice_engine_options options = demo_options();
    options.model_dir = dir.path;
    sluice_engine *engine = NULL;
    sluice_error error = {0};
    assert_int_not_equal(sluice_engine_open(&engine, &options, &error), SLUICE_OK);
    assert_non_null(strstr(error.message, "tokenizer.json"));
    assert_int_equal(temp_dir_remove(&dir), 0);
}

static void test_text(void **state)
{
    const sluice_engine *engine = *(sluice_engine **)*state;
    static const char sentence[] = "What does h\xC3\xA4ppy <|user|> mean?";
    struct demo_prompt prompt;
    uint32_t *ids = NULL;
    char *bytes = NULL;
    size_t n = 0, plain = 0, len = 0;
    assert_int_equal(sluice_tokenize(engine, sentence, strlen(sentence), false, &ids, &plain, NULL), SLUICE_OK);
    assert_int_equal(sluice_detokenize(engine, ids, plain, &bytes, &len, NULL), SLUICE_OK);
    assert_int_equal(len, strlen(sentence));
    assert_string_equal(bytes, sentence);
    sluice_free(ids);
    sluice_free(bytes);
    assert_int_equal(sluice_tokenize(engine, sentence, strlen(sentence), true, &ids, &n, NULL), SLUICE_OK);
    assert_true(n < plain); /* <|user|> is one token now */
    sluice_free(ids);

    demo_load_prompt(&prompt, 0);
    const uint32_t *asked = demo_ask(engine, DEMO_QUESTION, &n);
    assert_int_equal(n, prompt.n_prompt);
    assert_memory_equal(asked, prompt.ids, n * sizeof *asked);
}

static void test_empty_and_bad_text(void **state)
{
    const sluice_engine *engine = *(sluice_engine **)*state;
    const sluice_message bad_role = {.role = (sluice_role)77, .text = "x"};
    const sluice_message no_text = {.role = SLUICE_USER, .text = NULL};
    const uint32_t unknown = DEMO_VOCAB + 5;
    uint32_t *ids = NULL;
    char *bytes = NULL;
    size_t n = 9, len = 9;
    assert_int_equal(sluice_tokenize(engine, NULL, 0, false, &ids, &n, NULL), SLUICE_OK);
    assert_int_equal(n, 0);
    assert_non_null(ids);
    sluice_free(ids);
    ids = NULL;
    assert_int_equal(sluice_detokenize(engine, NULL, 0, &bytes, &len, NULL), SLUICE_OK);
    assert_int_equal(len, 0);
    assert_string_equal(bytes, "");
    sluice_free(bytes);
    bytes = NULL;
    assert_int_equal(sluice_tokenize(engine, NULL, 3, false, &ids, &n, NULL), SLUICE_INVALID);
    assert_int_equal(sluice_tokenize(engine, "a\xFF", 2, false, &ids, &n, NULL), SLUICE_INVALID);
    assert_int_equal(sluice_detokenize(engine, &unknown, 1, &bytes, &len, NULL), SLUICE_INVALID);
    assert_int_equal(sluice_chat_tokenize(engine, &bad_role, 1, false, &ids, &n, NULL), SLUICE_INVALID);
    assert_int_equal(sluice_chat_tokenize(engine, &no_text, 1, false, &ids, &n, NULL), SLUICE_INVALID);
    assert_int_equal(sluice_chat_tokenize(engine, NULL, 0, false, &ids, &n, NULL), SLUICE_INVALID);
    assert_null(ids);
    assert_null(bytes);
}

static void test_text_alone(void **state)
{
    (void)state;
    sluice_text *text = NULL;
    uint32_t *ids = NULL;
    char *bytes = NULL;
    size_t n = 0, len = 0;
    assert_int_equal(sluice_text_open(&text, NULL, NULL), SLUICE_INVALID);
    assert_int_equal(sluice_text_open(&text, DEMO_DIR, NULL), SLUICE_OK);
    assert_int_equal(sluice_text_encode(text, DEMO_QUESTION, strlen(DEMO_QUESTION), false, &ids, &n, NULL), SLUICE_OK);
    assert_int_equal(sluice_text_decode(text, ids, n, &bytes, &len, NULL), SLUICE_OK);
    assert_string_equal(bytes, DEMO_QUESTION);
    sluice_free(ids);
    sluice_free(bytes);
    sluice_text_close(&text);
    assert_null(text);
}

static void test_inspect(void **state)
{
    (void)state;
    char *json = NULL;
    sluice_error error = {0};
    assert_int_equal(sluice_inspect(DEMO_DIR, NULL, &json, &error), SLUICE_OK);
    assert_int_equal(json[0], '{');
    assert_non_null(strstr(json, "hidden_size"));
    sluice_free(json);
    json = NULL;
    assert_int_equal(sluice_inspect(NULL, NULL, &json, &error), SLUICE_INVALID);
    assert_int_not_equal(sluice_inspect("/nonexistent", NULL, &json, &error), SLUICE_OK);
    assert_null(json);
}

static void test_synth(void **state)
{
    (void)state;
    struct temp_dir dir;
    assert_int_equal(temp_dir_make(&dir), 0);
    sluice_synth_options geometry;
    sluice_synth_options_init(&geometry);
    assert_int_equal(geometry.hidden, 6144);
    geometry.hidden = 64;
    geometry.intermediate = 32;
    geometry.experts = 4;
    geometry.top_k = 2;
    geometry.layers = 2;
    geometry.vocab = 512;
    const char *path = temp_dir_path(&dir, "model");
    sluice_error error = {0};
    if (sluice_synth(path, &geometry, &error) != SLUICE_OK) {
        fail_msg("%s", error.message);
    }
    sluice_engine_options options = demo_options();
    options.model_dir = path;
    options.context = 64;
    sluice_engine *engine = demo_open(&options);
    sluice_session *session = demo_session(engine);
    demo_sync(session, (const uint32_t[]){1, 2, 3}, 3);
    assert_non_null(sluice_session_logits(session));
    sluice_session_close(&session);
    demo_close(&engine);
    assert_int_equal(sluice_synth(NULL, &geometry, NULL), SLUICE_INVALID);
    assert_int_equal(temp_dir_remove(&dir), 0);
}

static void test_words(void **state)
{
    (void)state;
    assert_string_equal(sluice_version(), SLUICE_TEST_VERSION);
    for (int stop = SLUICE_STOP_EOS; stop <= SLUICE_STOP_CANCELLED; stop++) {
        assert_true(strlen(sluice_stop_text((sluice_stop)stop)) > 0);
        assert_string_not_equal(sluice_stop_text((sluice_stop)stop), "unknown reason");
    }
    assert_string_equal(sluice_stop_text((sluice_stop)99), "unknown reason");
    assert_string_equal(sluice_stop_text((sluice_stop)-1), "unknown reason");
}

/* NULL where a handle or options belong is misuse, not a crash. */
static void test_misuse(void **state)
{
    (void)state;
    sluice_engine *engine = NULL;
    sluice_session *session = NULL;
    sluice_plan plan;
    sluice_engine_options options = demo_options();
    assert_int_equal(sluice_engine_open(&engine, NULL, NULL), SLUICE_INVALID);
    assert_int_equal(sluice_engine_open(NULL, &options, NULL), SLUICE_INVALID);
    assert_int_equal(sluice_plan_compute(&plan, NULL, NULL), SLUICE_INVALID);
    assert_int_equal(sluice_session_open(&session, NULL, NULL), SLUICE_INVALID);
}

/* Text that no context of the engine can hold is refused before its tokens take memory. */
static void test_endless_text(void **state)
{
    (void)state;
    enum { LENGTH = 4 << 20 };
    sluice_engine_options options = demo_options();
    options.context = 256;
    sluice_engine *engine = demo_open(&options);
    char *text = malloc(LENGTH + 1);
    assert_non_null(text);
    memset(text, 'a', LENGTH);
    text[LENGTH] = '\0';
    uint32_t *ids = NULL;
    size_t n = 0;
    sluice_error error = {0};
    assert_int_equal(sluice_tokenize(engine, text, LENGTH, false, &ids, &n, &error), SLUICE_CONTEXT_FULL);
    assert_non_null(strstr(error.message, "256 tokens"));
    const sluice_message message = {SLUICE_USER, text};
    assert_int_equal(sluice_chat_tokenize(engine, &message, 1, false, &ids, &n, &error), SLUICE_CONTEXT_FULL);
    assert_null(ids);
    text[256] = '\0';
    assert_int_equal(sluice_chat_tokenize(engine, &message, 1, false, &ids, &n, &error), SLUICE_OK);
    sluice_free(ids);
    free(text);
    demo_close(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_endless_text),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_eos),
        cmocka_unit_test(test_close_with_sessions),
        cmocka_unit_test(test_nothing_to_close),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_default_context),
        cmocka_unit_test(test_places_that_are_no_model),
        cmocka_unit_test(test_without_tokenizer),
        cmocka_unit_test(test_broken_tokenizer),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_empty_and_bad_text),
        cmocka_unit_test(test_text_alone),
        cmocka_unit_test(test_inspect),
        cmocka_unit_test(test_synth),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
