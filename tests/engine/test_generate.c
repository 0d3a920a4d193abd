/* Generating text: the expected answer, stop strings across tokens, every reason to stop, whole characters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "engine/demo.h"

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

static void test_answer(void **state)
{
    sluice_session *session = demo_question(*(sluice_engine **)*state);
    struct demo_text text;
    size_t n = 0;
    const sluice_generate_options options = demo_generate_options(&text);
    assert_int_equal(demo_generate(session, &options, &n), SLUICE_STOP_EOS);
    assert_string_equal(text.bytes, DEMO_ANSWER);
    assert_int_equal(n, 30);
    assert_true(text.pieces > 15);                                           /* it streams */
    assert_int_equal(demo_generate(session, &options, &n), SLUICE_STOP_EOS); /* it still has nothing to add */
    assert_int_equal(n, 0);
    sluice_session_close(&session);
}

static void test_token_limit(void **state)
{
    if (DEMO_EMULATED) {
        skip();
    }
    sluice_session *session = demo_question(*(sluice_engine **)*state);
    struct demo_text text;
    sluice_generate_options options = demo_generate_options(&text);
    options.max_tokens = 7;
    sluice_stop stop = SLUICE_STOP_LIMIT;
    size_t total = 0;
    for (size_t n = 7; stop == SLUICE_STOP_LIMIT; total += n) {
        assert_int_equal(n, 7);
        stop = demo_generate(session, &options, &n);
    }
    assert_int_equal(stop, SLUICE_STOP_EOS);
    assert_int_equal(total, 30);
    assert_string_equal(text.bytes, DEMO_ANSWER); /* the parts join without a seam */
    sluice_session_close(&session);
}

static void expect_stop(sluice_engine *engine, const char *const *strings, size_t n, const char *expected)
{
    sluice_session *session = demo_question(engine);
    struct demo_text text;
    sluice_generate_options options = demo_generate_options(&text);
    options.stop_strings = strings;
    options.n_stop_strings = n;
    assert_int_equal(demo_generate(session, &options, NULL), SLUICE_STOP_STRING);
    assert_string_equal(text.bytes, expected);
    sluice_session_close(&session);
}

static void test_stop_strings(void **state)
{
    sluice_engine *engine = *(sluice_engine **)*state;
    const char *const long_one[] = {" enjoying or showing or"};
    const char *const inside[] = {"ppy mea"};
    const char *const at_once[] = {"As"};
    const char *const last[] = {"good fortune."};
    const char *const several[] = {"zebra", "showing", "joy", "njoying or sho"};
    expect_stop(engine, long_one, 1, "As an adjective, happy means");
    expect_stop(engine, inside, 1, "As an adjective, ha");
    expect_stop(engine, at_once, 1, "");
    expect_stop(engine, last, 1,
                "As an adjective, happy means enjoying or showing or marked by joy or pleasure. It can also mean "
                "marked by ");
    expect_stop(engine, several, 4, "As an adjective, happy means en");
}

/* Text that might have become a stop string comes all the same. */
static void test_stop_string_that_never_comes(void **state)
{
    if (DEMO_EMULATED) {
        skip();
    }
    sluice_session *session = demo_question(*(sluice_engine **)*state);
    struct demo_text text;
    const char *const strings[] = {"good fortune...", "happy meant", "fortune.\n"};
    sluice_generate_options options = demo_generate_options(&text);
    options.stop_strings = strings;
    options.n_stop_strings = 3;
    assert_int_equal(demo_generate(session, &options, NULL), SLUICE_STOP_EOS);
    assert_string_equal(text.bytes, DEMO_ANSWER);
    sluice_session_close(&session);
}

/* Stop strings work without a callback, and the tokens up to the end of the string stay in the context. */
static void test_stop_without_callback(void **state)
{
    sluice_engine *engine = *(sluice_engine **)*state;
    sluice_session *session = demo_question(engine);
    const char *const strings[] = {"happy"};
    const sluice_generate_options options = {.stop_strings = strings, .n_stop_strings = 1};
    size_t generated = 0, total = 0, len = 0;
    char *text = NULL;
    assert_int_equal(demo_generate(session, &options, &generated), SLUICE_STOP_STRING);
    const uint32_t *tokens = sluice_session_tokens(session, &total);
    assert_int_equal(sluice_detokenize(engine, tokens + total - generated, generated, &text, &len, NULL), SLUICE_OK);
    assert_string_equal(text, "As an adjective, happy");
    sluice_free(text);
    sluice_session_close(&session);
}

static void test_caller_stops(void **state)
{
    if (DEMO_EMULATED) {
        skip();
    }
    sluice_session *session = demo_question(*(sluice_engine **)*state);
    struct demo_text text;
    const sluice_generate_options options = demo_generate_options(&text);
    text.stop_after = 3;
    assert_int_equal(demo_generate(session, &options, NULL), SLUICE_STOP_CALLER);
    assert_int_equal(text.pieces, 3);
    assert_int_equal(demo_generate(session, &options, NULL), SLUICE_STOP_EOS); /* it goes on where it stopped */
    assert_string_equal(text.bytes, DEMO_ANSWER);
    sluice_session_close(&session);
}

struct cancelling {
    struct demo_text text;
    sluice_session *session;
};

static bool collect_and_cancel(void *user, const char *bytes, size_t len)
{
    struct cancelling *cancelling = user;
    demo_collect(&cancelling->text, bytes, len);
    if (cancelling->text.pieces == 4) {
        sluice_session_cancel(cancelling->session);
    }
    return true;
}

static void test_cancel_in_callback(void **state)
{
    if (DEMO_EMULATED) {
        skip();
    }
    sluice_session *session = demo_question(*(sluice_engine **)*state);
    struct cancelling cancelling = {.session = session};
    const sluice_generate_options options = {.text = collect_and_cancel, .user = &cancelling};
    size_t n = 0;
    assert_int_equal(demo_generate(session, &options, &n), SLUICE_STOP_CANCELLED);
    assert_int_equal(cancelling.text.pieces, 4);
    cancelling.text.pieces = 10;
    assert_int_equal(demo_generate(session, &options, &n), SLUICE_STOP_EOS);
    assert_string_equal(cancelling.text.bytes, DEMO_ANSWER);
    sluice_session_close(&session);
}

/* Random tokens break characters in every way; what arrives is whole characters in every piece. */
static size_t sequence_length(unsigned char lead)
{
    return lead < 0x80 ? 1 : lead < 0xC0 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

static bool check_whole_characters(void *user, const char *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t n = sequence_length((unsigned char)bytes[at]);
        assert_true(n > 0 && at + n <= len);
        for (size_t i = 1; i < n; i++) {
            assert_int_equal((unsigned char)bytes[at + i] & 0xC0, 0x80);
        }
        at += n;
    }
    *(size_t *)user += len;
    return true;
}

static void test_whole_characters(void **state)
{
    if (DEMO_EMULATED) {
        skip();
    }
    sluice_session *session = demo_session(*(sluice_engine **)*state);
    size_t len = 0;
    const char *const strings[] = {"\xC3\xA9t\xC3\xA9", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"};
    const sluice_generate_options options = {
        .max_tokens = 60, .text = check_whole_characters, .user = &len, .stop_strings = strings, .n_stop_strings = 2};
    for (uint64_t seed = 0; seed < 4; seed++) {
        const sluice_sampling sampling = {.temperature = 100.0f, .top_p = 1.0f, .seed = seed};
        demo_sync(session, (const uint32_t[]){300}, 1);
        assert_int_equal(sluice_session_set_sampling(session, &sampling, NULL), SLUICE_OK);
        demo_generate(session, &options, NULL);
    }
    assert_true(len > 60);
    sluice_session_close(&session);
}

/* A question without the opening of its answer: the model writes <|assistant|>, a special token, then <think></think>,
 * which are ordinary. */
static void expect_opening(sluice_engine *engine, bool special, const char *expected)
{
    struct demo_prompt prompt;
    struct demo_text text;
    demo_load_prompt(&prompt, 0);
    sluice_session *session = demo_session(engine);
    sluice_generate_options options = demo_generate_options(&text);
    options.max_tokens = 5;
    options.special = special;
    demo_sync(session, prompt.ids, prompt.n_prompt - 3);
    demo_generate(session, &options, NULL);
    assert_string_equal(text.bytes, expected);
    sluice_session_close(&session);
}

static void test_special_tokens(void **state)
{
    sluice_engine *engine = *(sluice_engine **)*state;
    expect_opening(engine, false, "<think></think>As an");
    expect_opening(engine, true, "<|assistant|><think></think>As an");
}

static void test_refusals(void **state)
{
    sluice_session *session = demo_session(*(sluice_engine **)*state);
    struct demo_text text;
    sluice_generate_options options = demo_generate_options(&text);
    sluice_stop stop;
    const char *const empty[] = {"fine", ""};
    const char *const broken[] = {"\xC3"};
    assert_int_equal(sluice_session_generate(session, &options, &stop, NULL, NULL), SLUICE_INVALID); /* no context */
    demo_sync(session, (const uint32_t[]){300}, 1);
    assert_int_equal(sluice_session_generate(session, NULL, &stop, NULL, NULL), SLUICE_INVALID);
    assert_int_equal(sluice_session_generate(session, &options, NULL, NULL, NULL), SLUICE_INVALID);
    options.n_stop_strings = 2;
    assert_int_equal(sluice_session_generate(session, &options, &stop, NULL, NULL), SLUICE_INVALID);
    options.stop_strings = empty;
    assert_int_equal(sluice_session_generate(session, &options, &stop, NULL, NULL), SLUICE_INVALID);
    options.stop_strings = broken;
    options.n_stop_strings = 1;
    assert_int_equal(sluice_session_generate(session, &options, &stop, NULL, NULL), SLUICE_INVALID);
    size_t n = 0;
    sluice_session_tokens(session, &n);
    assert_int_equal(n, 1);
    assert_int_equal(text.len, 0);
    sluice_session_close(&session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_token_limit),
        cmocka_unit_test(test_stop_strings),
        cmocka_unit_test(test_stop_string_that_never_comes),
        cmocka_unit_test(test_stop_without_callback),
        cmocka_unit_test(test_caller_stops),
        cmocka_unit_test(test_cancel_in_callback),
        cmocka_unit_test(test_whole_characters),
        cmocka_unit_test(test_special_tokens),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
