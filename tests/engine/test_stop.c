/* Stop strings: the same text and the same end however the text is cut into pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "engine/stop.h"

#define MAX_TEXT 64

struct outcome {
    char text[MAX_TEXT + 1];
    size_t len;
    bool stopped;
};

static void add(struct outcome *outcome, const char *text, size_t len)
{
    assert_true(outcome->len + len <= MAX_TEXT);
    if (len > 0) {
        memcpy(outcome->text + outcome->len, text, len);
    }
    outcome->len += len;
    outcome->text[outcome->len] = '\0';
}

/* Feeds the text in pieces that end where bit i of `cuts` is set. */
static void run(struct outcome *outcome, const char *const *strings, size_t n, const char *text, uint32_t cuts)
{
    struct stop_matcher matcher;
    size_t len = strlen(text);
    const char *released;
    size_t released_len;
    *outcome = (struct outcome){.len = 0};
    assert_int_equal(stop_matcher_open(&matcher, strings, n, MAX_TEXT, NULL), SLUICE_OK);
    size_t begin = 0;
    for (size_t i = 0; i < len && !outcome->stopped; i++) {
        if ((cuts >> i & 1) != 0 || i + 1 == len) {
            outcome->stopped = stop_matcher_push(&matcher, text + begin, i + 1 - begin, &released, &released_len);
            add(outcome, released, released_len);
            begin = i + 1;
        }
    }
    if (!outcome->stopped) {
        stop_matcher_flush(&matcher, &released, &released_len);
        add(outcome, released, released_len);
    }
    stop_matcher_close(&matcher);
}

static void check(const char *const *strings, size_t n, const char *text, const char *expected, bool stopped)
{
    struct outcome outcome;
    size_t len = strlen(text);
    assert_true(len > 0 && len <= 13);
    for (uint32_t cuts = 0; cuts < 1u << (len - 1); cuts++) {
        run(&outcome, strings, n, text, cuts);
        assert_string_equal(outcome.text, expected);
        assert_int_equal(outcome.stopped, stopped);
    }
}

static void test_every_cut(void **state)
{
    (void)state;
    const char *const end[] = {"END"};
    const char *const repeats[] = {"aab"};
    const char *const two[] = {"abcd", "bc"};
    const char *const together[] = {"c", "abc", "bc"};
    const char *const inside[] = {"xyxyz", "yx!"};
    check(end, 1, "one END two", "one ", true);
    check(end, 1, "one EN two", "one EN two", false);
    check(end, 1, "EENEND", "EEN", true);
    check(end, 1, "END", "", true);
    check(end, 1, "tail EN", "tail EN", false);
    check(repeats, 1, "aaaaab.", "aaa", true);
    check(repeats, 1, "aaaaaa", "aaaaaa", false);
    check(two, 2, "xabcd", "xa", true);
    check(together, 3, "xxabcx", "xx", true);
    check(inside, 2, "xyxyxyz", "xy", true);
    check(inside, 2, "xyxyx!", "xyx", true);
}

static void test_many_strings(void **state)
{
    (void)state;
    const char *strings[200];
    for (size_t i = 0; i < 200; i++) {
        strings[i] = i == 117 ? "stop" : "stOp";
    }
    check(strings, 200, "do stop now", "do ", true);
}

static void test_none(void **state)
{
    (void)state;
    struct stop_matcher matcher;
    const char *text = "anything";
    const char *released;
    size_t len;
    assert_int_equal(stop_matcher_open(&matcher, NULL, 0, 0, NULL), SLUICE_OK);
    assert_false(stop_matcher_push(&matcher, text, 8, &released, &len));
    assert_ptr_equal(released, text);
    assert_int_equal(len, 8);
    stop_matcher_flush(&matcher, &released, &len);
    assert_int_equal(len, 0);
    stop_matcher_close(&matcher);
}

/* What may become a stop string stays back; everything else comes at once. */
static void test_holds_back_no_more_than_needed(void **state)
{
    (void)state;
    static const struct {
        const char *piece;
        const char *released;
    } steps[] = {{"ab", "ab"}, {"<", ""}, {"|", ""}, {"x", "<|x"}, {"y<", "y"}, {"<|e", "<"}, {"", ""}, {"nd", ""}};
    const char *const strings[] = {"<|end|>"};
    struct stop_matcher matcher;
    const char *released;
    size_t len;
    assert_int_equal(stop_matcher_open(&matcher, strings, 1, 8, NULL), SLUICE_OK);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        assert_false(stop_matcher_push(&matcher, steps[i].piece, strlen(steps[i].piece), &released, &len));
        assert_int_equal(len, strlen(steps[i].released));
        assert_memory_equal(released, steps[i].released, len);
    }
    stop_matcher_flush(&matcher, &released, &len);
    assert_int_equal(len, 5);
    assert_memory_equal(released, "<|end", 5);
    stop_matcher_close(&matcher);
}

static void test_bad_strings(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "\x80",
                                      "a\xC3",
                                      "\xC0\x80",
                                      "\xE0\x80\x80",
                                      "\xED\xA0\x80",
                                      "\xF4\x90\x80\x80",
                                      "\xF8\x88\x80\x80\x80",
                                      "\xE2\x82",
                                      "\xFF"};
    static const char *const good[] = {"\xC2\x80", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xEF\xBF\xBD", "\x01"};
    struct stop_matcher matcher;
    sluice_error error = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const strings[] = {"good", bad[i]};
        assert_int_equal(stop_matcher_open(&matcher, strings, 2, 8, &error), SLUICE_INVALID);
        assert_true(strstr(error.message, i == 0 ? "empty" : "UTF-8") != NULL);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(stop_matcher_open(&matcher, &good[i], 1, 8, &error), SLUICE_OK);
        stop_matcher_close(&matcher);
    }
    const char *const null[] = {NULL};
    assert_int_equal(stop_matcher_open(&matcher, null, 1, 8, &error), SLUICE_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cut),   cmocka_unit_test(test_many_strings),
        cmocka_unit_test(test_none),        cmocka_unit_test(test_holds_back_no_more_than_needed),
        cmocka_unit_test(test_bad_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
