/* The C reference itself: against binary64 arithmetic, against the contract's lane order written a second
 * way, and against recorded bits that hold on every processor. */
#include "kernels/checks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/checker.h"

/* ---- binary64 ---- */

static double weight_as_double(const struct quant_matrix *w, size_t row, size_t col)
{
    const uint8_t *bytes = w->weights;
    size_t at = row * w->cols + col;
    switch (w->kind) {
    case QUANT_F32: {
        float value;
        memcpy(&value, bytes + 4 * at, sizeof value);
        return value;
    }
    case QUANT_INT8_ROW:
        return (double)(int8_t)bytes[at] * w->scales[row];
    case QUANT_INT4_ROW:
    case QUANT_INT4_GROUP:
        break;
    }
    int nibble = (bytes[at / 2] >> (at % 2 * 4)) & 15;
    size_t groups = w->kind == QUANT_INT4_GROUP ? (w->cols + w->group - 1) / w->group : 1;
    size_t group = w->kind == QUANT_INT4_GROUP ? col / w->group : 0;
    return (double)(nibble - 8) * w->scales[row * groups + group];
}

static void check_accuracy_of(enum quant_kind kind)
{
    enum { ROWS = 6, COLS = 328, GROUP = 24 };
    struct test_matrix test = test_matrix_make(kind, ROWS, COLS, GROUP, GUARD_AFTER, FILL_PLAIN);
    float x[COLS];
    float out[ROWS];
    float absorbed[COLS];
    float row[COLS];
    fill_floats(x, COLS, FILL_PLAIN);
    struct guarded act = guarded_alloc(kernel_act_bytes(kind, COLS, 1), GUARD_AFTER);
    REFERENCE->prepare(kind, x, COLS, 1, COLS, act.data);
    REFERENCE->matmul(&test.matrix, 0, ROWS, act.data, 1, out, ROWS);
    REFERENCE->absorb(&test.matrix, 0, ROWS, 0, COLS, x, ROWS, 1, absorbed, COLS);
    for (size_t r = 0; r < ROWS; r++) {
        double sum = 0;
        double size = 0;
        REFERENCE->dequant_row(&test.matrix, r, row);
        for (size_t c = 0; c < COLS; c++) {
            double weight = weight_as_double(&test.matrix, r, c);
            sum += weight * (double)x[c];
            size += fabs(weight * (double)x[c]);
            assert_true(fabs((double)row[c] - weight) <= 1e-7 * fabs(weight));
        }
        assert_true(fabs((double)out[r] - sum) <= 2e-6 * size);
    }
    for (size_t c = 0; c < COLS; c++) {
        double sum = 0;
        double size = 0;
        for (size_t r = 0; r < ROWS; r++) {
            sum += weight_as_double(&test.matrix, r, c) * (double)x[r];
            size += fabs(weight_as_double(&test.matrix, r, c) * (double)x[r]);
        }
        assert_true(fabs((double)absorbed[c] - sum) <= 2e-6 * size);
    }
    guarded_free(&act);
    test_matrix_free(&test);
}

static void check_norm_accuracy(void)
{
    enum { N = 77 };
    float x[N], weight[N], bias[N], rms[N], layer[N];
    double squares = 0, mean = 0, variance = 0;
    fill_floats(x, N, FILL_PLAIN);
    fill_floats(weight, N, FILL_PLAIN);
    fill_floats(bias, N, FILL_PLAIN);
    REFERENCE->rmsnorm(x, weight, N, 1e-5f, rms);
    REFERENCE->layernorm(x, weight, bias, N, 1e-6f, layer);
    for (size_t i = 0; i < N; i++) {
        squares += (double)x[i] * (double)x[i] / N;
        mean += (double)x[i] / N;
    }
    for (size_t i = 0; i < N; i++) {
        variance += ((double)x[i] - mean) * ((double)x[i] - mean) / N;
    }
    for (size_t i = 0; i < N; i++) {
        double expected = (double)x[i] / sqrt(squares + 1e-5) * (double)weight[i];
        assert_true(fabs((double)rms[i] - expected) <= 1e-6 * (fabs(expected) + 1e-3));
        expected = ((double)x[i] - mean) / sqrt(variance + 1e-6) * (double)weight[i] + (double)bias[i];
        assert_true(fabs((double)layer[i] - expected) <= 1e-6 * (fabs(expected) + 1.0));
    }
}

static void check_attention_accuracy(void)
{
    enum { HEADS = 2, N = 5, DIM = 40 };
    float q[HEADS * DIM], keys[N * DIM], scores[HEADS * N], mix[HEADS * DIM];
    fill_floats(q, HEADS * DIM, FILL_PLAIN);
    fill_floats(keys, N * DIM, FILL_PLAIN);
    REFERENCE->scores(q, DIM, HEADS, keys, DIM, NULL, N, DIM, 0.25f, scores, N);
    REFERENCE->mix(scores, N, HEADS, keys, DIM, NULL, N, DIM, mix, DIM);
    for (size_t h = 0; h < HEADS; h++) {
        for (size_t j = 0; j < N; j++) {
            double sum = 0;
            for (size_t d = 0; d < DIM; d++) {
                sum += (double)q[h * DIM + d] * (double)keys[j * DIM + d];
            }
            assert_true(fabs((double)scores[h * N + j] - 0.25 * sum) <= 1e-6 * DIM);
        }
        for (size_t d = 0; d < DIM; d++) {
            double sum = 0;
            for (size_t j = 0; j < N; j++) {
                sum += (double)scores[h * N + j] * (double)keys[j * DIM + d];
            }
            assert_true(fabs((double)mix[h * DIM + d] - sum) <= 1e-6 * N);
        }
    }
}

void check_reference_accuracy(void **state)
{
    (void)state;
    check_accuracy_of(QUANT_F32);
    check_accuracy_of(QUANT_INT8_ROW);
    check_accuracy_of(QUANT_INT4_ROW);
    check_accuracy_of(QUANT_INT4_GROUP);
    check_norm_accuracy();
    check_attention_accuracy();
}

/* ---- the order, written a second way ---- */

/* The tree as a recursion from its root: what lane i holds after the step with this offset. */
static float tree(const float lane[32], size_t i, size_t offset)
{
    if (offset == 32) {
        return lane[i];
    }
    return tree(lane, i, 2 * offset) + tree(lane, i + offset, 2 * offset);
}

static float int4_row_by_hand(const uint8_t *row, size_t words, const float *scales, size_t group, const float *x)
{
    float lane[32];
    for (size_t l = 0; l < 32; l++) {
        lane[l] = 0.0f;
        for (size_t word = l; word < words; word += 32) {
            uint32_t bits = (uint32_t)row[4 * word] | (uint32_t)row[4 * word + 1] << 8 |
                            (uint32_t)row[4 * word + 2] << 16 | (uint32_t)row[4 * word + 3] << 24;
            float part = group ? 0.0f : lane[l];
            for (size_t nibble = 0; nibble < 8; nibble++) {
                float weight = (float)((bits >> (4 * nibble)) & 15) - 8.0f;
                part = fmaf(weight, x[8 * word + nibble], part);
            }
            lane[l] = group ? fmaf(part, scales[8 * word / group], lane[l]) : part;
        }
    }
    float sum = tree(lane, 0, 1);
    return group ? sum : sum * scales[0];
}

static float int8_row_by_hand(const int8_t *row, size_t cols, float scale, const float *x)
{
    float lane[32];
    for (size_t l = 0; l < 32; l++) {
        lane[l] = 0.0f;
        for (size_t k = l; k < cols; k += 32) {
            lane[l] = fmaf((float)row[k], x[k], lane[l]);
        }
    }
    return tree(lane, 0, 1) * scale;
}

void check_reference_lane_order(void **state)
{
    (void)state;
    enum { COLS = 648, GROUP = 72 }; /* 81 words: two rounds and a half */
    float x[COLS];
    fill_floats(x, COLS, FILL_PLAIN);
    static const enum quant_kind kinds[] = {QUANT_INT8_ROW, QUANT_INT4_ROW, QUANT_INT4_GROUP};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct test_matrix test = test_matrix_make(kinds[k], 1, COLS, GROUP, GUARD_AFTER, FILL_PLAIN);
        const struct quant_matrix *w = &test.matrix;
        struct guarded act = guarded_alloc(kernel_act_bytes(kinds[k], COLS, 1), GUARD_AFTER);
        float expected = kinds[k] == QUANT_INT8_ROW ? int8_row_by_hand(w->weights, COLS, w->scales[0], x)
                                                    : int4_row_by_hand(w->weights, COLS / 8, w->scales, w->group, x);
        for (size_t i = 0; i < VERSION_COUNT; i++) {
            if (versions[i].available) {
                float actual;
                checker_enter("lane order", versions[i].name, "%s", quant_kind_name(kinds[k]));
                versions[i].table.prepare(kinds[k], x, COLS, 1, COLS, act.data);
                versions[i].table.matmul(w, 0, 1, act.data, 1, &actual, 1);
                check_equal(&expected, &actual, 1);
            }
        }
        guarded_free(&act);
        test_matrix_free(&test);
    }
}

/* ---- recorded bits ---- */

/* FNV-1a over the bits of results, little-endian. */
static uint64_t hash_floats(uint64_t hash, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        for (size_t byte = 0; byte < 4; byte++) {
            hash = (hash ^ ((bits >> (8 * byte)) & 255)) * 0x100000001B3u;
        }
    }
    return hash;
}

/* Inputs from integers alone, so that they do not depend on the seed. */
static float golden_value(size_t i)
{
    return (float)(int32_t)((uint32_t)i * 2654435761u) * 0x1p-31f;
}

static uint64_t golden_hash(const struct kernel_table *table)
{
    enum { ROWS = 3, COLS = 328, GROUP = 24 };
    static const enum quant_kind kinds[] = {QUANT_F32, QUANT_INT8_ROW, QUANT_INT4_ROW, QUANT_INT4_GROUP};
    float x[COLS], weights[ROWS * COLS], scales[ROWS * COLS], out[COLS];
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < COLS; i++) {
        x[i] = golden_value(i + 7);
    }
    for (size_t i = 0; i < ROWS * COLS; i++) {
        weights[i] = golden_value(i + 1000);
        scales[i] = golden_value(i + 5000);
    }
    for (size_t k = 0; k < 4; k++) {
        struct quant_matrix w = {kinds[k], ROWS, COLS, kinds[k] == QUANT_INT4_GROUP ? GROUP : 0, weights, scales};
        struct guarded act = guarded_alloc(kernel_act_bytes(kinds[k], COLS, 1), GUARD_AFTER);
        table->prepare(kinds[k], x, COLS, 1, COLS, act.data);
        table->matmul(&w, 0, ROWS, act.data, 1, out, ROWS);
        hash = hash_floats(hash, out, ROWS);
        table->absorb(&w, 0, ROWS, 0, COLS, x, ROWS, 1, out, COLS);
        hash = hash_floats(hash, out, COLS);
        guarded_free(&act);
    }
    table->rmsnorm(x, weights, COLS, 1e-5f, out);
    hash = hash_floats(hash, out, COLS);
    table->layernorm(x, weights, scales, COLS, 1e-6f, out);
    hash = hash_floats(hash, out, COLS);
    table->silu_mul(x, weights, COLS, out);
    hash = hash_floats(hash, out, COLS);
    float sum = table->exp_sum(x, COLS, 1.0f);
    hash = hash_floats(hash, &sum, 1);
    return hash_floats(hash, x, COLS);
}

void check_reference_golden(void **state)
{
    (void)state;
    for (size_t i = 0; i < VERSION_COUNT; i++) {
        if (versions[i].available) {
            assert_int_equal(golden_hash(&versions[i].table), 0x975827D891C073FDu);
        }
    }
}

void check_act_bytes(void **state)
{
    (void)state;
    assert_int_equal(kernel_act_bytes(QUANT_INT4_ROW, 8, 1) % 64, 0);
    assert_true(kernel_act_bytes(QUANT_INT4_ROW, 264, 1) >= 512 * sizeof(float));
    assert_int_equal(kernel_act_bytes(QUANT_INT8_ROW, 33, 5), 5 * kernel_act_bytes(QUANT_INT8_ROW, 33, 1));
    assert_int_equal(kernel_act_bytes(QUANT_F32, 32, 0), 0);
    assert_true(kernel_act_bytes(QUANT_F32, 4096, SIZE_MAX / 64) >= SIZE_MAX / 64 * 64);
    assert_true(kernel_act_bytes(QUANT_F32, SIZE_MAX - 3, 1) >= SIZE_MAX / 64 * 64);
}
