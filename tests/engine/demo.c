/* Helpers around the demo model. */
#include "engine/demo.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define PREFIX_LIMIT 512

static size_t load_ids(const json_t *array, uint32_t *ids)
{
    size_t n = json_array_size(array);
    assert_in_range(n, 1, PREFIX_LIMIT);
    for (size_t i = 0; i < n; i++) {
        ids[i] = (uint32_t)json_integer_value(json_array_get(array, i));
    }
    return n;
}

void demo_load_prompt(struct demo_prompt *out, size_t i)
{
    json_error_t failure;
    json_t *root = json_load_file(DEMO_DIR "/reference.json", 0, &failure);
    assert_non_null(root);
    const json_t *prompt = json_array_get(json_object_get(root, "prompts"), i);
    const json_t *margin = json_object_get(prompt, "top2_margin");
    out->n_prompt = json_array_size(json_object_get(prompt, "prompt_ids"));
    out->n = load_ids(json_object_get(prompt, "full_ids"), out->ids);
    assert_int_equal(json_array_size(margin), out->n);
    for (size_t at = 0; at < out->n; at++) {
        out->margin[at] = (float)json_real_value(json_array_get(margin, at));
    }
    json_decref(root);
}

sluice_engine_options demo_options(void)
{
    sluice_engine_options options;
    sluice_engine_options_init(&options);
    options.model_dir = DEMO_DIR;
    options.threads = 2;
    options.context = 512;
    options.prefill_chunk = 16;
    return options;
}

static void check(sluice_status status, const sluice_error *error)
{
    if (status != SLUICE_OK) {
        fail_msg("%s: %s", sluice_status_name(status), error->message);
    }
}

/* A sanitizer's heap keeps what is freed, so every planning finds the process larger than the one before. */
uint64_t demo_least_memory(const sluice_engine_options *options)
{
    sluice_plan plans[2];
    sluice_error error = {0};
    for (size_t i = 0; i < 2; i++) {
        check(sluice_plan_compute(&plans[i], options, &error), &error);
    }
    uint64_t least = plans[1].minimum;
    uint64_t before = plans[0].minimum;
    return least > before ? least + (least - before) + ((uint64_t)1 << 20) : least;
}

sluice_engine *demo_open(const sluice_engine_options *options)
{
    sluice_engine_options usual = demo_options();
    sluice_engine *engine = NULL;
    sluice_error error = {0};
    check(sluice_engine_open(&engine, options != NULL ? options : &usual, &error), &error);
    return engine;
}

void demo_close(sluice_engine **engine)
{
    sluice_error error = {0};
    check(sluice_engine_close(engine, &error), &error);
    assert_null(*engine);
}

sluice_session *demo_session(sluice_engine *engine)
{
    sluice_session *session = NULL;
    sluice_error error = {0};
    check(sluice_session_open(&session, engine, &error), &error);
    return session;
}

void demo_sync(sluice_session *session, const uint32_t *ids, size_t n)
{
    sluice_error error = {0};
    check(sluice_session_sync(session, ids, n, &error), &error);
}

const uint32_t *demo_ask(const sluice_engine *engine, const char *question, size_t *n)
{
    static uint32_t kept[PREFIX_LIMIT];
    const sluice_message message = {.role = SLUICE_USER, .text = question};
    uint32_t *ids = NULL;
    sluice_error error = {0};
    check(sluice_chat_tokenize(engine, &message, 1, false, &ids, n, &error), &error);
    assert_in_range(*n, 1, PREFIX_LIMIT);
    memcpy(kept, ids, *n * sizeof *ids);
    sluice_free(ids);
    return kept;
}

sluice_session *demo_question(sluice_engine *engine)
{
    size_t n = 0;
    const uint32_t *ids = demo_ask(engine, DEMO_QUESTION, &n);
    sluice_session *session = demo_session(engine);
    demo_sync(session, ids, n);
    return session;
}

bool demo_collect(void *user, const char *bytes, size_t len)
{
    struct demo_text *text = user;
    assert_true(len > 0 && text->len + len < sizeof text->bytes);
    memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
    text->bytes[text->len] = '\0';
    text->pieces++;
    return text->pieces != text->stop_after;
}

sluice_generate_options demo_generate_options(struct demo_text *text)
{
    *text = (struct demo_text){.len = 0};
    return (sluice_generate_options){.text = demo_collect, .user = text};
}

sluice_stop demo_generate(sluice_session *session, const sluice_generate_options *options, size_t *n)
{
    sluice_stop stop = SLUICE_STOP_CALLER;
    sluice_error error = {0};
    check(sluice_session_generate(session, options, &stop, n, &error), &error);
    return stop;
}

void demo_expect_ids(sluice_session *session, const uint32_t *ids, size_t n)
{
    const sluice_generate_options options = {.max_tokens = (uint32_t)n};
    size_t before, after, generated;
    sluice_session_tokens(session, &before);
    assert_int_equal(demo_generate(session, &options, &generated), SLUICE_STOP_LIMIT);
    assert_int_equal(generated, n);
    const uint32_t *tokens = sluice_session_tokens(session, &after);
    assert_int_equal(after, before + n);
    assert_memory_equal(tokens + before, ids, n * sizeof *ids);
}
