/* tokenizer.json that somebody has bent: every outcome is a tokenizer that works or one line, never a crash. */
#include "tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

/* A small generator, so that every run sees the same files. */
static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* A tokenizer that opened must encode and decode; the text survives unless the file asks for changes. */
static void use(const struct tokenizer *tokenizer)
{
    static const char text[] = "abc <end> \xC3\xA9 a\xCC\x81 12 \xF0\x9F\x98\x80  x\n";
    struct token_list list = {0};
    sluice_error err;
    if (tokenizer_encode(tokenizer, text, sizeof(text) - 1, true, &list, &err) == SLUICE_OK) {
        size_t len;
        for (size_t i = 0; i < list.n; i++) {
            assert_true(list.ids[i] < tokenizer_vocab_size(tokenizer));
            assert_non_null(tokenizer_bytes(tokenizer, list.ids[i], &len));
        }
        free(fixture_decode(tokenizer, list.ids, list.n, &len));
    } else {
        assert_true(fixture_is_one_line(&err));
    }
    token_list_free(&list);
}

static void try_bytes(const char *bytes, size_t len)
{
    struct tokenizer *tokenizer = NULL;
    sluice_error err = {0};
    if (fixture_open_bytes(&tokenizer, bytes, len, &err) == SLUICE_OK) {
        use(tokenizer);
        tokenizer_close(&tokenizer);
    } else {
        assert_null(tokenizer);
        assert_true(fixture_is_one_line(&err));
    }
}

static void truncated(void **state)
{
    json_t *root = fixture_small_json();
    char *text = json_dumps(root, JSON_COMPACT);
    size_t len = strlen(text);
    (void)state;
    for (size_t cut = 0; cut < len; cut += 1 + cut / 40) {
        try_bytes(text, cut);
    }
    free(text);
    json_decref(root);
}

static void bytes_changed(void **state)
{
    json_t *root = fixture_small_json();
    char *text = json_dumps(root, JSON_COMPACT), *copy = malloc(strlen(text) + 1);
    size_t len = strlen(text);
    uint64_t seed = 7;
    (void)state;
    assert_non_null(copy);
    for (int round = 0; round < 600; round++) {
        memcpy(copy, text, len + 1);
        for (uint32_t i = 0; i <= next_random(&seed) % 3; i++) {
            static const char favourites[] = "\"\\{}[],:0159-e\xC4\xA0\x00\xFF<u";
            uint32_t where = next_random(&seed) % (uint32_t)len;
            copy[where] = favourites[next_random(&seed) % (sizeof(favourites) - 1)];
        }
        try_bytes(copy, len);
    }
    free(copy);
    free(text);
    json_decref(root);
}

/* Any value of the file, chosen at random, and its parent; containers count as values too. */
static void pick(json_t *root, uint64_t *seed, json_t **parent, const char **key, size_t *index)
{
    json_t *at = root;
    *parent = NULL;
    for (;;) {
        size_t n = json_is_object(at) ? json_object_size(at) : json_array_size(at);
        if (n == 0 || (*parent != NULL && next_random(seed) % 4 == 0)) {
            return;
        }
        size_t chosen = next_random(seed) % n;
        *parent = at;
        *index = chosen;
        *key = NULL;
        if (json_is_array(at)) {
            at = json_array_get(at, chosen);
            continue;
        }
        void *iterator = json_object_iter(at);
        while (chosen-- > 0) {
            iterator = json_object_iter_next(*parent, iterator);
        }
        *key = json_object_iter_key(iterator);
        at = json_object_iter_value(iterator);
    }
}

static const char stages[] = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\","
                             "\"pattern\":{\"Regex\":\"(a|b)*\"},\"invert\":false},"
                             "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}]}";

/* Each type, extreme numbers, odd strings, parts of another kind. */
static const char *const misplaced[] = {
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1.5",
    "1e308",
    "9223372036854775807",
    "16777215",
    "16777216",
    "255",
    "[]",
    "{}",
    "[[]]",
    "[\"a\",\"b\"]",
    "[1,2,3]",
    "\"\"",
    "\"a\"",
    "\"a b\"",
    "\"ab c d\"",
    "\"\\u0120\"",
    "\"\\uFF5C\"",
    "\"ByteLevel\"",
    "\"Sequence\"",
    "\"Split\"",
    "\"NFC\"",
    "{\"type\":\"Sequence\"}",
    "{\"type\":\"Digits\"}",
    "{\"type\":\"NFC\"}",
    "{\"id\":5,\"content\":\"q\"}",
    "{\"Regex\":\"(a*)*b\"}",
    stages,
    "{\"id\":300,\"content\":\" \",\"lstrip\":true,\"rstrip\":true}",
};

/* Values put where they do not belong. */
static void values_changed(void **state)
{
    uint64_t seed = 11;
    json_t *base = fixture_small_json();
    (void)state;
    for (int round = 0; round < 1500; round++) {
        json_t *root = json_deep_copy(base), *parent;
        for (uint32_t i = 0; i <= next_random(&seed) % 2; i++) {
            const char *key = NULL;
            size_t index = 0;
            json_t *value = json_loads(misplaced[next_random(&seed) % (sizeof(misplaced) / sizeof(*misplaced))],
                                       JSON_DECODE_ANY, NULL);
            assert_non_null(value);
            pick(root, &seed, &parent, &key, &index);
            if (parent == NULL) {
                json_decref(value);
            } else if (json_is_array(parent)) {
                assert_int_equal(json_array_set_new(parent, index, value), 0);
            } else {
                char name[64];
                snprintf(name, sizeof(name), "%s", key);
                assert_int_equal(json_object_set_new(parent, name, value), 0);
            }
        }
        char *text = json_dumps(root, JSON_COMPACT);
        try_bytes(text, strlen(text));
        free(text);
        json_decref(root);
    }
    json_decref(base);
}

static void nested_deeply(void **state)
{
    enum { DEPTH = 100000 };
    char *text = malloc(DEPTH + 64);
    (void)state;
    assert_non_null(text);
    size_t len = (size_t)snprintf(text, 64, "{\"normalizer\":");
    memset(text + len, '[', DEPTH);
    try_bytes(text, len + DEPTH);
    /* as deep as the JSON reader allows, in the one place where depth has a meaning */
    static const char opening[] = "{\"type\":\"Sequence\",\"normalizers\":[";
    json_t *root = fixture_small_json();
    json_t *inner = json_pack("{s:s}", "type", "NFC");
    for (int i = 0; i < 500; i++) {
        inner = json_pack("{s:s, s:[o]}", "type", "Sequence", "normalizers", inner);
    }
    json_object_set_new(root, "normalizer", inner);
    struct tokenizer *tokenizer = NULL;
    sluice_error err;
    assert_int_equal(fixture_open(&tokenizer, root, &err), SLUICE_UNSUPPORTED);
    assert_true(fixture_is_one_line(&err));
    len = 0;
    while (len + sizeof(opening) < DEPTH) {
        memcpy(text + len, opening, sizeof(opening) - 1);
        len += sizeof(opening) - 1;
    }
    try_bytes(text, len);
    free(text);
}

/* Names of any length and content end in a message that is cut and printable. */
static void long_names(void **state)
{
    enum { LEN = 100000 };
    char *name = malloc(LEN + 1);
    (void)state;
    assert_non_null(name);
    for (size_t i = 0; i < LEN; i += 2) {
        memcpy(name + i, "\xC2\x9B", 2); /* a control character */
    }
    name[LEN] = '\0';
    for (int where = 0; where < 5; where++) {
        json_t *root = fixture_small_json(), *model = json_object_get(root, "model"), *text = json_string(name);
        struct tokenizer *tokenizer = NULL;
        sluice_error err;
        json_t *objects[] = {root, model, json_object_get(model, "vocab"), json_object_get(root, "pre_tokenizer")};
        if (where < 4) {
            json_object_set_new(objects[where], where == 3 ? "type" : name, where == 2 ? json_integer(5000) : text);
        } else {
            json_array_set_new(json_object_get(model, "merges"), 0, json_pack("[s, O]", "a", text));
        }
        if (where == 2 || where == 4) {
            json_decref(text);
        }
        assert_int_not_equal(fixture_open(&tokenizer, root, &err), SLUICE_OK);
        assert_true(fixture_is_one_line(&err));
    }
    free(name);
}

int run_hostile_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncated),     cmocka_unit_test(bytes_changed), cmocka_unit_test(values_changed),
        cmocka_unit_test(nested_deeply), cmocka_unit_test(long_names),
    };
    return cmocka_run_group_tests_name("text hostile", tests, NULL, NULL);
}
