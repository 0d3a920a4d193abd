/* The CPU device against the plain evaluation: every mix of kinds, batch widths, gathered and scattered rows, shared
 * inputs and numbers of threads must give the same bits; calls that do not fit are refused with nothing written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/cpu/cpu_device.h"
#include "device/reference.h"
#include "os/cpu.h"
#include "support/fault_alloc.h"

#define HIDDEN 72
#define MIDDLE 104
#define ROWS_MAX 80 /* rows of x and of out in every case */

static const enum quant_kind kinds[] = {QUANT_F32, QUANT_INT8_ROW, QUANT_INT4_ROW, QUANT_INT4_GROUP};

static struct expert_weights make_expert(enum quant_kind gate, enum quant_kind up, enum quant_kind down,
                                         uint32_t hidden, uint32_t middle, uint64_t *seed)
{
    struct expert_weights w;
    reference_matrix_make(&w.gate, gate, middle, hidden, gate == QUANT_INT4_GROUP ? 16 : 0, seed);
    reference_matrix_make(&w.up, up, middle, hidden, up == QUANT_INT4_GROUP ? 32 : 0, seed);
    reference_matrix_make(&w.down, down, hidden, middle, down == QUANT_INT4_GROUP ? 16 : 0, seed);
    return w;
}

static void free_expert(struct expert_weights *w)
{
    reference_matrix_free(&w->gate);
    reference_matrix_free(&w->up);
    reference_matrix_free(&w->down);
}

/* What most tests stand on: x, and the tables of every level this machine has. */
struct fixture {
    float x[ROWS_MAX * HIDDEN];
    float out[ROWS_MAX * HIDDEN], expected[ROWS_MAX * HIDDEN];
    struct kernel_table tables[2];
    size_t n_tables;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    uint64_t seed = 7;
    for (size_t i = 0; i < ROWS_MAX * HIDDEN; i++) {
        f->x[i] = reference_random_float(&seed) * 3.0f;
    }
    kernel_table_init(&f->tables[f->n_tables++], 0);
    if (cpu_features() != 0) {
        kernel_table_init(&f->tables[f->n_tables++], cpu_features());
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static void clear_out(struct fixture *f)
{
    memset(f->out, 0x5A, sizeof f->out);
    memset(f->expected, 0x5A, sizeof f->expected);
}

/* Row i of a block by the plain evaluation into `expected`. */
static void expect_rows(struct fixture *f, const struct device_block *block)
{
    for (size_t i = 0; i < block->m; i++) {
        size_t in = block->rows != NULL ? block->rows[i] : i;
        size_t out = block->out_rows != NULL ? block->out_rows[i] : i;
        float *expected = f->expected + (block->out - f->out) + out * block->out_stride;
        reference_block(&block->weights, block->x + in * block->x_stride, expected);
    }
}

static void run_everywhere(struct fixture *f, const struct device_block *blocks, size_t n)
{
    struct cpu_device_limits limits = {
        .max_rows = ROWS_MAX, .max_blocks = 12, .max_hidden = HIDDEN, .max_intermediate = MIDDLE};
    clear_out(f);
    for (size_t i = 0; i < n; i++) {
        expect_rows(f, &blocks[i]);
    }
    for (size_t level = 0; level < f->n_tables; level++) {
        for (unsigned threads = 1; threads <= 3; threads++) {
            struct thread_pool *pool = NULL;
            struct device *device = NULL;
            assert_int_equal(thread_pool_open(&pool, threads, NULL), SLUICE_OK);
            assert_int_equal(cpu_device_open(&device, &f->tables[level], pool, &limits, NULL), SLUICE_OK);
            memset(f->out, 0x5A, sizeof f->out);
            assert_int_equal(device_run_blocks(device, blocks, n, NULL), SLUICE_OK);
            assert_memory_equal(f->out, f->expected, sizeof f->out);
            device_close(&device);
            assert_null(device);
            thread_pool_close(&pool);
        }
    }
}

static void test_every_kind_alone(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 11;
    for (size_t gate = 0; gate < 4; gate++) {
        for (size_t up = 0; up < 4; up++) {
            struct expert_weights w =
                make_expert(kinds[gate], kinds[up], kinds[(gate + up) % 4], HIDDEN, MIDDLE, &seed);
            struct device_block block = {
                .weights = w, .x = f->x, .x_stride = HIDDEN, .m = 3, .out = f->out, .out_stride = HIDDEN};
            run_everywhere(f, &block, 1);
            free_expert(&w);
        }
    }
}

static void test_every_width(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 12;
    struct expert_weights w = make_expert(QUANT_INT4_ROW, QUANT_INT4_ROW, QUANT_INT4_ROW, HIDDEN, MIDDLE, &seed);
    for (size_t m = 1; m <= 33; m += m < 9 ? 1 : 4) {
        struct device_block block = {
            .weights = w, .x = f->x, .x_stride = HIDDEN, .m = m, .out = f->out, .out_stride = HIDDEN};
        run_everywhere(f, &block, 1);
    }
    free_expert(&w);
}

/* One token and its experts share one prepared input; a shared expert of another kind and size does not. */
static void test_one_token_many_experts(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 13;
    struct expert_weights w[9];
    struct device_block blocks[9];
    uint32_t in = 5, out[9];
    for (uint32_t i = 0; i < 9; i++) {
        enum quant_kind kind = i == 4 ? QUANT_INT8_ROW : QUANT_INT4_ROW;
        w[i] = make_expert(kind, kind, kind, HIDDEN, i == 4 ? 48 : MIDDLE, &seed);
        out[i] = 40 - 3 * i;
        blocks[i] = (struct device_block){.weights = w[i],
                                          .x = f->x,
                                          .x_stride = HIDDEN,
                                          .rows = &in,
                                          .m = 1,
                                          .out = f->out,
                                          .out_stride = HIDDEN,
                                          .out_rows = &out[i]};
    }
    run_everywhere(f, blocks, 9);
    for (size_t i = 0; i < 9; i++) {
        free_expert(&w[i]);
    }
}

/* Rows gathered from all over and scattered to all over, as routing does; two blocks gather the same rows. */
static void test_gather_and_scatter(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 14;
    static const uint32_t in_a[] = {3, 1, 4, 15, 9}, in_b[] = {0, 1, 2, 3, 4, 5, 7}, in_d[] = {20, 21, 22};
    static const uint32_t out_a[] = {70, 2, 33, 5, 41}, out_b[] = {7, 9, 8, 11, 10, 13, 12};
    static const uint32_t out_c[] = {20, 24, 28, 32, 36}, out_d[] = {50, 51, 52};
    struct expert_weights w[4];
    for (size_t i = 0; i < 4; i++) {
        w[i] = make_expert(kinds[(i + 1) % 4], kinds[(i + 1) % 4], kinds[(i + 2) % 4], HIDDEN,
                           MIDDLE - 16 * (uint32_t)i, &seed);
    }
    struct device_block base = {.x = f->x, .x_stride = HIDDEN, .out = f->out, .out_stride = HIDDEN};
    struct device_block blocks[4] = {base, base, base, base};
    for (size_t i = 0; i < 4; i++) {
        blocks[i].weights = w[i];
    }
    blocks[0].rows = in_a, blocks[0].out_rows = out_a, blocks[0].m = 5;
    blocks[1].rows = in_a, blocks[1].out_rows = out_c, blocks[1].m = 5;
    blocks[2].rows = in_b, blocks[2].out_rows = out_b, blocks[2].m = 7;
    blocks[3].rows = in_d, blocks[3].out_rows = out_d, blocks[3].m = 3;
    run_everywhere(f, blocks, 4);
    blocks[1].weights = w[0]; /* now with the kinds of the first one too: its input is shared */
    run_everywhere(f, blocks, 4);
    for (size_t i = 0; i < 4; i++) {
        free_expert(&w[i]);
    }
}

static void test_strides(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 15;
    static const uint32_t in[] = {6, 0, 2}, out[] = {3, 9, 1};
    struct expert_weights w = make_expert(QUANT_INT4_GROUP, QUANT_INT4_GROUP, QUANT_INT8_ROW, 32, 40, &seed);
    struct device_block block = {.weights = w,
                                 .x = f->x + 1,
                                 .x_stride = 77,
                                 .rows = in,
                                 .m = 3,
                                 .out = f->out + 3,
                                 .out_stride = 35,
                                 .out_rows = out};
    run_everywhere(f, &block, 1);
    free_expert(&w);
}

/* As many blocks and rows as the limits allow, of the widest size, each with its own scattered rows. */
static void test_full_scratch(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 16;
    struct expert_weights w = make_expert(QUANT_F32, QUANT_INT4_ROW, QUANT_INT4_GROUP, HIDDEN, MIDDLE, &seed);
    uint32_t in[ROWS_MAX], out[ROWS_MAX];
    struct device_block blocks[12];
    for (uint32_t i = 0; i < ROWS_MAX; i++) {
        in[i] = (i * 37 + 11) % ROWS_MAX;
        out[i] = (i * 23 + 5) % ROWS_MAX;
    }
    for (size_t i = 0, row = 0; i < 12; i++) {
        size_t m = i < 11 ? 6 : ROWS_MAX - row;
        blocks[i] = (struct device_block){.weights = w,
                                          .x = f->x,
                                          .x_stride = HIDDEN,
                                          .rows = in + row,
                                          .m = m,
                                          .out = f->out,
                                          .out_stride = HIDDEN,
                                          .out_rows = out + row};
        row += m;
    }
    run_everywhere(f, blocks, 12);
    free_expert(&w);
}

static void refuse(struct device *device, struct fixture *f, const struct device_block *blocks, size_t n,
                   const char *word)
{
    sluice_error err = {0};
    clear_out(f);
    assert_int_equal(device_run_blocks(device, blocks, n, &err), SLUICE_INVALID);
    assert_non_null(strstr(err.message, word));
    assert_memory_equal(f->out, f->expected, sizeof f->out);
}

static void test_refusals(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 17;
    struct cpu_device_limits limits = {.max_rows = 4, .max_blocks = 2, .max_hidden = 64, .max_intermediate = 64};
    struct thread_pool *pool = NULL;
    struct device *device = NULL;
    sluice_error err = {0};
    assert_int_equal(thread_pool_open(&pool, 2, NULL), SLUICE_OK);
    assert_int_equal(cpu_device_open(&device, &f->tables[0], pool, &limits, NULL), SLUICE_OK);
    struct expert_weights w = make_expert(QUANT_INT8_ROW, QUANT_INT8_ROW, QUANT_INT8_ROW, 64, 64, &seed);
    struct device_block good = {.weights = w, .x = f->x, .x_stride = 64, .m = 2, .out = f->out, .out_stride = 64};
    struct device_block blocks[3] = {good, good, good};
    refuse(device, f, blocks, 3, "3 blocks");
    blocks[1].m = 3;
    refuse(device, f, blocks, 2, "more than 4 rows");
    blocks[1].m = SIZE_MAX;
    refuse(device, f, blocks, 2, "more than 4 rows");
    blocks[1].m = 0;
    refuse(device, f, blocks, 2, "block 1");
    blocks[1] = good;
    blocks[1].weights.down.cols = 56;
    refuse(device, f, blocks, 2, "block 1");
    blocks[1] = good;
    blocks[1].weights.gate.cols = blocks[1].weights.up.cols = blocks[1].weights.down.rows = 72;
    refuse(device, f, blocks, 2, "block 1");
    assert_int_equal(device_run_blocks(device, blocks, 0, NULL), SLUICE_OK);
    device_close(&device);
    device_close(&device);
    limits.max_rows = 0;
    assert_int_equal(cpu_device_open(&device, &f->tables[0], pool, &limits, &err), SLUICE_INVALID);
    limits.max_rows = SIZE_MAX / 8;
    assert_int_equal(cpu_device_open(&device, &f->tables[0], pool, &limits, &err), SLUICE_NO_MEMORY);
    assert_null(device);
    free_expert(&w);
    thread_pool_close(&pool);
}

static void test_memory_is_what_was_announced(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 18;
    struct cpu_device_limits limits = {.max_rows = 9, .max_blocks = 3, .max_hidden = 72, .max_intermediate = 40};
    struct thread_pool *pool = NULL;
    struct device *device = NULL;
    assert_int_equal(thread_pool_open(&pool, 2, NULL), SLUICE_OK);
    fault_alloc_fail(-1);
    assert_int_equal(cpu_device_open(&device, &f->tables[0], pool, &limits, NULL), SLUICE_OK);
    assert_int_equal(fault_alloc_bytes(), cpu_device_bytes(&limits));
    int allocations = fault_alloc_count();

    struct expert_weights w = make_expert(QUANT_INT4_ROW, QUANT_INT4_ROW, QUANT_INT4_ROW, 72, 40, &seed);
    struct device_block block = {.weights = w, .x = f->x, .x_stride = 72, .m = 9, .out = f->out, .out_stride = 72};
    fault_alloc_fail(-1);
    assert_int_equal(device_run_blocks(device, &block, 1, NULL), SLUICE_OK);
    assert_int_equal(fault_alloc_count(), 0);
    free_expert(&w);
    device_close(&device);

    for (int i = 0; i < allocations; i++) {
        sluice_error err = {0};
        fault_alloc_fail(i);
        assert_int_equal(cpu_device_open(&device, &f->tables[0], pool, &limits, &err), SLUICE_NO_MEMORY);
        assert_null(device);
    }
    fault_alloc_fail(-1);
    thread_pool_close(&pool);
}

/* Products of one input: kinds mixed, sizes below and above a chunk. */
static void run_linear(struct fixture *f, const struct quant_matrix *w, size_t n, size_t m, unsigned threads,
                       const struct kernel_table *table)
{
    struct cpu_linear products[5];
    size_t act_bytes = 0;
    for (int kind = QUANT_F32; kind <= QUANT_INT4_GROUP; kind++) {
        act_bytes += kernel_act_bytes((enum quant_kind)kind, HIDDEN, m);
    }
    void *act = aligned_alloc(64, act_bytes);
    struct thread_pool *pool = NULL;
    assert_int_equal(thread_pool_open(&pool, threads, NULL), SLUICE_OK);
    for (size_t i = 0; i < n; i++) {
        size_t stride = w[i].rows + i; /* a gap that must stay as it is */
        products[i] = (struct cpu_linear){.w = &w[i], .out = malloc(m * stride * sizeof(float)), .out_stride = stride};
        memset(products[i].out, 0x5A, m * stride * sizeof(float));
    }
    fault_alloc_fail(-1);
    cpu_linear_run(table, pool, products, n, f->x, HIDDEN, m, act);
    assert_int_equal(fault_alloc_count(), 0);
    for (size_t i = 0; i < n; i++) {
        size_t stride = products[i].out_stride;
        float *expected = malloc(m * stride * sizeof(float));
        memset(expected, 0x5A, m * stride * sizeof(float));
        for (size_t row = 0; row < m; row++) {
            reference_matmul(&w[i], f->x + row * HIDDEN, expected + row * stride);
        }
        assert_memory_equal(products[i].out, expected, m * stride * sizeof(float));
        free(expected);
        free(products[i].out);
    }
    thread_pool_close(&pool);
    free(act);
}

static void test_linear(void **state)
{
    struct fixture *f = *state;
    uint64_t seed = 19;
    static const uint32_t rows[] = {5, 160, 16, 33, 1};
    struct quant_matrix w[5];
    for (size_t i = 0; i < 5; i++) {
        enum quant_kind kind = kinds[(i + 2) % 4];
        reference_matrix_make(&w[i], kind, rows[i], HIDDEN, kind == QUANT_INT4_GROUP ? 16 : 0, &seed);
    }
    for (size_t level = 0; level < f->n_tables; level++) {
        for (unsigned threads = 1; threads <= 3; threads++) {
            for (size_t m = 1; m <= 17; m += 4) {
                run_linear(f, w, 5, m, threads, &f->tables[level]);
                run_linear(f, w, 1, m, threads, &f->tables[level]);
            }
        }
    }
    for (size_t i = 0; i < 5; i++) {
        reference_matrix_free(&w[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_kind_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_width, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_token_many_experts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gather_and_scatter, setup, teardown),
        cmocka_unit_test_setup_teardown(test_strides, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_scratch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_is_what_was_announced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_linear, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
