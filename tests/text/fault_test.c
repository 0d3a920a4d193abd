/* Every allocation of opening, encoding and building a prompt fails in turn: a status, no leak, nothing half done. */
#include "tests.h"

#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "support/fault_alloc.h"
#include "text/chat.h"

#define FAULTS_MAX 500

static json_t *rich_json(void)
{
    json_t *root = fixture_small_json();
    json_object_set_new(root, "normalizer", json_pack("{s:s}", "type", "NFC"));
    json_object_set_new(json_object_get(root, "pre_tokenizer"), "add_prefix_space", json_true());
    json_array_append_new(json_object_get(root, "added_tokens"),
                          json_pack("{s:i, s:s, s:b}", "id", 300, "content", "e\xCC\x81t", "normalized", 1));
    json_array_append_new(json_object_get(root, "added_tokens"),
                          json_pack("{s:i, s:s}", "id", 301, "content", "[gMASK]"));
    json_array_append_new(json_object_get(root, "added_tokens"),
                          json_pack("{s:i, s:s}", "id", 302, "content", "<sop>"));
    json_array_append_new(json_object_get(root, "added_tokens"),
                          json_pack("{s:i, s:s}", "id", 303, "content", "<|user|>"));
    return root;
}

static void opening(void **state)
{
    int faults = 0;
    (void)state;
    for (; faults < FAULTS_MAX; faults++) {
        struct tokenizer *tokenizer = NULL;
        json_t *root = rich_json();
        char *text = json_dumps(root, JSON_COMPACT);
        sluice_error err = {0};
        fault_alloc_fail(faults);
        sluice_status status = fixture_open_bytes(&tokenizer, text, strlen(text), &err);
        fault_alloc_fail(-1);
        free(text);
        json_decref(root);
        if (status == SLUICE_OK) {
            tokenizer_close(&tokenizer);
            break;
        }
        assert_int_equal(status, SLUICE_NO_MEMORY);
        assert_true(fixture_is_one_line(&err));
        assert_null(tokenizer);
    }
    assert_in_range(faults, 5, FAULTS_MAX - 1);
}

static void encoding(void **state)
{
    struct tokenizer *tokenizer = NULL;
    static const char text[] =
        "<|user|>e\xCC\x81t\xC3\xA9 q\xCC\x87\xCC\xA3 abc abcabcabcabc<end> 1 2 3 4 5 6 7 8 9 0 1 2 "
        "3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0";
    int faults = 0;
    (void)state;
    assert_int_equal(fixture_open(&tokenizer, rich_json(), NULL), SLUICE_OK);
    for (; faults < FAULTS_MAX; faults++) {
        struct token_list list = {0};
        sluice_error err = {0};
        fault_alloc_fail(faults);
        sluice_status status = tokenizer_encode(tokenizer, text, sizeof(text) - 1, true, &list, &err);
        fault_alloc_fail(-1);
        assert_int_equal(list.n > 0, status == SLUICE_OK);
        token_list_free(&list);
        if (status == SLUICE_OK) {
            break;
        }
        assert_int_equal(status, SLUICE_NO_MEMORY);
        assert_true(fixture_is_one_line(&err));
    }
    assert_in_range(faults, 5, FAULTS_MAX - 1);
    tokenizer_close(&tokenizer);
}

static void prompts(void **state)
{
    struct tokenizer *tokenizer = NULL;
    const struct chat_message message = {.role = CHAT_USER, .text = "abc"};
    const struct chat_options options = {0};
    int faults = 0;
    (void)state;
    assert_int_equal(fixture_open(&tokenizer, rich_json(), NULL), SLUICE_OK);
    for (; faults < FAULTS_MAX; faults++) {
        struct token_list list = {0};
        fault_alloc_fail(faults);
        sluice_status status = chat_encode(tokenizer, &message, 1, &options, &list, NULL);
        fault_alloc_fail(-1);
        assert_int_equal(list.n > 0, status == SLUICE_OK);
        token_list_free(&list);
        if (status == SLUICE_OK) {
            break;
        }
        assert_int_equal(status, SLUICE_NO_MEMORY);
    }
    assert_in_range(faults, 3, FAULTS_MAX - 1);
    tokenizer_close(&tokenizer);
}

static int close_demo(void **state)
{
    (void)state;
    fixture_close();
    return 0;
}

int run_fault_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening),
        cmocka_unit_test(encoding),
        cmocka_unit_test(prompts),
    };
    return cmocka_run_group_tests_name("text faults", tests, NULL, close_demo);
}
