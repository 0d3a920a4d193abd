/* Reading tokenizer.json: what is accepted, and what is refused in which words. */
#include "tests.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "fixture.h"
#include "support/temp_dir.h"

/* Sets the value at a path such as "model.vocab" to `json` ("-": removes it). */
static void change(json_t *root, const char *path, const char *json)
{
    char name[64];
    const char *dot;
    json_t *object = root;
    while ((dot = strchr(path, '.')) != NULL) {
        snprintf(name, sizeof(name), "%.*s", (int)(dot - path), path);
        object =
            json_is_array(object) ? json_array_get(object, (size_t)(name[0] - '0')) : json_object_get(object, name);
        path = dot + 1;
    }
    if (strcmp(json, "-") == 0) {
        assert_int_equal(json_object_del(object, path), 0);
        return;
    }
    json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    assert_int_equal(json_object_set_new(object, path, value), 0);
}

struct change_case {
    const char *path, *json;
    sluice_status status;
    const char *message; /* a part of it */
};

static void check_changes(const struct change_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        json_t *root = fixture_small_json();
        struct tokenizer *tokenizer = NULL;
        sluice_error err = {0};
        change(root, cases[i].path, cases[i].json);
        sluice_status status = fixture_open(&tokenizer, root, &err);
        if (status != cases[i].status || (status != SLUICE_OK && strstr(err.message, cases[i].message) == NULL)) {
            fail_msg("%s = %s: status %d, \"%s\" without \"%s\"", cases[i].path, cases[i].json, status, err.message,
                     cases[i].message);
        }
        if (status != SLUICE_OK) {
            assert_null(tokenizer);
            assert_true(fixture_is_one_line(&err));
            assert_int_equal(strncmp(err.message, FIXTURE_PATH, strlen(FIXTURE_PATH)), 0);
        }
        tokenizer_close(&tokenizer);
    }
}

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define SPLIT(pattern, behavior, invert) \
    "{\"type\":\"Split\",\"pattern\":" pattern ",\"behavior\":\"" behavior "\",\"invert\":" invert "}"
#define SEQUENCE(items) "{\"type\":\"Sequence\",\"pretokenizers\":[" items "]}"

static void top_level(void **state)
{
    static const struct change_case cases[] = {
        {"version", "\"1.0\"", SLUICE_OK, NULL},
        {"version", "-", SLUICE_OK, NULL},
        {"version", "\"2.0\"", SLUICE_UNSUPPORTED, "version \"2.0\""},
        {"version", "1", SLUICE_FORMAT, "\"version\" must be a string"},
        {"truncation", "null", SLUICE_OK, NULL},
        {"truncation", "{\"max_length\":5}", SLUICE_UNSUPPORTED, "\"truncation\""},
        {"padding", "{}", SLUICE_UNSUPPORTED, "\"padding\""},
        {"novelty", "1", SLUICE_UNSUPPORTED, "\"novelty\" is not known"},
        {"novelty", "null", SLUICE_OK, NULL},
        {"normalizer", "{\"type\":\"NFC\"}", SLUICE_OK, NULL},
        {"normalizer", "{\"type\":\"Sequence\",\"normalizers\":[]}", SLUICE_OK, NULL},
        {"normalizer", "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}]}", SLUICE_OK, NULL},
        {"normalizer", "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"}]}", SLUICE_UNSUPPORTED,
         "normalizers[0]: type \"NFKC\""},
        {"normalizer", "{\"type\":\"Sequence\"}", SLUICE_FORMAT, "\"normalizers\" must be an array"},
        {"normalizer", "{\"type\":\"Lowercase\"}", SLUICE_UNSUPPORTED, "normalizer: type \"Lowercase\""},
        {"normalizer", "[]", SLUICE_FORMAT, "normalizer: not an object"},
        {"normalizer", "{}", SLUICE_FORMAT, "normalizer: field \"type\" is missing"},
        {"normalizer", "{\"type\":\"NFC\",\"form\":1}", SLUICE_UNSUPPORTED, "normalizer: field \"form\""},
        {"post_processor", "null", SLUICE_OK, NULL},
        {"post_processor", BYTE_LEVEL, SLUICE_OK, NULL},
        {"post_processor", "{\"type\":\"TemplateProcessing\"}", SLUICE_UNSUPPORTED,
         "post_processor: type \"TemplateProcessing\""},
        {"post_processor", "7", SLUICE_FORMAT, "post_processor: must be an object"},
        {"decoder", "{\"type\":\"Metaspace\"}", SLUICE_UNSUPPORTED, "decoder: type \"Metaspace\""},
        {"decoder", "null", SLUICE_FORMAT, "decoder: must be an object"},
        {"added_tokens", "null", SLUICE_OK, NULL},
        {"added_tokens", "[]", SLUICE_OK, NULL},
        {"added_tokens", "{}", SLUICE_FORMAT, "\"added_tokens\" must be an array"},
        {"model", "-", SLUICE_FORMAT, "model: is missing"},
        {"model", "[]", SLUICE_FORMAT, "model: must be an object"},
    };
    (void)state;
    check_changes(cases, sizeof(cases) / sizeof(*cases));
}

static void pre_tokenizers(void **state)
{
    static const struct change_case cases[] = {
        {"pre_tokenizer", BYTE_LEVEL, SLUICE_OK, NULL},
        {"pre_tokenizer", SEQUENCE(SPLIT("{\"Regex\":\"a+\"}", "Isolated", "false") "," BYTE_LEVEL), SLUICE_OK, NULL},
        {"pre_tokenizer", SEQUENCE(SPLIT("{\"String\":\"a+(\"}", "Isolated", "false") "," BYTE_LEVEL), SLUICE_OK, NULL},
        {"pre_tokenizer", SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":true}," SEQUENCE(BYTE_LEVEL)), SLUICE_OK,
         NULL},
        {"pre_tokenizer", "null", SLUICE_FORMAT, "pre_tokenizer: must be an object"},
        {"pre_tokenizer", "-", SLUICE_FORMAT, "pre_tokenizer: must be an object"},
        {"pre_tokenizer", "{\"type\":\"Whitespace\"}", SLUICE_UNSUPPORTED, "pre_tokenizer: type \"Whitespace\""},
        {"pre_tokenizer", "{\"type\":3}", SLUICE_FORMAT, "\"type\" must be a string"},
        {"pre_tokenizer", SEQUENCE(""), SLUICE_UNSUPPORTED, "without ByteLevel"},
        {"pre_tokenizer", SEQUENCE(BYTE_LEVEL ",{\"type\":\"Digits\"}"), SLUICE_UNSUPPORTED,
         "pretokenizers[1]: \"Digits\" after ByteLevel"},
        {"pre_tokenizer", "{\"type\":\"Sequence\"}", SLUICE_FORMAT, "\"pretokenizers\" must be an array"},
        {"pre_tokenizer", SEQUENCE("5"), SLUICE_FORMAT, "pretokenizers[0]: must be an object"},
        {"pre_tokenizer", SPLIT("{\"Regex\":\"a\"}", "Removed", "false"), SLUICE_UNSUPPORTED, "behavior \"Removed\""},
        {"pre_tokenizer", SPLIT("{\"Regex\":\"a\"}", "Isolated", "true"), SLUICE_UNSUPPORTED, "invert"},
        {"pre_tokenizer", SPLIT("{\"Regex\":\"a\"}", "Isolated", "\"no\""), SLUICE_FORMAT, "\"invert\""},
        {"pre_tokenizer", SPLIT("{\"Glob\":\"a\"}", "Isolated", "false"), SLUICE_UNSUPPORTED,
         "pattern: field \"Glob\" is not known"},
        {"pre_tokenizer", SPLIT("{}", "Isolated", "false"), SLUICE_FORMAT, "either \"Regex\" or \"String\""},
        {"pre_tokenizer", SPLIT("\"a\"", "Isolated", "false"), SLUICE_FORMAT, "pattern: not an object"},
        {"pre_tokenizer", SPLIT("{\"Regex\":5}", "Isolated", "false"), SLUICE_FORMAT, "\"Regex\" must be a string"},
        {"pre_tokenizer", SPLIT("{\"Regex\":\"abc(\"}", "Isolated", "false"), SLUICE_UNSUPPORTED, "offset 4"},
        {"pre_tokenizer", SPLIT("{\"Regex\":\"[z-a]\"}", "Isolated", "false"), SLUICE_FORMAT, "offset"},
        {"pre_tokenizer", "{\"type\":\"Digits\",\"individual_digits\":[]}", SLUICE_FORMAT, "\"individual_digits\""},
        {"pre_tokenizer", "{\"type\":\"ByteLevel\"}", SLUICE_FORMAT, "\"add_prefix_space\" is missing"},
        {"pre_tokenizer", "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"mode\":1}", SLUICE_UNSUPPORTED,
         "\"mode\" is not known"},
    };
    (void)state;
    check_changes(cases, sizeof(cases) / sizeof(*cases));
}

static void models(void **state)
{
    static const struct change_case cases[] = {
        {"model.type", "\"Unigram\"", SLUICE_UNSUPPORTED, "model: type \"Unigram\""},
        {"model.type", "-", SLUICE_FORMAT, "model: field \"type\" is missing"},
        {"model.dropout", "null", SLUICE_OK, NULL},
        {"model.dropout", "0.1", SLUICE_UNSUPPORTED, "\"dropout\""},
        {"model.unk_token", "\"<unk>\"", SLUICE_UNSUPPORTED, "\"unk_token\""},
        {"model.continuing_subword_prefix", "\"\"", SLUICE_OK, NULL},
        {"model.continuing_subword_prefix", "\"##\"", SLUICE_UNSUPPORTED, "\"continuing_subword_prefix\""},
        {"model.end_of_word_suffix", "\"</w>\"", SLUICE_UNSUPPORTED, "\"end_of_word_suffix\""},
        {"model.fuse_unk", "true", SLUICE_OK, NULL},
        {"model.byte_fallback", "false", SLUICE_OK, NULL},
        {"model.byte_fallback", "true", SLUICE_UNSUPPORTED, "byte_fallback"},
        {"model.ignore_merges", "true", SLUICE_OK, NULL},
        {"model.ignore_merges", "\"yes\"", SLUICE_FORMAT, "\"ignore_merges\""},
        {"model.cache", "1", SLUICE_UNSUPPORTED, "\"cache\" is not known"},
        {"model.vocab", "-", SLUICE_FORMAT, "\"vocab\" is missing"},
        {"model.vocab", "[]", SLUICE_FORMAT, "\"vocab\" must be an object"},
        {"model.vocab", "{}", SLUICE_UNSUPPORTED, "no token for the byte 0x00"},
        {"model.vocab.~", "-", SLUICE_UNSUPPORTED, "no token for the byte 0x7E"},
        {"model.vocab.new", "3", SLUICE_FORMAT, "id 3 is given twice"},
        {"model.vocab.new", "-1", SLUICE_FORMAT, "id of \"new\" must be an integer from 0"},
        {"model.vocab.new", "16777216", SLUICE_FORMAT, "id of \"new\""},
        {"model.vocab.new", "1e30", SLUICE_FORMAT, "id of \"new\""},
        {"model.vocab.new", "\"3\"", SLUICE_FORMAT, "id of \"new\""},
        {"model.vocab.new", "1000", SLUICE_OK, NULL},
        {"model.vocab.two words", "1000", SLUICE_UNSUPPORTED, "\"two words\" is not spelled in the byte alphabet"},
        {"model.vocab.\xEF\xBD\x9C", "1000", SLUICE_UNSUPPORTED, "is not spelled in the byte alphabet"},
        {"model.vocab.", "1000", SLUICE_FORMAT, "id 1000 is an empty token"},
        {"model.vocab.<end>", "1000", SLUICE_FORMAT, "id 1000 in vocab and 259 in added_tokens"},
        {"model.vocab.<end>", "259", SLUICE_OK, NULL},
        {"model.vocab.new", "259", SLUICE_FORMAT, "id 259 of added token \"<end>\" belongs to another token"},
        {"model.merges", "-", SLUICE_FORMAT, "\"merges\" is missing"},
        {"model.merges", "{}", SLUICE_FORMAT, "\"merges\" must be an array"},
        {"model.merges", "[]", SLUICE_OK, NULL},
        {"model.merges", "[[\"a\",\"b\"],[\"ab\",\"c\"]]", SLUICE_OK, NULL},
        {"model.merges", "[\"a b\",[\"ab\",\"c\"]]", SLUICE_OK, NULL},
        {"model.merges", "[\"a b\",7]", SLUICE_FORMAT, "merges[1]: must be"},
        {"model.merges", "[\"ab\"]", SLUICE_FORMAT, "merges[0]: must be"},
        {"model.merges", "[\"a b c\"]", SLUICE_FORMAT, "merges[0]: must be"},
        {"model.merges", "[[\"a\"]]", SLUICE_FORMAT, "merges[0]: must be"},
        {"model.merges", "[[\"a\",1]]", SLUICE_FORMAT, "merges[0]: must be"},
        {"model.merges", "[\"a bcd\"]", SLUICE_FORMAT, "merges[0]: unknown token \"bcd\""},
        {"model.merges", "[\" b\"]", SLUICE_FORMAT, "merges[0]: unknown token \"\""},
        {"model.merges", "[[\"a\",\"\xEF\xBD\x9C\"]]", SLUICE_FORMAT, "merges[0]: unknown token"},
        {"model.merges", "[\"a b\",\"a c\"]", SLUICE_FORMAT, "merges[1]: \"a c\" + \"c\" is not a token"},
    };
    (void)state;
    check_changes(cases, sizeof(cases) / sizeof(*cases));
}

static void added_tokens(void **state)
{
    static const struct change_case cases[] = {
        {"added_tokens", "[{\"id\":300,\"content\":\"xy\"}]", SLUICE_OK, NULL},
        {"added_tokens", "[7]", SLUICE_FORMAT, "added_tokens[0]: not an object"},
        {"added_tokens", "[{\"content\":\"x\"}]", SLUICE_FORMAT, "added_tokens[0]: field \"id\" is missing"},
        {"added_tokens", "[{\"id\":300}]", SLUICE_FORMAT, "added_tokens[0]: field \"content\" is missing"},
        {"added_tokens", "[{\"id\":-1,\"content\":\"x\"}]", SLUICE_FORMAT, "\"id\" is -1"},
        {"added_tokens", "[{\"id\":16777216,\"content\":\"x\"}]", SLUICE_FORMAT, "\"id\" is 16777216"},
        {"added_tokens", "[{\"id\":300,\"content\":\"\"}]", SLUICE_UNSUPPORTED, "content of 0 bytes"},
        {"added_tokens", "[{\"id\":300,\"content\":\"x\",\"special\":\"y\"}]", SLUICE_FORMAT, "\"special\""},
        {"added_tokens", "[{\"id\":300,\"content\":\"x\",\"colour\":1}]", SLUICE_UNSUPPORTED, "\"colour\""},
        {"added_tokens", "[{\"id\":300,\"content\":\"xy\"},{\"id\":301,\"content\":\"xy\"}]", SLUICE_FORMAT,
         "same content twice"},
        {"added_tokens", "[{\"id\":300,\"content\":\"xy\"},{\"id\":300,\"content\":\"yz\"}]", SLUICE_FORMAT,
         "id 300 of added token \"yz\" belongs to another token"},
        {"added_tokens", "[{\"id\":300,\"content\":\"a\"}]", SLUICE_FORMAT, "\"a\" has id 97 in vocab and 300"},
        {"added_tokens", "[{\"id\":97,\"content\":\"a\"}]", SLUICE_OK, NULL},
        {"added_tokens", "[{\"id\":98,\"content\":\"aa\"}]", SLUICE_FORMAT, "belongs to another token"},
    };
    (void)state;
    check_changes(cases, sizeof(cases) / sizeof(*cases));
}

static void too_many_of_something(void **state)
{
    struct buffer deep, many;
    (void)state;
    buffer_init(&deep, 1 << 16);
    buffer_init(&many, 1 << 16);
    for (int i = 0; i < 12; i++) {
        buffer_append_str(&deep, "{\"type\":\"Sequence\",\"pretokenizers\":[", NULL);
    }
    buffer_append_str(&deep, BYTE_LEVEL, NULL);
    for (int i = 0; i < 12; i++) {
        buffer_append_str(&deep, "]}", NULL);
    }
    buffer_append_str(&many, "{\"type\":\"Sequence\",\"pretokenizers\":[", NULL);
    for (int i = 0; i < 40; i++) {
        buffer_append_str(&many, "{\"type\":\"Digits\"},", NULL);
    }
    buffer_append_str(&many, BYTE_LEVEL "]}", NULL);
    const struct change_case cases[] = {
        {"pre_tokenizer", deep.data, SLUICE_UNSUPPORTED, "nested too deeply"},
        {"pre_tokenizer", many.data, SLUICE_UNSUPPORTED, "more than 16 pre-tokenizers"},
    };
    check_changes(cases, 2);
    buffer_free(&deep);
    buffer_free(&many);

    json_t *root = fixture_small_json();
    char content[2000];
    struct tokenizer *tokenizer = NULL;
    sluice_error err;
    memset(content, 'x', sizeof(content));
    json_array_append_new(json_object_get(root, "added_tokens"),
                          json_pack("{s:i, s:s#}", "id", 300, "content", content, (int)sizeof(content)));
    assert_int_equal(fixture_open(&tokenizer, root, &err), SLUICE_UNSUPPORTED);
    assert_non_null(strstr(err.message, "added_tokens[1]: content of 2000 bytes"));
}

static void files(void **state)
{
    struct temp_dir dir;
    struct tokenizer *tokenizer = NULL;
    sluice_error err;
    (void)state;
    assert_int_equal(temp_dir_make(&dir), 0);
    assert_int_equal(tokenizer_open(&tokenizer, temp_dir_path(&dir, "none.json"), &err), SLUICE_IO);
    assert_non_null(strstr(err.message, "none.json"));
    assert_int_equal(tokenizer_open(&tokenizer, dir.path, &err), SLUICE_IO);
    assert_int_equal(tokenizer_open(&tokenizer, temp_dir_write(&dir, "empty.json", "", 0), &err), SLUICE_FORMAT);
    assert_non_null(strstr(err.message, "empty.json"));
    assert_int_equal(tokenizer_open(&tokenizer, temp_dir_write(&dir, "list.json", "[1]", 3), &err), SLUICE_FORMAT);
    assert_non_null(strstr(err.message, "list.json: not an object"));
    assert_null(tokenizer);
    tokenizer_close(&tokenizer);
    assert_int_equal(temp_dir_remove(&dir), 0);
}

static void single_tokens(void **state)
{
    struct tokenizer *tokenizer = NULL;
    json_t *root = fixture_small_json();
    uint32_t id = 0;
    size_t len = 0;
    (void)state;
    change(root, "model.vocab.new", "1000");
    assert_int_equal(fixture_open(&tokenizer, root, NULL), SLUICE_OK);
    assert_int_equal(tokenizer_vocab_size(tokenizer), 1001);
    assert_true(tokenizer_find(tokenizer, "<end>", &id));
    assert_int_equal(id, 259);
    assert_true(tokenizer_find(tokenizer, " a", &id));
    assert_int_equal(id, 258);
    assert_true(tokenizer_find(tokenizer, "new", &id));
    assert_int_equal(id, 1000);
    assert_false(tokenizer_find(tokenizer, "<en", &id));
    assert_false(tokenizer_find(tokenizer, "", &id));
    assert_int_equal(id, 1000);
    assert_memory_equal(tokenizer_bytes(tokenizer, 258, &len), " a", 2);
    assert_int_equal(len, 2);
    assert_memory_equal(tokenizer_bytes(tokenizer, 259, &len), "<end>", 5);
    assert_int_equal(len, 5);
    assert_memory_equal(tokenizer_bytes(tokenizer, 255, &len), "\xFF", 1);
    assert_null(tokenizer_bytes(tokenizer, 500, &len));
    assert_null(tokenizer_bytes(tokenizer, 1001, &len));
    assert_null(tokenizer_bytes(tokenizer, UINT32_MAX, &len));
    assert_true(tokenizer_is_special(tokenizer, 259));
    assert_false(tokenizer_is_special(tokenizer, 258));
    assert_false(tokenizer_is_special(tokenizer, 500));
    assert_false(tokenizer_is_special(tokenizer, UINT32_MAX));
    tokenizer_close(&tokenizer);
    assert_null(tokenizer);
}

int run_load_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(top_level),     cmocka_unit_test(pre_tokenizers),        cmocka_unit_test(models),
        cmocka_unit_test(added_tokens),  cmocka_unit_test(too_many_of_something), cmocka_unit_test(files),
        cmocka_unit_test(single_tokens),
    };
    return cmocka_run_group_tests_name("text load", tests, NULL, NULL);
}
