/* UTF-8 scanning, character properties, the byte alphabet, NFC. */
#include "tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buffer.h"
#include "text/bytelevel.h"
#include "text/tokenizer_internal.h"
#include "text/utf8.h"

struct scan_case {
    const char *text;
    enum utf8_scan scan;
    size_t used;
};

static void scanning_the_first_character(void **state)
{
    static const struct scan_case cases[] = {
        {"a", UTF8_COMPLETE, 1},
        {"\x7F", UTF8_COMPLETE, 1},
        {"\xC2\x80", UTF8_COMPLETE, 2},
        {"\xE0\xA0\x80", UTF8_COMPLETE, 3},
        {"\xED\x9F\xBF", UTF8_COMPLETE, 3},
        {"\xF0\x90\x80\x80", UTF8_COMPLETE, 4},
        {"\xF4\x8F\xBF\xBF", UTF8_COMPLETE, 4},
        {"\xC2", UTF8_PARTIAL, 1},
        {"\xE2\x82", UTF8_PARTIAL, 2},
        {"\xF0\x9F\x98", UTF8_PARTIAL, 3},
        {"\x80", UTF8_BROKEN, 1},
        {"\xC0\x80", UTF8_BROKEN, 1},     /* overlong */
        {"\xC1\xBF", UTF8_BROKEN, 1},     /* overlong */
        {"\xE0\x9F\x80", UTF8_BROKEN, 1}, /* overlong */
        {"\xF0\x8F\xBF\xBF", UTF8_BROKEN, 1},
        {"\xED\xA0\x80", UTF8_BROKEN, 1},     /* surrogate */
        {"\xF4\x90\x80\x80", UTF8_BROKEN, 1}, /* past U+10FFFF */
        {"\xF5\x80\x80\x80", UTF8_BROKEN, 1},
        {"\xFF", UTF8_BROKEN, 1},
        {"\xC2x", UTF8_BROKEN, 1},
        {"\xE2\x82x", UTF8_BROKEN, 2},
        {"\xF0\x9F\x98x", UTF8_BROKEN, 3},
        {"\xF0\x9Fx", UTF8_BROKEN, 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        size_t used = 0;
        assert_int_equal(utf8_scan_first(cases[i].text, strlen(cases[i].text), &used), cases[i].scan);
        assert_int_equal(used, cases[i].used);
    }
}

/* Every code point: encoded by hand, it is one whole character that decodes to itself. */
static void every_code_point(void **state)
{
    (void)state;
    for (uint32_t character = 0; character < 0x110000; character++) {
        char text[4];
        size_t len, used = 0;
        if (character < 0x80) {
            text[0] = (char)character;
            len = 1;
        } else {
            len = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
            uint32_t rest = character;
            for (size_t i = len - 1; i > 0; i--) {
                text[i] = (char)(0x80 | (rest & 0x3F));
                rest >>= 6;
            }
            text[0] = (char)((0xF00u >> len & 0xFF) | rest);
        }
        bool surrogate = character >= 0xD800 && character < 0xE000;
        assert_int_equal(utf8_find_invalid(text, len), surrogate ? 0 : len);
        if (!surrogate) {
            assert_int_equal(utf8_decode(text, &used), character);
            assert_int_equal(used, len);
            assert_int_equal(utf8_previous(text, len), 0);
        }
    }
}

static void properties(void **state)
{
    static const uint32_t spaces[] = {9,      10,     11,     12,     13,     32,     0x85,  0xA0,
                                      0x1680, 0x2000, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
    static const uint32_t others[] = {0, 8, 14, 'a', 0x180E, 0x200B, 0xFEFF, 0x10FFFF};
    static const uint32_t words[] = {'a', 'Z', '0', '_', 0xE9, 0x301, 0x203F, 0x200D, 0x4E00, 0x24B6, 0x2167, 0x1F130};
    static const uint32_t marks[] = {' ', '-', '<', 0xB2, 0x3001, 0x1F600, 0x200B};
    (void)state;
    for (size_t i = 0; i < sizeof(spaces) / sizeof(*spaces); i++) {
        assert_true(utf8_is_space(spaces[i]));
        assert_false(utf8_is_word(spaces[i]));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        assert_false(utf8_is_space(others[i]));
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        assert_true(utf8_is_word(words[i]));
    }
    for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
        assert_false(utf8_is_word(marks[i]));
    }
    static const char text[] = " \t\xE3\x80\x80x y\xC2\xA0\n";
    assert_int_equal(utf8_space_prefix(text, sizeof(text) - 1), 5);
    assert_int_equal(utf8_space_suffix(text, sizeof(text) - 1), 3);
    assert_int_equal(utf8_space_prefix(text, 5), 5);
    assert_int_equal(utf8_space_suffix(text, 5), 5);
    assert_int_equal(utf8_space_prefix("", 0), 0);
    assert_int_equal(utf8_space_suffix("", 0), 0);
}

/* The alphabet spells each byte once, and nothing else. */
static void byte_alphabet(void **state)
{
    bool seen[256] = {false};
    size_t n_seen = 0;
    (void)state;
    for (uint32_t character = 0; character < 0x800; character++) {
        char text[2], out[2];
        size_t len = character < 0x80 ? 1 : 2, n = 0;
        text[0] = (char)(len == 1 ? character : 0xC0 | character >> 6);
        text[1] = (char)(0x80 | (character & 0x3F));
        if (bytelevel_decode(text, len, out, &n)) {
            assert_int_equal(n, 1);
            assert_false(seen[(unsigned char)out[0]]);
            seen[(unsigned char)out[0]] = true;
            n_seen++;
        }
    }
    assert_int_equal(n_seen, 256);
    char out[8];
    size_t n = 0;
    assert_true(bytelevel_decode("\xC4\xA0"
                                 "a\xC4\x8A\xC3\xA9",
                                 7, out, &n));
    assert_int_equal(n, 4);
    assert_memory_equal(out, " a\n\xE9", 4);
    assert_int_equal(bytelevel_count("\xC4\xA0"
                                     "a\xC4\x8A\xC3\xA9",
                                     7),
                     4);
    assert_false(bytelevel_decode("a b", 3, out, &n));
    assert_false(bytelevel_decode("\xEF\xBD\x9C", 3, out, &n));
}

static void check_nfc(const char *text, const char *wanted)
{
    struct buffer out;
    buffer_init(&out, 4096);
    assert_int_equal(normalize_nfc(text, strlen(text), &out, NULL), SLUICE_OK);
    assert_string_equal(out.data, wanted);
    buffer_free(&out);
}

static void normalisation(void **state)
{
    (void)state;
    check_nfc("plain", "plain");
    check_nfc("e\xCC\x81", "\xC3\xA9");
    check_nfc("\xE2\x84\xAB", "\xC3\x85");                             /* angstrom sign */
    check_nfc("q\xCC\x87\xCC\xA3", "q\xCC\xA3\xCC\x87");               /* marks change places */
    check_nfc("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C"); /* Hangul from its letters */
    check_nfc("\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC");             /* excluded from composition */
    check_nfc("\xEF\xAC\x81", "\xEF\xAC\x81");                         /* a ligature stays */
    check_nfc("a\xCC\x95\xCC\x80\xD6\xAE\xCC\x80"                      /* from the conformance test */
              "b",
              "\xC3\xA0\xD6\xAE\xCC\x80\xCC\x95"
              "b");
}

/* Marks in the worst order, in a number that exchanging neighbours could not sort within the test's time. */
static void many_marks(void **state)
{
    enum { N = 200000 };
    struct buffer text, out;
    (void)state;
    buffer_init(&text, 4 * N + 16);
    buffer_init(&out, 8 * N);
    assert_int_equal(buffer_append(&text, "x", 1, NULL), SLUICE_OK);
    for (int i = 0; i < N; i++) {
        assert_int_equal(buffer_append(&text, i % 2 == 0 ? "\xCC\x95" : "\xCC\xA3", 2, NULL), SLUICE_OK);
    }
    clock_t start = clock();
    assert_int_equal(normalize_nfc(text.data, text.len, &out, NULL), SLUICE_OK);
    assert_true(clock() - start < 20 * CLOCKS_PER_SEC);
    assert_int_equal(out.len, text.len);
    for (size_t i = 1; i < out.len; i += 2) {
        assert_memory_equal(out.data + i, i <= N ? "\xCC\xA3" : "\xCC\x95", 2);
    }
    buffer_free(&text);
    buffer_free(&out);
}

int run_utf8_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scanning_the_first_character),
        cmocka_unit_test(every_code_point),
        cmocka_unit_test(properties),
        cmocka_unit_test(byte_alphabet),
        cmocka_unit_test(normalisation),
        cmocka_unit_test(many_marks),
    };
    return cmocka_run_group_tests_name("text utf8", tests, NULL, NULL);
}
