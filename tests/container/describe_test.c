/* The description behind `sluice inspect`, and the check of values before it. */
#include "tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/sample.h"

static struct temp_dir sample, dir;

static int make_sample(void **state)
{
    (void)state;
    sample_make(&sample, NULL);
    return 0;
}

static int remove_sample(void **state)
{
    (void)state;
    return temp_dir_remove(&sample);
}

static int set_up(void **state)
{
    (void)state;
    sample_copy(&dir, sample.path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return temp_dir_remove(&dir);
}

static json_t *describe(const char *path, struct log_lines *lines)
{
    struct container *container = assert_opens(path, NULL);
    struct log log = log_into(lines);
    char *text = NULL;
    sluice_error err = {0};
    sluice_status status = container_describe(container, &log, &text, &err);
    if (status != SLUICE_OK) {
        print_error("%s\n", err.message);
    }
    assert_int_equal(status, SLUICE_OK);
    container_close(&container);
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    free(text);
    return json;
}

/* Integer at a path of keys separated by '/'. */
static json_int_t number_at(const json_t *json, const char *path)
{
    char copy[128], *rest = copy;
    snprintf(copy, sizeof(copy), "%s", path);
    for (char *key = strsep(&rest, "/"); key != NULL; key = strsep(&rest, "/")) {
        json = json_object_get(json, key);
    }
    if (!json_is_integer(json)) {
        print_error("no number at %s\n", path);
    }
    assert_true(json_is_integer(json));
    return json_integer_value(json);
}

static const char *text_at(const json_t *json, const char *object, const char *key)
{
    const char *text = json_string_value(json_object_get(json_object_get(json, object), key));
    return text == NULL ? "" : text;
}

static void test_demo(void **state)
{
    (void)state;
    struct log_lines lines;
    json_t *json = describe(SLUICE_MODELS_DIR "/demo", &lines);
    assert_int_equal(strlen(json_string_value(json_object_get(json, "identity"))), 32);
    assert_int_equal(number_at(json, "tensors"), 1988);
    assert_int_equal(number_at(json, "unknown_tensors"), 0);
    assert_int_equal(number_at(json, "shards/count"), 10);
    assert_int_equal(number_at(json, "geometry/hidden_size"), 256);
    assert_int_equal(number_at(json, "geometry/full_indexer_layers"), 4);
    assert_int_equal(number_at(json, "roles/embedding/bytes"), 4096 * 256 + 4096 * 4);
    assert_int_equal(number_at(json, "roles/routed experts/tensors/int4 row"), 8 * 32 * 3);
    assert_int_equal(number_at(json, "roles/routed experts/bytes"), 8 * 32 * (3 * 128 * 128 + 4 * (128 + 128 + 256)));
    assert_int_equal(number_at(json, "roles/shared experts/tensors/int8 row"), 24);
    assert_int_equal(number_at(json, "roles/norms and routers/tensors/F32"), 1 + 9 * 4 + 8 * 2);
    assert_int_equal(number_at(json, "roles/indexer/tensors/int8 row"), 12);
    assert_int_equal(number_at(json, "roles/mtp/tensors/int8 row"), 32 * 3 + 3 + 5 + 1);
    assert_string_equal(text_at(json, "mtp", "state"), "complete");
    assert_string_equal(text_at(json, "indexer", "state"), "complete");
    json_decref(json);
    assert_true(lines.progress > 0);
    assert_int_equal(lines.done, lines.total);
}

static void test_grouped(void **state)
{
    (void)state;
    struct log_lines lines;
    json_t *json = describe(SLUICE_TEST_SOURCE_DIR "/data/oracle/grouped", &lines);
    assert_int_equal(number_at(json, "roles/routed experts/tensors/int4 group 64"), 3 * 12 * 3);
    json_decref(json);
}

static void test_parts(void **state)
{
    (void)state;
    struct log_lines lines;
    sample_remove_tensor(&dir, "model.layers.4.hnorm.weight");
    sample_remove_tensors(&dir, ".indexer.");
    json_t *json = describe(dir.path, &lines);
    assert_string_equal(text_at(json, "mtp", "state"), "partial");
    assert_non_null(strstr(text_at(json, "mtp", "reason"), "first model.layers.4.hnorm.weight"));
    assert_string_equal(text_at(json, "indexer", "state"), "absent");
    assert_non_null(strstr(text_at(json, "indexer", "reason"), "none of its 15"));
    assert_null(json_object_get(json_object_get(json, "roles"), "mtp"));
    json_decref(json);
    unlink(temp_dir_path(&dir, "out-mtp-00000.safetensors"));
    sample_set_config(&dir, "num_nextn_predict_layers", "0");
    json = describe(dir.path, &lines);
    assert_string_equal(text_at(json, "mtp", "state"), "absent");
    assert_non_null(strstr(text_at(json, "mtp", "reason"), "num_nextn_predict_layers"));
    json_decref(json);
}

static void test_not_finite(void **state)
{
    static const struct {
        const char *tensor;
        size_t i;
        float value;
    } cases[] = {
        {"model.norm.weight", 63, NAN},
        {"model.layers.0.input_layernorm.weight", 0, INFINITY},
        {"model.layers.1.mlp.gate.weight", 200, -INFINITY},
        {"model.layers.1.mlp.gate.e_score_correction_bias", 2, NAN},
        {"model.layers.2.self_attn.indexer.k_norm.bias", 31, NAN},
        {"lm_head.weight.qs", 500, INFINITY},
        {"model.layers.3.mlp.experts.3.down_proj.weight.qs", 60, NAN},
        {"model.layers.4.mlp.experts.0.gate_proj.weight.qs", 1, NAN},
        {"model.layers.4.shared_head.norm.weight", 5, NAN},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sample_set_value(&dir, cases[i].tensor, cases[i].i, cases[i].value);
        struct container *container = assert_opens(dir.path, NULL);
        char *text = NULL;
        char element[32];
        snprintf(element, sizeof(element), "element %zu ", cases[i].i);
        sluice_error err = {0};
        sluice_status status = container_describe(container, NULL, &text, &err);
        assert_error(status, &err, SLUICE_NUMERIC, (const char *const[]){cases[i].tensor, element, NULL});
        assert_null(text);
        container_close(&container);
        tear_down(state);
        set_up(state);
    }
}

int run_describe_tests(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_demo),
        cmocka_unit_test(test_grouped),
        TEST(test_parts),
        TEST(test_not_finite),
    };
#undef TEST
    return cmocka_run_group_tests_name("describe", tests, make_sample, remove_sample);
}
