/* Encoding: invalid text, round trips, long words, matching of added tokens, several threads on one tokenizer. */
#include "tests.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fixture.h"

static struct tokenizer *open_small(void)
{
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(fixture_open(&tokenizer, fixture_small_json(), NULL), SLUICE_OK);
    return tokenizer;
}

#define ENCODES(tokenizer, text, added, ...)                                                                     \
    do {                                                                                                         \
        const uint32_t wanted[] = {__VA_ARGS__};                                                                 \
        assert_true(                                                                                             \
            fixture_encodes_to(tokenizer, text, strlen(text), added, wanted, sizeof(wanted) / sizeof(*wanted))); \
    } while (0)

static void merging(void **state)
{
    struct tokenizer *tokenizer = open_small();
    (void)state;
    ENCODES(tokenizer, "abc", true, 257);
    ENCODES(tokenizer, "ababc", true, 256, 257);
    ENCODES(tokenizer, "bca", true, 'b', 'c', 'a');
    ENCODES(tokenizer, "a abc", true, 'a', ' ', 257); /* rank decides: "a b" comes before "_ a" */
    ENCODES(tokenizer, "a ac", true, 'a', 258, 'c');
    ENCODES(tokenizer, "ab<end>ab", true, 256, 259, 256);
    ENCODES(tokenizer, "ab<end>", false, 256, '<', 'e', 'n', 'd', '>');
    ENCODES(tokenizer, "\xC3\xA9", true, 0xC3, 0xA9);
    tokenizer_close(&tokenizer);
}

static void appends_only_on_success(void **state)
{
    struct tokenizer *tokenizer = open_small();
    struct token_list list = {0};
    sluice_error err;
    (void)state;
    assert_int_equal(tokenizer_encode(tokenizer, "ab", 2, true, &list, &err), SLUICE_OK);
    assert_int_equal(tokenizer_encode(tokenizer, "", 0, true, &list, &err), SLUICE_OK);
    assert_int_equal(tokenizer_encode(tokenizer, NULL, 0, true, &list, &err), SLUICE_OK);
    assert_int_equal(list.n, 1);
    assert_int_equal(tokenizer_encode(tokenizer, "abc\xFF", 4, true, &list, &err), SLUICE_INVALID);
    assert_int_equal(list.n, 1);
    assert_int_equal(tokenizer_encode(tokenizer, "abc", 3, true, &list, &err), SLUICE_OK);
    assert_int_equal(list.n, 2);
    assert_int_equal(list.ids[0], 256);
    assert_int_equal(list.ids[1], 257);
    token_list_free(&list);
    assert_null(list.ids);
    token_list_free(&list);
    tokenizer_close(&tokenizer);
}

static void text_that_is_not_utf8(void **state)
{
    static const struct {
        const char *text;
        size_t len, offset;
    } cases[] = {
        {"\xFF", 1, 0},
        {"ab\x80", 3, 2},
        {"ab\xC3", 3, 2},
        {"\xED\xA0\x80", 3, 0},
        {"\xC3\xA9\xC0\x80", 4, 2},
        {"x\xF0\x9F\x98", 4, 1},
        {"x\xF4\x90\x80\x80", 5, 1},
    };
    struct tokenizer *tokenizer = open_small();
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        for (int added = 0; added < 2; added++) {
            struct token_list list = {0};
            sluice_error err;
            char wanted[64];
            assert_int_equal(tokenizer_encode(tokenizer, cases[i].text, cases[i].len, added, &list, &err),
                             SLUICE_INVALID);
            snprintf(wanted, sizeof(wanted), "not UTF-8 at byte %zu", cases[i].offset);
            assert_non_null(strstr(err.message, wanted));
            assert_null(list.ids);
        }
    }
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(tokenizer, "x", (size_t)1 << 31, true, &list, NULL), SLUICE_LIMIT);
    tokenizer_close(&tokenizer);
}

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* Appends a code point drawn so that short and long characters, spaces and controls all come up. */
static size_t random_character(uint64_t *seed, char *out)
{
    static const uint32_t ends[] = {0x80, 0x80, 0x80, 0x800, 0x3100, 0xD800, 0x20000, 0x110000};
    uint32_t character = next_random(seed) % ends[next_random(seed) % 8];
    if (character >= 0xD800 && character < 0xE000) {
        character = ' ';
    }
    size_t len = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (character & 0x3F));
        character >>= 6;
    }
    out[0] = (char)(len == 1 ? character : ((0xF00u >> len & 0xFF) | character));
    return len;
}

/* Without NFC every text comes back byte for byte, special tokens or not. */
static void round_trips(void **state)
{
    const struct tokenizer *tokenizer = fixture_demo();
    uint64_t seed = 3;
    (void)state;
    for (int round = 0; round < 400; round++) {
        char text[1024];
        size_t len = 0, wanted = next_random(&seed) % 200;
        while (len < wanted) {
            if (next_random(&seed) % 20 == 0) {
                static const char *const specials[] = {"<|user|>", "<think>", "[gMASK]", "<|us", "</arg_key>"};
                const char *special = specials[next_random(&seed) % 5];
                while (*special != '\0') {
                    text[len++] = *special++;
                }
            } else {
                len += random_character(&seed, text + len);
            }
        }
        struct token_list list = {0};
        size_t again;
        assert_int_equal(tokenizer_encode(tokenizer, text, len, round % 2 == 0, &list, NULL), SLUICE_OK);
        char *decoded = fixture_decode(tokenizer, list.ids, list.n, &again);
        assert_int_equal(again, len);
        assert_memory_equal(decoded, text, len);
        free(decoded);
        token_list_free(&list);
    }
}

/* The bytes of all tokens together are the text; no order of merging may lose one. */
static void check_long(const struct tokenizer *tokenizer, const char *unit, size_t len)
{
    char *text = malloc(len), *at;
    struct token_list list = {0};
    size_t unit_len = strlen(unit), again;
    assert_non_null(text);
    at = text;
    for (size_t i = 0; i < len; i++) {
        text[i] = unit[i % unit_len];
    }
    assert_int_equal(tokenizer_encode(tokenizer, text, len, true, &list, NULL), SLUICE_OK);
    for (size_t i = 0; i < list.n; i++) {
        const char *bytes = tokenizer_bytes(tokenizer, list.ids[i], &again);
        assert_memory_equal(bytes, at, again);
        at += again;
    }
    assert_ptr_equal(at, text + len);
    token_list_free(&list);
    free(text);
}

/* A word of a million letters: with a step for each pair and merge it would take many minutes. */
static void long_words(void **state)
{
    static const char *const units[] = {"a", "ab", "abc", "the", "\n", " ", "!", "1", "a ", "\xE4\xB8\x80"};
    json_t *root = fixture_small_json(), *model = json_object_get(root, "model");
    struct tokenizer *doubling = NULL;
    clock_t start = clock();
    (void)state;
    /* a, aa, aaaa, ...: every merge makes a new pair */
    char word[2049], merge[2050];
    memset(word, 'a', sizeof(word));
    for (size_t len = 1, id = 300; len <= 1024; len *= 2, id++) {
        snprintf(merge, sizeof(merge), "%.*s %.*s", (int)len, word, (int)len, word);
        json_array_append_new(json_object_get(model, "merges"), json_string(merge));
        snprintf(merge, sizeof(merge), "%.*s", (int)(2 * len), word);
        json_object_set_new(json_object_get(model, "vocab"), merge, json_integer((json_int_t)id));
    }
    assert_int_equal(fixture_open(&doubling, root, NULL), SLUICE_OK);
    check_long(doubling, "a", 1000001);
    tokenizer_close(&doubling);
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
        check_long(fixture_demo(), units[i], 99999 / strlen(units[i]) * strlen(units[i]));
    }
    assert_true(clock() - start < 60 * CLOCKS_PER_SEC);
}

static void add(json_t *root, int id, const char *content, const char *flag, const char *flag2)
{
    json_t *token = json_pack("{s:i, s:s}", "id", id, "content", content);
    json_object_set_new(token, "normalized", json_false());
    if (flag != NULL) {
        json_object_set_new(token, flag, json_true());
    }
    if (flag2 != NULL) {
        json_object_set_new(token, flag2, json_true());
    }
    json_array_append_new(json_object_get(root, "added_tokens"), token);
}

static void matching_added_tokens(void **state)
{
    json_t *root = fixture_small_json();
    struct tokenizer *tokenizer = NULL;
    (void)state;
    add(root, 300, "<e", NULL, NULL);
    add(root, 301, "<ends", NULL, NULL);
    add(root, 302, "xy", "single_word", NULL);
    add(root, 303, "<l>", "lstrip", NULL);
    add(root, 304, "<r>", "rstrip", NULL);
    add(root, 305, "  ", "rstrip", NULL);
    assert_int_equal(fixture_open(&tokenizer, root, NULL), SLUICE_OK);
    ENCODES(tokenizer, "<end", true, 300, 'n', 'd');
    ENCODES(tokenizer, "<end>", true, 259);
    ENCODES(tokenizer, "<ends>", true, 301, '>'); /* the longest at the leftmost place */
    ENCODES(tokenizer, "<<e<end>", true, '<', 300, 259);
    ENCODES(tokenizer, "xy axy xyb xy-", true, 302, 258, 'x', 'y', ' ', 'x', 'y', 'b', ' ', 302, '-');
    ENCODES(tokenizer, "b \t<l>b", true, 'b', 303, 'b');
    ENCODES(tokenizer, "<r> \n b", true, 304, 'b');
    ENCODES(tokenizer, "<r> <l>", true, 304, 303);
    ENCODES(tokenizer, "<r>    b", true, 304, 'b'); /* spaces taken are not handed out again */
    ENCODES(tokenizer, "b     b", true, 'b', 305, 'b');
    ENCODES(tokenizer, "<", true, '<');
    tokenizer_close(&tokenizer);
}

/* White space that many tokens could take, in a length that would show if each looked at all of it. */
static void stripping_is_linear(void **state)
{
    enum { LEN = 400000 };
    json_t *root = fixture_small_json();
    struct tokenizer *tokenizer = NULL;
    struct token_list list = {0};
    char *text = malloc(LEN);
    (void)state;
    assert_non_null(text);
    add(root, 300, "\n", "lstrip", "rstrip");
    add(root, 301, " ", "single_word", "lstrip");
    add(root, 302, "\t", "rstrip", NULL);
    assert_int_equal(fixture_open(&tokenizer, root, NULL), SLUICE_OK);
    clock_t start = clock();
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < LEN; i++) {
            text[i] = round == 0 ? '\n' : round == 1 ? '\t' : "a "[i % 2];
        }
        list.n = 0;
        assert_int_equal(tokenizer_encode(tokenizer, text, LEN, true, &list, NULL), SLUICE_OK);
        assert_true(list.n > 0);
    }
    assert_true(clock() - start < 20 * CLOCKS_PER_SEC);
    token_list_free(&list);
    tokenizer_close(&tokenizer);
    free(text);
}

/* ---- Threads --------------------------------------------------------------------------------------- */

struct worker {
    const char *text;
    size_t len;
    struct token_list list;
    bool equal;
};

static void *encode_repeatedly(void *argument)
{
    struct worker *worker = argument;
    worker->equal = true;
    for (int i = 0; i < 40; i++) {
        struct token_list list = {0};
        if (tokenizer_encode(fixture_demo(), worker->text, worker->len, true, &list, NULL) != SLUICE_OK ||
            list.n != worker->list.n || memcmp(list.ids, worker->list.ids, list.n * sizeof(*list.ids)) != 0) {
            worker->equal = false;
        }
        token_list_free(&list);
    }
    return NULL;
}

static void threads_share_a_tokenizer(void **state)
{
    static const char *const texts[] = {"<|user|>What does happy mean?  12345\n\n\xE4\xBD\xA0\xE5\xA5\xBD <think>",
                                        "As an adjective, happy means enjoying or showing joy.'ll [gMASK]<sop>"};
    struct worker workers[2];
    pthread_t threads[2];
    (void)state;
    fixture_demo();
    for (int i = 0; i < 2; i++) {
        workers[i] = (struct worker){.text = texts[i], .len = strlen(texts[i])};
        assert_int_equal(tokenizer_encode(fixture_demo(), texts[i], workers[i].len, true, &workers[i].list, NULL),
                         SLUICE_OK);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, encode_repeatedly, &workers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(workers[i].equal);
        token_list_free(&workers[i].list);
    }
}

int run_encode_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging),
        cmocka_unit_test(appends_only_on_success),
        cmocka_unit_test(text_that_is_not_utf8),
        cmocka_unit_test(round_trips),
        cmocka_unit_test(long_words),
        cmocka_unit_test(matching_added_tokens),
        cmocka_unit_test(stripping_is_linear),
        cmocka_unit_test(threads_share_a_tokenizer),
    };
    return cmocka_run_group_tests_name("text encode", tests, NULL, NULL);
}
