/* The streaming detokenizer: whole characters only, the same text as decoding all bytes at once. */
#include "tests.h"

#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "text/utf8.h"

/* In the small tokenizer the id of a byte is the byte. */
static struct tokenizer *small;

static int open_small(void **state)
{
    (void)state;
    return fixture_open(&small, fixture_small_json(), NULL) == SLUICE_OK ? 0 : -1;
}

static int close_small(void **state)
{
    (void)state;
    tokenizer_close(&small);
    return 0;
}

/* All bytes decoded at once, each maximal subpart that is no character replaced: written apart from the stream. */
static size_t decode_at_once(const unsigned char *bytes, size_t len, char *out)
{
    size_t written = 0;
    for (size_t at = 0; at < len;) {
        size_t used = 0;
        if (utf8_scan_first((const char *)bytes + at, len - at, &used) == UTF8_COMPLETE) {
            memcpy(out + written, bytes + at, used);
            written += used;
        } else {
            for (size_t i = 0; i < 3; i++) {
                out[written++] = "\xEF\xBF\xBD"[i];
            }
        }
        at += used;
    }
    return written;
}

struct stream_case {
    const char *bytes, *text;
};

static void replacement(void **state)
{
    static const struct stream_case cases[] = {
        {"abc", "abc"},
        {"\xC3\xA9", "\xC3\xA9"},
        {"\xF0\x9F\x98\x80!", "\xF0\x9F\x98\x80!"},
        {"\xFF", "\xEF\xBF\xBD"},
        {"a\xC3", "a\xEF\xBF\xBD"},
        {"\xE2\x82", "\xEF\xBF\xBD"},
        {"\xE2\x82x", "\xEF\xBF\xBDx"},
        {"\xF0\x9F\x98\xC3\xA9", "\xEF\xBF\xBD\xC3\xA9"},
        {"\xF0\x9F\x98\xF0\x9F\x98\x80", "\xEF\xBF\xBD\xF0\x9F\x98\x80"},
        {"\xC0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xC3\xC3\xA9", "\xEF\xBF\xBD\xC3\xA9"},
        {"\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char out[256];
        size_t len = 0;
        struct detokenizer d;
        detokenizer_init(&d, small, false);
        for (const char *byte = cases[i].bytes; *byte != '\0'; byte++) {
            size_t n = detokenizer_push(&d, (unsigned char)*byte, out + len);
            assert_int_equal(utf8_find_invalid(out + len, n), n);
            len += n;
        }
        len += detokenizer_finish(&d, out + len);
        out[len] = '\0';
        assert_string_equal(out, cases[i].text);
        assert_int_equal(detokenizer_finish(&d, out), 0);
    }
}

/* Random bytes, many of them starts and continuations: each push gives whole characters, all together give the
 * text of all bytes, and nothing is held back longer than needed. */
static void streams_of_random_bytes(void **state)
{
    uint64_t seed = 5;
    (void)state;
    for (int round = 0; round < 3000; round++) {
        unsigned char bytes[40];
        char streamed[256], whole[256];
        size_t n = 0, len;
        struct detokenizer d;
        detokenizer_init(&d, small, false);
        for (size_t i = 0; i < sizeof(bytes); i++) {
            static const unsigned char favourites[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xED\xA0\xC0\xFF";
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            uint32_t draw = (uint32_t)(seed >> 33);
            bytes[i] = draw % 4 != 0 ? favourites[draw / 4 % (sizeof(favourites) - 1)] : (unsigned char)(draw / 4);
            size_t pushed = detokenizer_push(&d, bytes[i], streamed + n);
            assert_int_equal(utf8_find_invalid(streamed + n, pushed), pushed);
            assert_true(pushed <= detokenizer_max_bytes(small));
            n += pushed;
            /* what is out so far lacks at most an unfinished character */
            len = decode_at_once(bytes, i + 1, whole);
            assert_true(len >= n && len - n <= 3);
            assert_memory_equal(streamed, whole, n);
        }
        n += detokenizer_finish(&d, streamed + n);
        assert_int_equal(n, len);
        assert_memory_equal(streamed, whole, n);
    }
}

static void special_tokens(void **state)
{
    char out[64];
    struct detokenizer d;
    (void)state;
    detokenizer_init(&d, small, false);
    assert_int_equal(detokenizer_push(&d, 259, out), 5);
    assert_memory_equal(out, "<end>", 5);
    detokenizer_init(&d, small, true);
    assert_int_equal(detokenizer_push(&d, 259, out), 0);
    assert_int_equal(detokenizer_push(&d, 256, out), 2);
    /* a character goes on behind what is skipped */
    assert_int_equal(detokenizer_push(&d, 0xC3, out), 0);
    assert_int_equal(detokenizer_push(&d, 259, out), 0);
    assert_int_equal(detokenizer_push(&d, 260, out), 0);
    assert_int_equal(detokenizer_push(&d, UINT32_MAX, out), 0);
    assert_int_equal(detokenizer_push(&d, 0xA9, out), 2);
    assert_memory_equal(out, "\xC3\xA9", 2);
    assert_int_equal(detokenizer_finish(&d, out), 0);
}

/* The longest token made of bytes that all must be replaced, behind a character left unfinished. */
static void most_bytes_of_one_push(void **state)
{
    json_t *root = fixture_small_json();
    struct tokenizer *tokenizer = NULL;
    struct detokenizer d;
    char word[21] = "";
    (void)state;
    for (size_t i = 0; i < 20; i += 2) {
        word[i] = '\xC3'; /* spells the byte 0xFF */
        word[i + 1] = '\xBF';
    }
    json_object_set_new(json_object_get(json_object_get(root, "model"), "vocab"), word, json_integer(300));
    assert_int_equal(fixture_open(&tokenizer, root, NULL), SLUICE_OK);
    size_t most = detokenizer_max_bytes(tokenizer);
    char *out = malloc(most);
    assert_non_null(out);
    detokenizer_init(&d, tokenizer, false);
    assert_int_equal(detokenizer_push(&d, 0xF0, out), 0);
    assert_int_equal(detokenizer_push(&d, 0x9F, out), 0);
    assert_int_equal(detokenizer_push(&d, 0x98, out), 0);
    assert_int_equal(detokenizer_push(&d, 300, out), 33);
    assert_true(most >= 33);
    free(out);
    tokenizer_close(&tokenizer);
}

int run_detokenizer_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replacement),
        cmocka_unit_test(streams_of_random_bytes),
        cmocka_unit_test(special_tokens),
        cmocka_unit_test(most_bytes_of_one_push),
    };
    return cmocka_run_group_tests_name("text detokenizer", tests, open_small, close_small);
}
