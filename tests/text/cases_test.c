/* Ids and decoded texts equal to those of the reference implementation.
 *
 * tests/data/text/cases.json holds variants of the demo model's tokenizer. Larger tokenizers are used where the
 * environment variable SLUICE_TEST_DATA names a folder that holds tokenizers/<name>/{tokenizer,cases}.json. */
#include "tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

/* Counts the cases whose ids, or whose text decoded again, are not as they should be. */
static size_t count_wrong(const struct tokenizer *tokenizer, const json_t *cases, bool added)
{
    size_t wrong = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *item = json_array_get(cases, i), *text = json_object_get(item, "text");
        const json_t *decoded = json_object_get(item, "decoded"), *list = json_object_get(item, "ids");
        size_t n = json_array_size(list), len;
        uint32_t *ids = malloc((n + 1) * sizeof(*ids));
        assert_non_null(ids);
        for (size_t j = 0; j < n; j++) {
            ids[j] = (uint32_t)json_integer_value(json_array_get(list, j));
        }
        bool right = fixture_encodes_to(tokenizer, json_string_value(text), json_string_length(text), added, ids, n);
        char *again = fixture_decode(tokenizer, ids, n, &len);
        decoded = decoded != NULL ? decoded : text;
        if (len != json_string_length(decoded) || memcmp(again, json_string_value(decoded), len) != 0) {
            fprintf(stderr, "case %zu: decoded as \"%s\", not \"%s\"\n", i, again, json_string_value(decoded));
            right = false;
        }
        wrong += !right;
        free(again);
        free(ids);
    }
    return wrong;
}

static void variants_of_the_demo_tokenizer(void **state)
{
    (void)state;
    json_t *base = fixture_read_json(DEMO_TOKENIZER);
    json_t *file = fixture_read_json(SLUICE_TEST_SOURCE_DIR "/data/text/cases.json");
    const json_t *variants = json_object_get(file, "variants");
    size_t wrong = 0;
    assert_true(json_array_size(variants) > 10);
    for (size_t i = 0; i < json_array_size(variants); i++) {
        const json_t *variant = json_array_get(variants, i), *cases = json_object_get(variant, "cases");
        const char *name = json_string_value(json_object_get(variant, "name"));
        bool added = !json_is_true(json_object_get(variant, "without_added"));
        struct tokenizer *tokenizer = NULL;
        sluice_error err;
        assert_true(json_array_size(cases) > 50);
        if (fixture_open(&tokenizer, fixture_vary(base, variant), &err) != SLUICE_OK) {
            fail_msg("%s: %s", name, err.message);
        }
        size_t wrong_here = count_wrong(tokenizer, cases, added);
        if (wrong_here > 0) {
            print_error("%s: %zu cases\n", name, wrong_here);
        }
        wrong += wrong_here;
        tokenizer_close(&tokenizer);
    }
    json_decref(file);
    json_decref(base);
    assert_int_equal(wrong, 0);
}

static void check_large(const char *name)
{
    const char *folder = getenv("SLUICE_TEST_DATA");
    char path[1024];
    if (folder == NULL) {
        print_message("%s: SKIPPED, SLUICE_TEST_DATA is not set\n", name);
        skip();
    }
    struct tokenizer *tokenizer = NULL;
    sluice_error err;
    snprintf(path, sizeof(path), "%s/tokenizers/%s/tokenizer.json", folder, name);
    if (tokenizer_open(&tokenizer, path, &err) != SLUICE_OK) {
        fail_msg("%s", err.message);
    }
    snprintf(path, sizeof(path), "%s/tokenizers/%s/cases.json", folder, name);
    json_t *file = fixture_read_json(path);
    const json_t *cases = json_object_get(file, "cases");
    assert_true(json_array_size(cases) > 100);
    assert_int_equal(count_wrong(tokenizer, cases, true), 0);
    json_decref(file);
    tokenizer_close(&tokenizer);
}

static void large_deepseek_v3(void **state)
{
    (void)state;
    check_large("deepseek_v3");
}

static void large_qwen3(void **state)
{
    (void)state;
    check_large("qwen3");
}

int run_cases_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variants_of_the_demo_tokenizer),
        cmocka_unit_test(large_deepseek_v3),
        cmocka_unit_test(large_qwen3),
    };
    return cmocka_run_group_tests_name("text cases", tests, NULL, NULL);
}
