/* config.json and generation_config.json: every default, every bound, every refusal. */
#include "tests.h"

#include <string.h>

#include "support/sample.h"

static struct temp_dir dir;

static int set_up(void **state)
{
    (void)state;
    static const char config[] =
        "{\"model_type\":\"glm_moe_dsa\",\"vocab_size\":1000,\"hidden_size\":64,\"intermediate_size\":128,"
        "\"moe_intermediate_size\":32,\"num_hidden_layers\":8,\"first_k_dense_replace\":2,\"num_attention_heads\":4,"
        "\"q_lora_rank\":48,\"kv_lora_rank\":32,\"qk_nope_head_dim\":24,\"qk_rope_head_dim\":8,\"v_head_dim\":16,"
        "\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"n_shared_experts\":1,\"index_n_heads\":4,"
        "\"index_head_dim\":16,\"index_topk\":64,\"max_position_embeddings\":4096,\"rms_norm_eps\":1e-5,"
        "\"routed_scaling_factor\":2.5,\"norm_topk_prob\":true,\"rope_theta\":10000,\"eos_token_id\":999}";
    if (temp_dir_make(&dir) != 0) {
        return -1;
    }
    temp_dir_write(&dir, "config.json", config, sizeof(config) - 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return temp_dir_remove(&dir);
}

static struct model_config load(void)
{
    struct model_config config;
    sluice_error err = {0};
    sluice_status status = config_load(&config, dir.path, &err);
    if (status != SLUICE_OK) {
        print_error("%s\n", err.message);
    }
    assert_int_equal(status, SLUICE_OK);
    return config;
}

static void assert_refused(sluice_status expected, const char *first, const char *second)
{
    struct model_config config, before;
    memset(&config, 0x5A, sizeof(config));
    before = config;
    sluice_error err = {0};
    sluice_status status = config_load(&config, dir.path, &err);
    assert_error(status, &err, expected, (const char *const[]){first, second, NULL});
    assert_memory_equal(&config, &before, sizeof(config));
}

/* ---- Values and defaults --------------------------------------------------------------------------- */

static void test_values(void **state)
{
    (void)state;
    struct model_config config = load();
    assert_int_equal(config.vocab_size, 1000);
    assert_int_equal(config.first_k_dense_replace, 2);
    assert_int_equal(config.qk_rope_head_dim, 8);
    assert_true(config.rope_theta == 10000.0);
    assert_true(config.rms_norm_eps == 1e-5f);
    assert_true(config.norm_topk_prob);
    assert_int_equal(config.n_eos, 1);
    assert_int_equal(config.eos_token_id[0], 999);
    assert_int_equal(config.num_nextn_predict_layers, 1);
}

static void test_numbers_for_booleans(void **state)
{
    (void)state;
    sample_set_config(&dir, "norm_topk_prob", "0");
    sample_set_config(&dir, "attention_bias", "0");
    sample_set_config(&dir, "tie_word_embeddings", "0.0");
    assert_false(load().norm_topk_prob);
    sample_set_config(&dir, "norm_topk_prob", "1");
    assert_true(load().norm_topk_prob);
    sample_set_config(&dir, "norm_topk_prob", "2");
    assert_refused(SLUICE_FORMAT, "config.json", "norm_topk_prob");
}

static void test_rope_theta(void **state)
{
    (void)state;
    sample_set_config(&dir, "rope_parameters", "{\"rope_type\":\"default\",\"rope_theta\":10000.0}");
    assert_true(load().rope_theta == 10000.0);
    sample_set_config(&dir, "rope_theta", NULL);
    assert_true(load().rope_theta == 10000.0);
    sample_set_config(&dir, "rope_theta", "8e6");
    assert_refused(SLUICE_FORMAT, "rope_theta", "8e+06");
    sample_set_config(&dir, "rope_parameters", "{\"rope_type\":\"default\"}");
    assert_true(load().rope_theta == 8e6);
    sample_set_config(&dir, "rope_theta", NULL);
    assert_refused(SLUICE_FORMAT, "rope_theta", "missing");
    sample_set_config(&dir, "rope_theta", "8e6");
    sample_set_config(&dir, "rope_parameters", "null");
    assert_true(load().rope_theta == 8e6);
}

static void test_dense_layers(void **state)
{
    (void)state;
    const char *types = "[\"dense\",\"dense\",\"dense\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\"]";
    sample_set_config(&dir, "mlp_layer_types", types);
    assert_refused(SLUICE_FORMAT, "first_k_dense_replace is 2", "mlp_layer_types has 3");
    sample_set_config(&dir, "first_k_dense_replace", NULL);
    assert_int_equal(load().first_k_dense_replace, 3);
    sample_set_config(&dir, "mlp_layer_types",
                      "[\"dense\",\"sparse\",\"dense\",\"sparse\",\"sparse\",\"sparse\",\"sparse\",\"sparse\"]");
    assert_refused(SLUICE_FORMAT, "mlp_layer_types[2]", "dense");
    sample_set_config(&dir, "mlp_layer_types", "[\"dense\"]");
    assert_refused(SLUICE_FORMAT, "mlp_layer_types", "1 entries");
    sample_set_config(&dir, "mlp_layer_types", "3");
    assert_refused(SLUICE_FORMAT, "mlp_layer_types", "list");
    sample_set_config(&dir, "mlp_layer_types", NULL);
    assert_refused(SLUICE_FORMAT, "first_k_dense_replace", "missing");
}

/* ---- Indexer schedule ------------------------------------------------------------------------------ */

static void assert_schedule(const char *expected)
{
    struct model_config config = load();
    char text[CONFIG_MAX_LAYERS + 1] = "";
    for (uint32_t i = 0; i < config.num_hidden_layers; i++) {
        text[i] = config.index_full[i] ? 'F' : 'S';
    }
    assert_string_equal(text, expected);
}

static void test_schedule(void **state)
{
    (void)state;
    assert_schedule("FFFFFFFF");
    sample_set_config(&dir, "index_topk_freq", "4");
    assert_schedule("FFSSSFSS"); /* offset 2 */
    sample_set_config(&dir, "index_skip_topk_offset", "3");
    assert_schedule("FFFSSSFS");
    sample_set_config(&dir, "index_topk_pattern", "\"FSFSFSFS\"");
    assert_schedule("FSFSFSFS");
    sample_set_config(
        &dir, "indexer_types",
        "[\"full\",\"shared\",\"shared\",\"shared\",\"full\",\"shared\",\"shared\",\"shared\",\"shared\"]");
    assert_schedule("FSSSFSSS");
}

/* The published schedule of GLM-5.2: 21 full layers. */
static void test_schedule_of_78_layers(void **state)
{
    (void)state;
    sample_set_config(&dir, "num_hidden_layers", "78");
    sample_set_config(&dir, "index_topk_freq", "4");
    sample_set_config(&dir, "index_skip_topk_offset", "3");
    struct model_config config = load();
    unsigned full = 0;
    for (uint32_t i = 0; i < 78; i++) {
        full += config.index_full[i];
        assert_int_equal(config.index_full[i], i < 3 || (i >= 6 && i % 4 == 2));
    }
    assert_int_equal(full, 21);
}

static void test_bad_schedules(void **state)
{
    (void)state;
    sample_set_config(&dir, "index_topk_freq", "4");
    sample_set_config(&dir, "index_skip_topk_offset", "0");
    assert_refused(SLUICE_FORMAT, "index_skip_topk_offset", "layer 0");
    sample_set_config(&dir, "index_topk_freq", "0");
    assert_refused(SLUICE_FORMAT, "index_topk_freq", "0");
    sample_set_config(&dir, "index_topk_pattern", "\"SFFFFFFF\"");
    assert_refused(SLUICE_FORMAT, "index_topk_pattern", "layer 0");
    sample_set_config(&dir, "index_topk_pattern", "\"FFFFxFFF\"");
    assert_refused(SLUICE_FORMAT, "index_topk_pattern", "layer 4");
    sample_set_config(&dir, "index_topk_pattern", "\"FFFF\"");
    assert_refused(SLUICE_FORMAT, "index_topk_pattern", "4 entries");
    sample_set_config(&dir, "index_topk_pattern", "5");
    assert_refused(SLUICE_FORMAT, "index_topk_pattern", "string");
    sample_set_config(&dir, "indexer_types", "\"full\"");
    assert_refused(SLUICE_FORMAT, "indexer_types", "list");
    sample_set_config(&dir, "indexer_types",
                      "[\"full\",\"full\",\"full\",\"half\",\"full\",\"full\",\"full\",\"full\"]");
    assert_refused(SLUICE_FORMAT, "indexer_types[3]", "half");
    sample_set_config(&dir, "indexer_types", "[\"full\",1,\"full\",\"half\",\"full\",\"full\",\"full\",\"full\"]");
    assert_refused(SLUICE_FORMAT, "indexer_types[1]", "no string");
}

/* ---- Refusals -------------------------------------------------------------------------------------- */

static void test_missing_fields(void **state)
{
    static const char *const fields[] = {
        "model_type",       "vocab_size",       "hidden_size",    "intermediate_size",     "moe_intermediate_size",
        "v_head_dim",       "q_lora_rank",      "kv_lora_rank",   "num_hidden_layers",     "first_k_dense_replace",
        "qk_nope_head_dim", "qk_rope_head_dim", "index_n_heads",  "num_attention_heads",   "n_routed_experts",
        "n_shared_experts", "index_head_dim",   "norm_topk_prob", "num_experts_per_tok",   "max_position_embeddings",
        "index_topk",       "rms_norm_eps",     "rope_theta",     "routed_scaling_factor", "eos_token_id",
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        sample_set_config(&dir, fields[i], NULL);
        assert_refused(SLUICE_FORMAT, "config.json", fields[i]);
        tear_down(state);
        assert_int_equal(set_up(state), 0);
    }
}

static void test_bad_values(void **state)
{
    static const struct {
        const char *field, *json;
        sluice_status status;
    } cases[] = {
        {"vocab_size", "0", SLUICE_FORMAT},
        {"vocab_size", "-5", SLUICE_FORMAT},
        {"vocab_size", "1e300", SLUICE_FORMAT},
        {"vocab_size", "999", SLUICE_FORMAT}, /* eos 999 is outside */
        {"vocab_size", "\"big\"", SLUICE_FORMAT},
        {"hidden_size", "0", SLUICE_FORMAT},
        {"hidden_size", "64.5", SLUICE_FORMAT},
        {"hidden_size", "4294967360", SLUICE_FORMAT},
        {"intermediate_size", "-1", SLUICE_FORMAT},
        {"moe_intermediate_size", "0", SLUICE_FORMAT},
        {"num_hidden_layers", "0", SLUICE_FORMAT},
        {"num_hidden_layers", "512", SLUICE_FORMAT},
        {"num_hidden_layers", "9223372036854775807", SLUICE_FORMAT},
        {"first_k_dense_replace", "9", SLUICE_FORMAT},
        {"first_k_dense_replace", "-1", SLUICE_FORMAT},
        {"num_nextn_predict_layers", "2", SLUICE_FORMAT},
        {"num_attention_heads", "0", SLUICE_FORMAT},
        {"num_key_value_heads", "2", SLUICE_UNSUPPORTED},
        {"qk_head_dim", "33", SLUICE_UNSUPPORTED},
        {"q_lora_rank", "null", SLUICE_FORMAT},
        {"kv_lora_rank", "100000", SLUICE_FORMAT},
        {"qk_nope_head_dim", "0", SLUICE_FORMAT},
        {"qk_rope_head_dim", "7", SLUICE_FORMAT},
        {"qk_rope_head_dim", "18", SLUICE_FORMAT}, /* index_head_dim 16 is smaller */
        {"v_head_dim", "0", SLUICE_FORMAT},
        {"n_routed_experts", "0", SLUICE_FORMAT},
        {"n_routed_experts", "1000000", SLUICE_FORMAT},
        {"num_experts_per_tok", "9", SLUICE_FORMAT},
        {"num_experts_per_tok", "0", SLUICE_FORMAT},
        {"n_shared_experts", "0", SLUICE_FORMAT},
        {"index_n_heads", "0", SLUICE_FORMAT},
        {"index_topk", "0", SLUICE_FORMAT},
        {"max_position_embeddings", "0", SLUICE_FORMAT},
        {"rms_norm_eps", "0", SLUICE_FORMAT},
        {"rms_norm_eps", "-1e-5", SLUICE_FORMAT},
        {"routed_scaling_factor", "0", SLUICE_FORMAT},
        {"routed_scaling_factor", "\"2.5\"", SLUICE_FORMAT},
        {"rope_theta", "0", SLUICE_FORMAT},
        {"rope_theta", "1e30", SLUICE_FORMAT},
        {"model_type", "\"glm4_moe\"", SLUICE_UNSUPPORTED},
        {"model_type", "5", SLUICE_UNSUPPORTED},
        {"scoring_func", "\"softmax\"", SLUICE_UNSUPPORTED},
        {"topk_method", "\"greedy\"", SLUICE_UNSUPPORTED},
        {"hidden_act", "\"gelu\"", SLUICE_UNSUPPORTED},
        {"attention_bias", "true", SLUICE_UNSUPPORTED},
        {"tie_word_embeddings", "true", SLUICE_UNSUPPORTED},
        {"rope_interleave", "false", SLUICE_UNSUPPORTED},
        {"n_group", "8", SLUICE_UNSUPPORTED},
        {"topk_group", "4", SLUICE_UNSUPPORTED},
        {"moe_layer_freq", "2", SLUICE_UNSUPPORTED},
        {"rope_parameters", "{\"rope_type\":\"yarn\",\"rope_theta\":10000}", SLUICE_UNSUPPORTED},
        {"rope_parameters", "7", SLUICE_FORMAT},
        {"rope_scaling", "{\"type\":\"linear\",\"factor\":2}", SLUICE_UNSUPPORTED},
        {"eos_token_id", "1000", SLUICE_FORMAT},
        {"eos_token_id", "-1", SLUICE_FORMAT},
        {"eos_token_id", "[1, 2, \"x\"]", SLUICE_FORMAT},
        {"eos_token_id", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", SLUICE_UNSUPPORTED},
        {"eos_token_id", "[]", SLUICE_FORMAT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *named = strcmp(cases[i].json, "999") == 0  ? "eos_token_id"
                            : strcmp(cases[i].json, "18") == 0 ? "index_head_dim"
                                                               : cases[i].field;
        sample_set_config(&dir, cases[i].field, cases[i].json);
        assert_refused(cases[i].status, "config.json", named);
        tear_down(state);
        assert_int_equal(set_up(state), 0);
    }
}

/* ---- End-of-text ids and files --------------------------------------------------------------------- */

static void write_generation(const char *text)
{
    temp_dir_write(&dir, "generation_config.json", text, strlen(text));
}

static void test_eos_joined(void **state)
{
    (void)state;
    write_generation("{\"eos_token_id\":[999, 7, 8]}");
    struct model_config config = load();
    assert_int_equal(config.n_eos, 3);
    assert_int_equal(config.eos_token_id[0], 999);
    assert_int_equal(config.eos_token_id[1], 7);
    assert_int_equal(config.eos_token_id[2], 8);
    sample_set_config(&dir, "eos_token_id", "null");
    assert_int_equal(load().n_eos, 3);
    write_generation("{\"eos_token_id\":5}");
    assert_int_equal(load().eos_token_id[0], 5);
    write_generation("{}");
    assert_refused(SLUICE_FORMAT, "config.json", "eos_token_id");
    write_generation("{\"eos_token_id\":1000}");
    assert_refused(SLUICE_FORMAT, "generation_config.json", "eos_token_id");
    write_generation("[]");
    assert_refused(SLUICE_FORMAT, "generation_config.json", "object");
    write_generation("{");
    assert_refused(SLUICE_FORMAT, "generation_config.json", "JSON");
}

static void test_bad_files(void **state)
{
    (void)state;
    temp_dir_write(&dir, "config.json", "[1]", 3);
    assert_refused(SLUICE_FORMAT, "config.json", "object");
    temp_dir_write(&dir, "config.json", "{\"a\":1,\"a\":2}", 13);
    assert_refused(SLUICE_FORMAT, "config.json", "duplicate");
    temp_dir_write(&dir, "config.json", "", 0);
    assert_refused(SLUICE_FORMAT, "config.json", "JSON");
    size_t len = (size_t)5 << 20;
    char *large = calloc(len, 1);
    assert_non_null(large);
    memset(large, ' ', len);
    temp_dir_write(&dir, "config.json", large, len);
    memset(large, '[', 100000);
    assert_refused(SLUICE_FORMAT, "config.json", "larger");
    temp_dir_write(&dir, "config.json", large, 100000);
    free(large);
    assert_refused(SLUICE_FORMAT, "config.json", "nested");
    unlink(temp_dir_path(&dir, "config.json"));
    assert_refused(SLUICE_IO, "config.json", "No such file");
}

int run_config_tests(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_values),        TEST(test_numbers_for_booleans),
        TEST(test_rope_theta),    TEST(test_dense_layers),
        TEST(test_schedule),      TEST(test_schedule_of_78_layers),
        TEST(test_bad_schedules), TEST(test_missing_fields),
        TEST(test_bad_values),    TEST(test_eos_joined),
        TEST(test_bad_files),
    };
#undef TEST
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
