/* Opening whole containers: the ones that ship with the sources, and small ones spoiled in one place. */
#include "tests.h"

#include <stdlib.h>
#include <string.h>

#include "support/sample.h"

#define ORACLE SLUICE_TEST_SOURCE_DIR "/data/oracle/"

/* The sample has layer 0 dense, 1 to 3 sparse, MTP layer 4; full indexers on layers 0, 1, 2. */
static struct temp_dir sample; /* never changed */
static struct temp_dir dir;    /* a copy for one test */

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

/* Starts over with a fresh copy. */
static void renew(void **state)
{
    tear_down(state);
    set_up(state);
}

/* ---- Containers that open -------------------------------------------------------------------------- */

static void assert_same_ref(const struct tensor_ref *ref, const char *name, uint64_t bytes)
{
    assert_string_equal(ref->name, name);
    assert_int_equal(ref->bytes, bytes);
}

static void test_demo(void **state)
{
    (void)state;
    struct log_lines lines;
    struct container *demo = assert_opens(SLUICE_MODELS_DIR "/demo", &lines);
    assert_int_equal(lines.n, 0);
    assert_true(demo->has_mtp);
    assert_true(demo->has_indexer);
    assert_int_equal(demo->n_shards, 10);
    assert_int_equal(demo->n_tensors, 1988);
    assert_int_equal(demo->config.n_eos, 3);
    const struct stored_layer *layer = &demo->layers[3];
    assert_true(layer->sparse);
    assert_false(layer->has_indexer);
    assert_true(demo->layers[6].has_indexer);
    assert_false(demo->layers[0].sparse);
    assert_int_equal(layer->experts[31].down.kind, QUANT_INT4_ROW);
    assert_int_equal(layer->experts[31].down.rows, 256);
    assert_int_equal(layer->experts[31].down.cols, 128);
    assert_same_ref(&layer->experts[31].down.weights, "model.layers.3.mlp.experts.31.down_proj.weight", 128 * 128);
    assert_same_ref(&layer->experts[31].down.scales, "model.layers.3.mlp.experts.31.down_proj.weight.qs", 1024);
    assert_int_equal(demo->mtp->eh_proj.kind, QUANT_INT8_ROW);
    assert_int_equal(demo->mtp->eh_proj.cols, 512);
    assert_int_equal(layer->router.kind, QUANT_F32);
    container_close(&demo);
    assert_null(demo);
    container_close(&demo);
}

static void test_oracles(void **state)
{
    (void)state;
    static const char *const sets[] = {ORACLE "basic", ORACLE "dsa", ORACLE "grouped", ORACLE "wide"};
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        struct log_lines lines;
        struct container *container = assert_opens(sets[i], &lines);
        assert_int_equal(lines.n, 0);
        assert_true(container->has_mtp);
        assert_true(container->has_indexer);
        if (strstr(sets[i], "grouped") != NULL) {
            assert_int_equal(container->layers[2].experts[0].down.kind, QUANT_INT4_GROUP);
            assert_int_equal(container->layers[2].experts[0].down.group, 64);
            assert_int_equal(container->layers[2].experts[0].gate.group, 64);
        }
        container_close(&container);
    }
}

static void test_direct(void **state)
{
    (void)state;
    struct container *container = NULL;
    sluice_error err = {0};
    assert_int_equal(container_open(&container, dir.path, true, NULL, &err), SLUICE_OK);
    container_close(&container);
}

static void assert_identity(bool same)
{
    struct container *a = assert_opens(sample.path, NULL), *b = assert_opens(dir.path, NULL);
    assert_int_equal(memcmp(a->identity, b->identity, sizeof(a->identity)) == 0, same);
    container_close(&a);
    container_close(&b);
}

static void test_identity(void **state)
{
    assert_identity(true);
    temp_dir_write(&dir, "notes.txt", "x", 1);
    assert_identity(true);
    sample_set_config(&dir, "note", "1");
    assert_identity(false);
    renew(state);
    sample_add_tensor(&dir, "extra");
    assert_identity(false);
    renew(state);
    assert_int_equal(rename(temp_dir_path(&dir, "out-mtp-00000.safetensors"), temp_dir_path(&dir, "z.safetensors")), 0);
    assert_identity(false);
}

/* ---- Parts that may be absent ---------------------------------------------------------------------- */

static void test_mtp_absent(void **state)
{
    (void)state;
    unlink(temp_dir_path(&dir, "out-mtp-00000.safetensors"));
    struct log_lines lines;
    struct container *container = assert_opens(dir.path, &lines);
    assert_false(container->has_mtp);
    assert_null(container->mtp);
    assert_int_equal(lines.n, 0);
    container_close(&container);
    sample_set_config(&dir, "num_nextn_predict_layers", "0");
    container = assert_opens(dir.path, &lines);
    assert_false(container->has_mtp);
    container_close(&container);
}

static void test_mtp_without_field(void **state)
{
    (void)state;
    sample_set_config(&dir, "num_nextn_predict_layers", NULL);
    struct container *container = assert_opens(dir.path, NULL);
    assert_true(container->has_mtp);
    container_close(&container);
}

static void test_mtp_partial(void **state)
{
    (void)state;
    sample_remove_tensor(&dir, "model.layers.4.hnorm.weight");
    sample_remove_tensor(&dir, "model.layers.4.mlp.experts.2.up_proj.weight.qs");
    struct log_lines lines;
    struct container *container = assert_opens(dir.path, &lines);
    assert_false(container->has_mtp);
    assert_int_equal(lines.n, 1);
    assert_non_null(strstr(lines.text, "MTP layer lacks 2 of"));
    assert_non_null(strstr(lines.text, "model.layers.4.mlp.experts.2.up_proj.weight.qs"));
    container_close(&container);
}

static void test_mtp_beyond_config(void **state)
{
    (void)state;
    sample_set_config(&dir, "num_nextn_predict_layers", "0");
    assert_open_refused(&dir, SLUICE_FORMAT, "model.layers.4.", "num_nextn_predict_layers 0");
}

static void test_indexer_absent(void **state)
{
    (void)state;
    sample_remove_tensors(&dir, ".indexer.");
    struct log_lines lines;
    struct container *container = assert_opens(dir.path, &lines);
    assert_false(container->has_indexer);
    assert_false(container->layers[0].has_indexer);
    assert_int_equal(lines.n, 1);
    assert_non_null(strstr(lines.text, "runs dense attention"));
    container_close(&container);
}

static void test_indexer_partial(void **state)
{
    (void)state;
    sample_remove_tensor(&dir, "model.layers.2.self_attn.indexer.k_norm.bias");
    struct log_lines lines;
    struct container *container = assert_opens(dir.path, &lines);
    assert_false(container->has_indexer);
    assert_int_equal(lines.n, 1);
    assert_non_null(strstr(lines.text, "indexer lacks 1 of 15 tensors"));
    assert_non_null(strstr(lines.text, "model.layers.2.self_attn.indexer.k_norm.bias"));
    container_close(&container);
}

/* Indexer tensors of a shared layer are known; others are counted once. */
static void test_unknown_tensors(void **state)
{
    (void)state;
    sample_add_tensor(&dir, "model.layers.3.self_attn.indexer.wk.weight");
    struct log_lines lines;
    struct container *container = assert_opens(dir.path, &lines);
    assert_int_equal(lines.n, 0);
    container_close(&container);
    sample_add_tensor(&dir, "vision.patch.weight");
    sample_add_tensor(&dir, "model.layers.1.mlp.gate_proj.weight");
    container = assert_opens(dir.path, &lines);
    assert_int_equal(lines.n, 1);
    assert_non_null(strstr(lines.text, "2 tensors"));
    container_close(&container);
}

/* ---- Tensors missing, twice, too many -------------------------------------------------------------- */

static void test_missing(void **state)
{
    static const char *const tensors[] = {
        "lm_head.weight",
        "lm_head.weight.qs",
        "model.norm.weight",
        "model.layers.0.mlp.up_proj.weight",
        "model.layers.2.self_attn.q_a_layernorm.weight",
        "model.layers.3.mlp.gate.weight",
        "model.layers.3.mlp.gate.e_score_correction_bias",
        "model.layers.1.mlp.experts.3.gate_proj.weight",
        "model.layers.1.mlp.experts.0.up_proj.weight.qs",
    };
    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
        char sentence[160];
        snprintf(sentence, sizeof(sentence), "tensor %s is missing (", tensors[i]);
        sample_remove_tensor(&dir, tensors[i]);
        assert_open_refused(&dir, SLUICE_INCOMPLETE, dir.path, sentence);
        renew(state);
    }
    sample_remove_tensors(&dir, "model.layers.3.mlp.experts.1.");
    assert_open_refused(&dir, SLUICE_INCOMPLETE,
                        "model.layers.3.mlp.experts.1.gate_proj.weight is missing, and 2 more");
}

static void test_twice(void **state)
{
    struct sample_shard from, to;
    sample_shard_find(&from, &dir, "model.norm.weight");
    sample_shard_load(&to, &dir, "out-mtp-00000.safetensors");
    json_object_set(to.header, "model.norm.weight", sample_tensor(&from, "model.norm.weight"));
    sample_shard_free(&from);
    json_object_set_new(sample_tensor(&to, "model.norm.weight"), "data_offsets", json_pack("[i,i]", 0, 0));
    json_object_set_new(sample_tensor(&to, "model.norm.weight"), "shape", json_pack("[i]", 0));
    sample_shard_save(&to);
    assert_open_refused(&dir, SLUICE_FORMAT, "tensor model.norm.weight", "out-mtp-00000.safetensors",
                        "out-00000.safetensors");
    renew(state);

    /* the same name twice in one header, which only text can hold */
    const char *text = "{\"lm_head.weight\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                       "\"lm_head.weight\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    char bytes[256] = {0};
    bytes[0] = (char)strlen(text);
    snprintf(bytes + 8, sizeof(bytes) - 8, "%s", text);
    temp_dir_write(&dir, "twice.safetensors", bytes, 8 + strlen(text) + 1);
    assert_open_refused(&dir, SLUICE_FORMAT, "twice.safetensors", "duplicate", "lm_head.weight");
}

static void test_more_than_config(void **state)
{
    sample_set_config(&dir, "n_routed_experts", "3");
    assert_open_refused(&dir, SLUICE_FORMAT, ".mlp.experts.3.", "n_routed_experts 3");
    renew(state);
    sample_add_tensor(&dir, "model.layers.1.mlp.experts.99999999999999.up_proj.weight");
    assert_open_refused(&dir, SLUICE_FORMAT, "model.layers.1.mlp.experts.99999999999999.up_proj.weight");
    renew(state);
    sample_add_tensor(&dir, "model.layers.5.input_layernorm.weight");
    assert_open_refused(&dir, SLUICE_FORMAT, "model.layers.5.input_layernorm.weight", "num_hidden_layers 4");
    renew(state);
    sample_add_tensor(&dir, "model.layers.18446744073709551616.x");
    assert_open_refused(&dir, SLUICE_FORMAT, "model.layers.18446744073709551616.x", "num_hidden_layers 4");
    renew(state);
    sample_set_config(&dir, "indexer_types", NULL);
    sample_set_config(&dir, "num_hidden_layers", "3");
    assert_open_refused(&dir, SLUICE_FORMAT, "model.layers.4.", "num_hidden_layers 3");
}

static void test_fewer_than_config(void **state)
{
    sample_set_config(&dir, "n_routed_experts", "5");
    assert_open_refused(&dir, SLUICE_INCOMPLETE,
                        "model.layers.1.mlp.experts.4.gate_proj.weight is missing, and 8 more");
    renew(state);
    /* with one layer more the MTP layer would pass for a shared layer */
    sample_set_config(&dir, "num_hidden_layers", "5");
    sample_set_config(&dir, "indexer_types", "[\"full\",\"full\",\"full\",\"shared\",\"shared\"]");
    assert_open_refused(&dir, SLUICE_FORMAT, "model.layers.4.", "MTP layer", "num_hidden_layers 5");
    renew(state);
    sample_set_config(&dir, "num_hidden_layers", "500");
    sample_set_config(&dir, "indexer_types", NULL);
    sample_set_config(&dir, "n_routed_experts", "4096");
    unlink(temp_dir_path(&dir, "out-mtp-00000.safetensors"));
    assert_open_refused(&dir, SLUICE_INCOMPLETE, "is missing, and");
    renew(state);
    sample_set_config(&dir, "first_k_dense_replace", "2");
    assert_open_refused(&dir, SLUICE_INCOMPLETE, "model.layers.1.mlp.gate_proj.weight is missing, and 2 more");
}

/* ---- Tensors of a wrong form ----------------------------------------------------------------------- */

static void test_misshaped(void **state)
{
    static const struct {
        const char *tensor, *shape, *expected;
    } cases[] = {
        {"model.norm.weight", "[8,8]", "[64]"},
        {"model.norm.weight", "[64,1]", "[64]"},
        {"model.layers.1.self_attn.kv_a_layernorm.weight", "[2,32]", "[64]"},
        {"model.layers.3.mlp.gate.weight", "[64,4]", "[4, 64]"},
        {"model.layers.3.mlp.gate.weight", "[256]", "[4, 64]"},
        {"model.layers.3.mlp.gate.e_score_correction_bias", "[4,1]", "[4]"},
        {"model.layers.2.self_attn.indexer.k_norm.bias", "[16,2]", "[32]"},
        {"model.layers.4.enorm.weight", "[1,64]", "[64]"},
        {"lm_head.weight", "[64,512]", "U8"},
        {"lm_head.weight", "[2,128,128]", "U8"},
        {"lm_head.weight.qs", "[2,256]", "scales"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sample_set_header(&dir, cases[i].tensor, "shape", cases[i].shape);
        assert_open_refused(&dir, SLUICE_FORMAT, ".safetensors: tensor", cases[i].tensor, cases[i].expected);
        renew(state);
    }
}

/* Shortens a tensor to its first elements, so that header and counts agree, but not with the config. */
static void shorten(const char *tensor, unsigned elements, unsigned bytes)
{
    struct sample_shard shard;
    sample_shard_find(&shard, &dir, tensor);
    json_t *entry = sample_tensor(&shard, tensor);
    json_int_t begin = json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
    json_object_set_new(entry, "shape", json_pack("[i]", (int)elements));
    json_object_set_new(entry, "data_offsets", json_pack("[I,I]", begin, begin + (json_int_t)bytes));
    sample_shard_save(&shard);
}

static void test_wrong_counts(void **state)
{
    static const struct {
        const char *tensor;
        unsigned elements, bytes;
        const char *named;
    } cases[] = {
        {"model.norm.weight", 63, 252, "[64]"},
        {"model.norm.weight", 0, 0, "[64]"},
        {"model.layers.2.mlp.gate.e_score_correction_bias", 3, 12, "[4]"},
        {"model.layers.2.mlp.gate.weight", 12, 48, "[4, 64]"},
        {"model.layers.1.mlp.experts.2.down_proj.weight", 1023, 1023, "[64, 32]"},
        {"model.layers.1.mlp.experts.2.down_proj.weight.qs", 63, 252, "model.layers.1.mlp.experts.2.down_proj.weight"},
        {"model.embed_tokens.weight", 512, 512, "[512, 64]"},
        {"model.layers.4.eh_proj.weight", 64, 64, "[64, 128]"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        shorten(cases[i].tensor, cases[i].elements, cases[i].bytes);
        assert_open_refused(&dir, SLUICE_FORMAT, cases[i].tensor, cases[i].named);
        renew(state);
    }
}

static void test_wrong_dtype(void **state)
{
    sample_set_header(&dir, "model.norm.weight", "dtype", "\"I32\"");
    assert_open_refused(&dir, SLUICE_FORMAT, "tensor model.norm.weight has dtype I32", "[64]");
    renew(state);
    sample_set_header(&dir, "model.norm.weight", "dtype", "\"U8\"");
    sample_set_header(&dir, "model.norm.weight", "shape", "[256]");
    assert_open_refused(&dir, SLUICE_FORMAT, "tensor model.norm.weight is U8 of shape [256]", "F32, BF16 or F16");
    renew(state);
    sample_set_header(&dir, "model.layers.2.mlp.gate.weight", "dtype", "\"U8\"");
    sample_set_header(&dir, "model.layers.2.mlp.gate.weight", "shape", "[4, 256]");
    assert_open_refused(&dir, SLUICE_FORMAT, "tensor model.layers.2.mlp.gate.weight is U8", "F32, BF16 or F16");
    renew(state);
    sample_set_header(&dir, "lm_head.weight.qs", "dtype", "\"BF16\"");
    sample_set_header(&dir, "lm_head.weight.qs", "shape", "[1024]");
    assert_open_refused(&dir, SLUICE_FORMAT, "tensor lm_head.weight.qs is BF16", "F32 scales");
    renew(state);
    sample_set_header(&dir, "lm_head.weight", "dtype", "\"F32\"");
    sample_set_header(&dir, "lm_head.weight", "shape", "[8192]");
    assert_open_refused(&dir, SLUICE_FORMAT, "tensor lm_head.weight is F32 of shape [8192]", "[512, 64]");
}

/* int4 rows must be whole 32-bit words. */
static void test_int4_columns(void **state)
{
    (void)state;
    struct sample_shard shard;
    const char *tensor = "model.layers.0.self_attn.o_proj.weight"; /* [64, 64] */
    sample_set_config(&dir, "v_head_dim", "30");                   /* o_proj has 60 columns then */
    sample_set_config(&dir, "num_attention_heads", "2");
    sample_shard_find(&shard, &dir, tensor);
    sample_shard_free(&shard);
    for (unsigned layer = 0; layer < 5; layer++) {
        char name[96];
        snprintf(name, sizeof(name), "model.layers.%u.self_attn.kv_b_proj.weight", layer); /* [124, 64] */
        shorten(name, layer == 4 ? 124 * 64 : 124 * 32, layer == 4 ? 124 * 64 : 124 * 32);
        snprintf(name, sizeof(name), "model.layers.%u.self_attn.kv_b_proj.weight.qs", layer);
        shorten(name, 124, 496);
        snprintf(name, sizeof(name), "model.layers.%u.self_attn.o_proj.weight", layer);
        shorten(name, layer == 4 ? 64 * 60 : 64 * 30, layer == 4 ? 64 * 60 : 64 * 30);
    }
    assert_open_refused(&dir, SLUICE_UNSUPPORTED, tensor, "60 columns", "divisible by 8");
}

/* ---- Files ----------------------------------------------------------------------------------------- */

static void test_truncated(void **state)
{
    const char *path = temp_dir_path(&dir, "out-00001.safetensors");
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - 100), 0);
    assert_open_refused(&dir, SLUICE_INCOMPLETE, "out-00001.safetensors", "100 bytes are missing");
    renew(state);
    path = temp_dir_path(&dir, "out-00001.safetensors");
    assert_int_equal(truncate(path, 1000), 0);
    assert_open_refused(&dir, SLUICE_INCOMPLETE, "out-00001.safetensors", "inside its header");
    assert_int_equal(truncate(path, 0), 0);
    assert_open_refused(&dir, SLUICE_INCOMPLETE, "out-00001.safetensors", "0 bytes");
}

static void test_missing_files(void **state)
{
    unlink(temp_dir_path(&dir, "out-00001.safetensors"));
    assert_open_refused(&dir, SLUICE_INCOMPLETE, "shard out-00001.safetensors is missing");
    renew(state);
    /* the last of a series leaves no gap, but tensors are missing */
    unlink(temp_dir_path(&dir, "out-00003.safetensors"));
    assert_open_refused(&dir, SLUICE_INCOMPLETE, "model.layers.3.", "is missing, and");
    renew(state);
    unlink(temp_dir_path(&dir, "config.json"));
    assert_open_refused(&dir, SLUICE_IO, "config.json");
    renew(state);
    assert_int_equal(mkdir(temp_dir_path(&dir, "z.safetensors"), 0755), 0);
    assert_open_refused(&dir, SLUICE_IO, "z.safetensors", "directory");
}

static void test_no_directory(void **state)
{
    (void)state;
    struct temp_dir other;
    snprintf(other.path, sizeof(other.path), "%.40s/none", dir.path);
    assert_open_refused(&other, SLUICE_IO, "/none", "No such file");
    temp_dir_write(&dir, "none", "x", 1);
    assert_open_refused(&other, SLUICE_IO, "/none", "Not a directory");
    unlink(other.path);
    assert_int_equal(mkdir(other.path, 0755), 0);
    assert_open_refused(&other, SLUICE_INCOMPLETE, "/none", "no *.safetensors file");
}

static void test_overlap(void **state)
{
    (void)state;
    struct sample_shard shard;
    size_t len;
    sample_shard_find(&shard, &dir, "model.norm.weight");
    unsigned char *other = sample_tensor_data(&shard, "lm_head.weight.qs", &len);
    json_int_t begin = other - shard.data;
    json_object_set_new(sample_tensor(&shard, "model.norm.weight"), "data_offsets",
                        json_pack("[I,I]", begin, begin + 256));
    sample_shard_save(&shard);
    assert_open_refused(&dir, SLUICE_FORMAT, "model.norm.weight", "lm_head.weight.qs", "overlap");
}

int run_open_tests(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_demo),
        cmocka_unit_test(test_oracles),
        TEST(test_direct),
        TEST(test_identity),
        TEST(test_mtp_absent),
        TEST(test_mtp_without_field),
        TEST(test_mtp_partial),
        TEST(test_mtp_beyond_config),
        TEST(test_indexer_absent),
        TEST(test_indexer_partial),
        TEST(test_unknown_tensors),
        TEST(test_missing),
        TEST(test_twice),
        TEST(test_more_than_config),
        TEST(test_fewer_than_config),
        TEST(test_misshaped),
        TEST(test_wrong_counts),
        TEST(test_wrong_dtype),
        TEST(test_int4_columns),
        TEST(test_truncated),
        TEST(test_missing_files),
        TEST(test_no_directory),
        TEST(test_overlap),
    };
#undef TEST
    return cmocka_run_group_tests_name("open", tests, make_sample, remove_sample);
}
