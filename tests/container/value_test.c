/* Reading values: widening of BF16 and F16, matrices of every kind, values that are not finite. */
#include "tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    return temp_dir_remove(&dir);
}

/* A container of one file, without any model behind it. */
struct loose {
    struct os_file file;
    struct container container;
};

static void loose_open(struct loose *loose, const void *bytes, size_t len)
{
    sluice_error err = {0};
    const char *path = temp_dir_write(&dir, "values", bytes, len);
    memset(loose, 0, sizeof(*loose));
    assert_int_equal(os_file_open(&loose->file, path, false, &err), SLUICE_OK);
    loose->container.shards = &loose->file;
    loose->container.n_shards = 1;
}

static sluice_status read_16bit(enum tensor_dtype dtype, const uint16_t *bits, size_t n, float *out, sluice_error *err)
{
    struct loose loose;
    loose_open(&loose, bits, n * sizeof(*bits));
    struct tensor_ref ref = {.name = "t", .dtype = dtype, .bytes = n * sizeof(*bits)};
    sluice_status status = container_read_f32(&loose.container, &ref, n, out, err);
    os_file_close(&loose.file);
    return status;
}

/* Value of a binary16 by its definition. */
static double half_value(unsigned half)
{
    int exponent = (int)(half >> 10 & 31);
    double fraction = (double)(half & 1023) / 1024.0;
    double magnitude = exponent == 0 ? ldexp(fraction, -14) : ldexp(1.0 + fraction, exponent - 15);
    return half & 0x8000 ? -magnitude : magnitude;
}

static void test_every_f16(void **state)
{
    (void)state;
    uint16_t *bits = calloc(65536, sizeof(*bits));
    float *out = calloc(65536, sizeof(*out));
    assert_true(bits != NULL && out != NULL);
    size_t n = 0;
    for (unsigned half = 0; half < 65536; half++) {
        if ((half >> 10 & 31) != 31) {
            bits[n++] = (uint16_t)half;
        }
    }
    sluice_error err = {0};
    assert_int_equal(read_16bit(DTYPE_F16, bits, n, out, &err), SLUICE_OK);
    for (size_t i = 0; i < n; i++) {
        assert_true((double)out[i] == half_value(bits[i]));
        assert_int_equal(signbit(out[i]) != 0, bits[i] >> 15);
    }
    free(bits);
    free(out);
}

static void test_bf16(void **state)
{
    (void)state;
    static const uint16_t bits[] = {0x3F80, 0xC000, 0x0000, 0x8000, 0x0001, 0x7F7F, 0x3E20};
    static const float expected[] = {1.0f, -2.0f, 0.0f, -0.0f, 0x1p-133f, 0x1.FEp127f, 0.15625f};
    float out[7];
    sluice_error err = {0};
    assert_int_equal(read_16bit(DTYPE_BF16, bits, 7, out, &err), SLUICE_OK);
    assert_memory_equal(out, expected, sizeof(out));
}

static void test_not_finite_16bit(void **state)
{
    (void)state;
    static const struct {
        enum tensor_dtype dtype;
        uint16_t bits;
    } cases[] = {
        {DTYPE_F16, 0x7C00}, {DTYPE_F16, 0xFC00},  {DTYPE_F16, 0x7E00},
        {DTYPE_F16, 0x7C01}, {DTYPE_BF16, 0x7F80}, {DTYPE_BF16, 0xFFC1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint16_t bits[5000] = {0};
        float out[5000];
        bits[4321] = cases[i].bits;
        sluice_error err = {0};
        sluice_status status = read_16bit(cases[i].dtype, bits, 5000, out, &err);
        assert_error(status, &err, SLUICE_NUMERIC, (const char *const[]){"tensor t: element 4321", NULL});
    }
}

static void test_misuse(void **state)
{
    (void)state;
    struct loose loose;
    float values[4] = {1, 2, 3, 4}, out[4];
    loose_open(&loose, values, sizeof(values));
    struct tensor_ref ref = {.name = "t", .dtype = DTYPE_F32, .bytes = 16};
    sluice_error err = {0};
    assert_int_equal(container_read_f32(&loose.container, &ref, 4, out, &err), SLUICE_OK);
    assert_memory_equal(out, values, sizeof(out));
    assert_int_equal(container_read_f32(&loose.container, &ref, 3, out, &err), SLUICE_INVALID);
    ref.dtype = DTYPE_U8;
    assert_int_equal(container_read_f32(&loose.container, &ref, 16, out, &err), SLUICE_INVALID);
    ref.dtype = DTYPE_F32;
    ref.offset = 8; /* the file has become shorter since it was checked */
    assert_int_equal(container_read_f32(&loose.container, &ref, 4, out, &err), SLUICE_IO);
    os_file_close(&loose.file);
}

/* ---- Matrices -------------------------------------------------------------------------------------- */

static void assert_matrix(const struct container *container, const struct stored_matrix *matrix, uint64_t bytes)
{
    assert_int_equal(stored_matrix_bytes(matrix), bytes);
    size_t weight_bytes = matrix->rows * quant_row_bytes(matrix->kind, matrix->cols);
    size_t n_scales = matrix->rows * quant_row_scales(matrix->kind, matrix->cols, matrix->group);
    void *weights = malloc(weight_bytes);
    float *scales = calloc(n_scales + 1, sizeof(*scales));
    assert_true(weights != NULL && scales != NULL);
    struct quant_matrix view;
    sluice_error err = {0};
    assert_int_equal(container_read_matrix(container, matrix, weights, scales, &view, &err), SLUICE_OK);
    assert_int_equal(view.kind, matrix->kind);
    assert_int_equal(view.rows, matrix->rows);
    assert_int_equal(view.cols, matrix->cols);
    assert_int_equal(view.group, matrix->group);
    assert_ptr_equal(view.weights, weights);
    assert_ptr_equal(view.scales, matrix->kind == QUANT_F32 ? NULL : scales);
    if (matrix->kind != QUANT_F32) {
        struct sample_shard shard;
        size_t len;
        sample_shard_find(&shard, &dir, matrix->weights.name);
        const unsigned char *data = sample_tensor_data(&shard, matrix->weights.name, &len);
        assert_int_equal(len, weight_bytes);
        assert_memory_equal(weights, data, len);
        data = sample_tensor_data(&shard, matrix->scales.name, &len);
        assert_int_equal(len, n_scales * sizeof(float));
        assert_memory_equal(scales, data, len);
        sample_shard_free(&shard);
    }
    free(weights);
    free(scales);
}

static void test_matrices(void **state)
{
    (void)state;
    temp_dir_remove(&dir);
    struct synth_geometry geometry = sample_geometry();
    geometry.group = 16;
    sample_make(&dir, &geometry);
    struct container *container = assert_opens(dir.path, NULL);
    assert_matrix(container, &container->lm_head, 512 * 64 + 512 * 4);
    assert_matrix(container, &container->layers[1].experts[2].gate, 32 * 32 + 32 * 4 * 4);
    assert_matrix(container, &container->layers[2].experts[3].down, 64 * 16 + 64 * 2 * 4);
    assert_matrix(container, &container->layers[3].router, 4 * 64 * 4);
    assert_matrix(container, &container->mtp->eh_proj, 64 * 128 + 64 * 4);
    container_close(&container);
}

static void test_bf16_matrix(void **state)
{
    (void)state;
    temp_dir_remove(&dir);
    sample_make(&dir, NULL);
    /* the same bytes as [4, 64] BF16, followed by a gap that nothing uses */
    struct sample_shard shard;
    const char *name = "model.layers.1.mlp.gate.weight";
    sample_shard_find(&shard, &dir, name);
    size_t len;
    unsigned char *data = sample_tensor_data(&shard, name, &len);
    for (size_t i = 0; i < len; i++) {
        data[i] = i % 2 == 0 ? (unsigned char)i : 0x3F;
    }
    json_int_t begin = data - shard.data;
    json_object_set_new(sample_tensor(&shard, name), "dtype", json_string("BF16"));
    json_object_set_new(sample_tensor(&shard, name), "data_offsets",
                        json_pack("[I,I]", begin, begin + (json_int_t)len / 2));
    sample_shard_save(&shard);
    struct container *container = assert_opens(dir.path, NULL);
    assert_int_equal(container->layers[1].router.kind, QUANT_F32);
    assert_int_equal(container->layers[1].router.weights.dtype, DTYPE_BF16);
    assert_matrix(container, &container->layers[1].router, 4 * 64 * 4);
    container_close(&container);
}

static void test_not_finite_scale(void **state)
{
    (void)state;
    temp_dir_remove(&dir);
    sample_make(&dir, NULL);
    const char *name = "model.layers.2.mlp.experts.1.up_proj.weight.qs";
    sample_set_value(&dir, name, 31, NAN);
    struct container *container = assert_opens(dir.path, NULL);
    const struct stored_matrix *matrix = &container->layers[2].experts[1].up;
    unsigned char weights[32 * 32];
    float scales[32];
    struct quant_matrix view = {.rows = 77};
    sluice_error err = {0};
    sluice_status status = container_read_matrix(container, matrix, weights, scales, &view, &err);
    assert_error(status, &err, SLUICE_NUMERIC, (const char *const[]){name, "element 31", ".safetensors", NULL});
    assert_int_equal(view.rows, 77);
    container_close(&container);
}

int run_value_tests(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_every_f16), TEST(test_bf16),        TEST(test_not_finite_16bit), TEST(test_misuse),
        TEST(test_matrices),  TEST(test_bf16_matrix), TEST(test_not_finite_scale),
    };
#undef TEST
    return cmocka_run_group_tests_name("values", tests, NULL, NULL);
}
