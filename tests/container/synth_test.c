/* Random containers: whole, the same for the same seed, refused geometries, a disk that fills up. */
#include "tests.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "support/sample.h"

static struct temp_dir dir;

static int set_up(void **state)
{
    (void)state;
    return temp_dir_make(&dir);
}

static int tear_down(void **state)
{
    (void)state;
    fault_disk_size(UINT64_MAX);
    return temp_dir_remove(&dir);
}

static sluice_status synth(const char *path, const struct synth_geometry *geometry, sluice_error *err)
{
    return container_synth(path, geometry, NULL, err);
}

/* ---- Containers that are whole --------------------------------------------------------------------- */

static bool straddles(const struct stored_mlp *expert)
{
    return expert->down.weights.shard != expert->gate.weights.shard ||
           expert->gate.weights.shard != expert->up.weights.shard;
}

static void test_geometries(void **state)
{
    static const struct synth_geometry geometries[] = {
        {64, 32, 4, 2, 4, 1, 512, 0, 1, 1},   {64, 8, 1, 1, 1, 0, 512, 0, 0, 2},
        {128, 96, 9, 3, 3, 0, 600, 32, 1, 3}, {192, 128, 8, 8, 9, 2, 513, 64, 1, 4},
        {72, 40, 5, 1, 2, 2, 512, 16, 0, 5},  {256, 32, 5, 5, 3, 1, 512, 128, 1, 6},
    };
    for (size_t i = 0; i < sizeof(geometries) / sizeof(geometries[0]); i++) {
        const struct synth_geometry *g = &geometries[i];
        sluice_error err = {0};
        sluice_status status = synth(dir.path, g, &err);
        if (status != SLUICE_OK) {
            print_error("%s\n", err.message);
        }
        assert_int_equal(status, SLUICE_OK);
        struct log_lines lines;
        struct container *container = assert_opens(dir.path, &lines);
        assert_int_equal(lines.n, 0);
        assert_true(container->has_indexer);
        assert_int_equal(container->has_mtp, g->mtp);
        assert_int_equal(container->config.hidden_size, g->hidden);
        assert_int_equal(container->config.n_routed_experts, g->experts);
        assert_int_equal(container->config.n_eos, 3);
        char *text = NULL;
        assert_int_equal(container_describe(container, NULL, &text, &err), SLUICE_OK);
        free(text);
        container_close(&container);
        tear_down(state);
        set_up(state);
    }
}

static void test_layout_of_public_files(void **state)
{
    (void)state;
    temp_dir_remove(&dir);
    sample_make(&dir, NULL);
    struct container *container = assert_opens(dir.path, NULL);
    unsigned straddling = 0;
    for (uint32_t layer = 1; layer < 4; layer++) {
        for (uint32_t i = 0; i < 4; i++) {
            const struct stored_mlp *expert = &container->layers[layer].experts[i];
            straddling += straddles(expert);
            if (!straddles(expert)) {
                assert_int_equal(expert->down.weights.offset + expert->down.weights.bytes, expert->gate.weights.offset);
                assert_int_equal(expert->gate.weights.offset + expert->gate.weights.bytes, expert->up.weights.offset);
                assert_int_equal(expert->down.scales.offset + expert->down.scales.bytes, expert->gate.scales.offset);
                assert_int_equal(expert->gate.scales.offset + expert->gate.scales.bytes, expert->up.scales.offset);
            }
        }
    }
    assert_in_range(straddling, 2, 4);
    assert_int_equal(container->layers[1].experts[0].gate.kind, QUANT_INT4_ROW);
    assert_int_equal(container->lm_head.kind, QUANT_INT8_ROW);
    assert_int_equal(container->layers[0].indexer.wk.kind, QUANT_INT8_ROW);
    assert_int_equal(container->mtp->layer.experts[0].gate.kind, QUANT_INT8_ROW);
    container_close(&container);
}

static void test_real_dimensions(void **state)
{
    (void)state;
    struct synth_geometry g = {1024, 64, 2, 1, 2, 1, 512, 0, 0, 1};
    sluice_error err = {0};
    assert_int_equal(synth(dir.path, &g, &err), SLUICE_OK);
    struct container *container = assert_opens(dir.path, NULL);
    assert_int_equal(container->config.num_attention_heads, 64);
    assert_int_equal(container->config.q_lora_rank, 2048);
    assert_int_equal(container->config.kv_lora_rank, 512);
    assert_int_equal(container->config.index_topk, 2048);
    container_close(&container);
}

/* Root of the mean over rows of the sum of squared weights: what happens to the size of a random input. */
static double gain(const struct container *container, const struct stored_matrix *matrix)
{
    size_t n_scales = matrix->rows;
    unsigned char *weights = malloc(matrix->weights.bytes);
    float *scales = calloc(n_scales, sizeof(*scales));
    struct quant_matrix view;
    sluice_error err = {0};
    assert_int_equal(container_read_matrix(container, matrix, weights, scales, &view, &err), SLUICE_OK);
    double sum = 0.0;
    size_t row_bytes = quant_row_bytes(matrix->kind, matrix->cols);
    for (size_t i = 0; i < matrix->rows * row_bytes; i++) {
        double scale = scales[i / row_bytes];
        double low = matrix->kind == QUANT_INT8_ROW ? (int8_t)weights[i] : (weights[i] & 15) - 8;
        double high = matrix->kind == QUANT_INT8_ROW ? 0 : (weights[i] >> 4) - 8;
        sum += scale * scale * (low * low + high * high);
    }
    free(weights);
    free(scales);
    return sqrt(sum / matrix->rows);
}

static void test_values_are_sane(void **state)
{
    (void)state;
    temp_dir_remove(&dir);
    sample_make(&dir, NULL);
    struct container *container = assert_opens(dir.path, NULL);
    const struct stored_matrix *matrices[] = {
        &container->layers[1].experts[0].gate,
        &container->layers[1].experts[3].down,
        &container->layers[0].o_proj,
        &container->mtp->eh_proj,
    };
    for (size_t i = 0; i < sizeof(matrices) / sizeof(matrices[0]); i++) {
        double found = gain(container, matrices[i]);
        assert_true(found > 0.8 && found < 1.25);
    }
    container_close(&container);
}

/* ---- Determinism ----------------------------------------------------------------------------------- */

static void assert_same_files(const char *a, const char *b, bool same)
{
    struct dirent **names;
    int n = scandir(a, &names, NULL, alphasort);
    bool equal = true;
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.') {
            char command[1200];
            snprintf(command, sizeof(command), "cmp -s '%s/%s' '%s/%s'", a, names[i]->d_name, b, names[i]->d_name);
            equal = equal && system(command) == 0;
        }
        free(names[i]);
    }
    free(names);
    assert_int_equal(equal, same);
}

static void test_seed(void **state)
{
    (void)state;
    struct synth_geometry g = sample_geometry();
    sluice_error err = {0};
    assert_int_equal(synth(temp_dir_path(&dir, "a"), &g, &err), SLUICE_OK);
    assert_int_equal(synth(temp_dir_path(&dir, "b"), &g, &err), SLUICE_OK);
    assert_same_files(temp_dir_path(&dir, "a"), temp_dir_path(&dir, "b"), true);
    g.seed++;
    assert_int_equal(synth(temp_dir_path(&dir, "c"), &g, &err), SLUICE_OK);
    assert_same_files(temp_dir_path(&dir, "a"), temp_dir_path(&dir, "c"), false);
}

/* ---- Refusals -------------------------------------------------------------------------------------- */

static void test_bad_geometries(void **state)
{
    (void)state;
    static const struct {
        struct synth_geometry geometry;
        const char *named;
    } cases[] = {
        {{0, 32, 4, 2, 4, 1, 512, 0, 1, 1}, "hidden"},
        {{68, 32, 4, 2, 4, 1, 512, 0, 1, 1}, "hidden"},
        {{1 << 20, 32, 4, 2, 4, 1, 512, 0, 1, 1}, "hidden"},
        {{64, 4, 4, 2, 4, 1, 512, 0, 1, 1}, "intermediate"},
        {{64, 33, 4, 2, 4, 1, 512, 0, 1, 1}, "intermediate"},
        {{64, 32, 0, 2, 4, 1, 512, 0, 1, 1}, "experts"},
        {{64, 32, 4, 0, 4, 1, 512, 0, 1, 1}, "top_k"},
        {{64, 32, 4, 5, 4, 1, 512, 0, 1, 1}, "top_k"},
        {{64, 32, 4, 2, 0, 0, 512, 0, 1, 1}, "layers"},
        {{64, 32, 4, 2, 512, 1, 512, 0, 1, 1}, "layers"},
        {{64, 32, 4, 2, 4, 5, 512, 0, 1, 1}, "dense"},
        {{64, 32, 4, 2, 4, 1, 511, 0, 1, 1}, "vocab"},
        {{64, 32, 4, 2, 4, 1, 512, 8, 1, 1}, "group"},
        {{64, 32, 4, 2, 4, 1, 512, 512, 1, 1}, "group"},
        {{128, 32, 4, 2, 4, 1, 512, 80, 1, 1}, "group"},
        {{128, 32, 4, 2, 4, 1, 512, 96, 1, 1}, "group"}, /* two groups of 128 columns are groups of 64 */
        {{64, 32, 4, 2, 4, 1, 512, 0, 2, 1}, "mtp"},
        {{64, 32, 4096, 2, 511, 1, 512, 0, 0, 1}, "experts"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *path = temp_dir_path(&dir, "new");
        sluice_error err = {0};
        sluice_status status = synth(path, &cases[i].geometry, &err);
        assert_error(status, &err, SLUICE_INVALID, (const char *const[]){cases[i].named, NULL});
        assert_int_equal(access(path, F_OK), -1);
    }
}

static void test_directories(void **state)
{
    (void)state;
    struct synth_geometry g = sample_geometry();
    sluice_error err = {0};
    temp_dir_write(&dir, "notes.txt", "x", 1);
    sluice_status status = synth(dir.path, &g, &err);
    assert_error(status, &err, SLUICE_INVALID, (const char *const[]){dir.path, "not empty", NULL});
    status = synth(temp_dir_path(&dir, "notes.txt"), &g, &err);
    assert_error(status, &err, SLUICE_IO, (const char *const[]){"notes.txt", "Not a directory", NULL});
    status = synth(temp_dir_path(&dir, "a/b"), &g, &err);
    assert_error(status, &err, SLUICE_IO, (const char *const[]){"a/b", "No such file", NULL});
    assert_int_equal(access(temp_dir_path(&dir, "notes.txt"), F_OK), 0);
}

static unsigned count_entries(const char *path)
{
    struct dirent **names;
    int n = scandir(path, &names, NULL, NULL);
    for (int i = 0; i < n; i++) {
        free(names[i]);
    }
    free(names);
    return n < 0 ? 0 : (unsigned)n - 2;
}

/* Nothing is left, and a directory that was there stays. */
static void test_disk_full(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 7, 100, 5000, 50000, 120000, 250000};
    struct synth_geometry g = sample_geometry();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        sluice_error err = {0};
        const char *path = temp_dir_path(&dir, "new");
        fault_disk_size(sizes[i]);
        sluice_status status = synth(path, &g, &err);
        fault_disk_size(UINT64_MAX);
        assert_error(status, &err, SLUICE_IO, (const char *const[]){"/new/", "No space left", "removed", NULL});
        assert_int_equal(access(path, F_OK), -1);

        fault_disk_size(sizes[i]);
        assert_int_equal(synth(dir.path, &g, &err), SLUICE_IO);
        fault_disk_size(UINT64_MAX);
        assert_int_equal(count_entries(dir.path), 0);
    }
}

/* ---- Tokenizer ------------------------------------------------------------------------------------- */

static void test_tokenizer(void **state)
{
    (void)state;
    temp_dir_remove(&dir);
    sample_make(&dir, NULL);
    json_t *json = json_load_file(temp_dir_path(&dir, "tokenizer.json"), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    const json_t *vocab = json_object_get(json_object_get(json, "model"), "vocab");
    assert_int_equal(json_object_size(vocab), 256);
    assert_int_equal(json_integer_value(json_object_get(vocab, "A")), 'A');
    assert_int_equal(json_integer_value(json_object_get(vocab, "\xC4\xA0")), ' '); /* U+0120 */
    assert_int_equal(json_integer_value(json_object_get(vocab, "\xC4\x8A")), '\n');
    assert_int_equal(json_integer_value(json_object_get(vocab, "\xC3\xBF")), 0xFF);
    const json_t *added = json_object_get(json, "added_tokens");
    bool found_user = false;
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *token = json_array_get(added, i);
        json_int_t id = json_integer_value(json_object_get(token, "id"));
        assert_in_range(id, 256, 511);
        found_user = found_user || strcmp(json_string_value(json_object_get(token, "content")), "<|user|>") == 0;
    }
    assert_true(found_user);
    json_decref(json);
}

int run_synth_tests(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_geometries),
        TEST(test_layout_of_public_files),
        TEST(test_real_dimensions),
        TEST(test_values_are_sane),
        TEST(test_seed),
        TEST(test_bad_geometries),
        TEST(test_directories),
        TEST(test_disk_full),
        TEST(test_tokenizer),
    };
#undef TEST
    return cmocka_run_group_tests_name("synth", tests, NULL, NULL);
}
