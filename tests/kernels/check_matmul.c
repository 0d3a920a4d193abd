/* prepare + matmul, absorb, dequant_row: every kind of weights, widths around the lane rounds, batches,
 * split ranges, hostile values. */
#include "kernels/checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/checker.h"

static const enum quant_kind kinds[] = {QUANT_F32, QUANT_INT8_ROW, QUANT_INT4_ROW, QUANT_INT4_GROUP};
#define KIND_COUNT (sizeof kinds / sizeof *kinds)

/* One product: m input rows by all rows of a matrix, as two ranges of rows. */
struct product {
    enum quant_kind kind;
    uint32_t rows;
    uint32_t cols;
    uint32_t group;
    size_t m;
    enum fill x_fill;
    enum fill weight_fill;
    enum guard_side side;
};

static void run_matmul(const struct kernel_table *table, const struct product *p, const struct quant_matrix *w,
                       const float *x, size_t x_stride, size_t split, float *out, size_t out_stride)
{
    struct guarded act = guarded_alloc(kernel_act_bytes(p->kind, p->cols, p->m), p->side);
    table->prepare(p->kind, x, x_stride, p->m, p->cols, act.data);
    table->matmul(w, 0, split, act.data, p->m, out, out_stride);
    table->matmul(w, split, p->rows, act.data, p->m, out, out_stride);
    guarded_free(&act);
}

static void check_product(const struct product *p)
{
    struct test_matrix test = test_matrix_make(p->kind, p->rows, p->cols, p->group, p->side, p->weight_fill);
    size_t x_stride = p->cols + random_below(5);
    size_t out_stride = p->rows + random_below(5);
    size_t x_count = (p->m - 1) * x_stride + p->cols;
    size_t out_count = (p->m - 1) * out_stride + p->rows;
    struct guarded x = guarded_floats(x_count, p->side, p->x_fill);
    struct guarded expected = guarded_output(out_count, p->side);
    checker_enter("matmul", "c", "%s", "reference");
    run_matmul(REFERENCE, p, &test.matrix, x.data, x_stride, p->rows, expected.data, out_stride);
    for (size_t i = 0; i < VERSION_COUNT; i++) {
        if (!versions[i].available) {
            continue;
        }
        size_t split = random_below(p->rows + 1);
        struct guarded actual = guarded_output(out_count, p->side);
        checker_enter("matmul", versions[i].name, "%s %ux%u group %u m %zu split %zu fills %d %d",
                      quant_kind_name(p->kind), p->rows, p->cols, p->group, p->m, split, p->x_fill, p->weight_fill);
        run_matmul(&versions[i].table, p, &test.matrix, x.data, x_stride, split, actual.data, out_stride);
        check_equal(expected.data, actual.data, out_count);
        guarded_free(&actual);
    }
    guarded_free(&expected);
    guarded_free(&x);
    test_matrix_free(&test);
}

static uint32_t random_group(void)
{
    static const uint32_t groups[] = {8, 16, 24, 32, 64, 72, 128, 256, 1000};
    return groups[random_below(sizeof groups / sizeof *groups)];
}

/* Every width that ends differently in its last round, and a few rounds of each. */
void check_matmul_widths(void **state)
{
    (void)state;
    for (size_t k = 0; k < KIND_COUNT; k++) {
        bool int4 = kinds[k] == QUANT_INT4_ROW || kinds[k] == QUANT_INT4_GROUP;
        uint32_t step = int4 ? 8 : 1;
        uint32_t last = int4 ? 560 : 100;
        for (uint32_t cols = step; cols <= last; cols += step) {
            struct product p = {.kind = kinds[k],
                                .rows = (uint32_t)(1 + random_below(5)),
                                .cols = cols,
                                .group = random_group(),
                                .m = 1 + random_below(6),
                                .x_fill = cols % 3 ? FILL_PLAIN : FILL_TINY,
                                .side = cols % 2 ? GUARD_AFTER : GUARD_BEFORE};
            check_product(&p);
            p.m = 1;
            p.side = GUARD_AFTER;
            check_product(&p);
        }
    }
}

/* Batches of 1 to 17 rows and of 64: the reference computes each row alone. */
void check_matmul_batches(void **state)
{
    (void)state;
    for (size_t k = 0; k < KIND_COUNT; k++) {
        for (size_t m = 1; m <= 18; m++) {
            struct product p = {.kind = kinds[k],
                                .rows = (uint32_t)(10 + random_below(20)),
                                .cols = (uint32_t)(8 * (1 + random_below(80))),
                                .group = random_group(),
                                .m = m == 18 ? 64 : m,
                                .side = GUARD_AFTER};
            check_product(&p);
            p.x_fill = FILL_TINY; /* some rows take the plain path */
            p.cols = 8;
            check_product(&p);
        }
    }
}

/* Each hostile filling of inputs against each of weights and scales. */
void check_matmul_hostile(void **state)
{
    (void)state;
    for (size_t k = 0; k < KIND_COUNT; k++) {
        for (int x_fill = 0; x_fill < FILL_COUNT; x_fill++) {
            for (int weight_fill = 0; weight_fill < FILL_COUNT; weight_fill++) {
                struct product p = {.kind = kinds[k],
                                    .rows = 5,
                                    .cols = (uint32_t)(8 * (1 + random_below(50))),
                                    .group = random_group(),
                                    .m = 1 + random_below(5),
                                    .x_fill = (enum fill)x_fill,
                                    .weight_fill = (enum fill)weight_fill,
                                    .side = GUARD_AFTER};
                check_product(&p);
                p.m = 1;
                check_product(&p);
            }
        }
    }
}

/* Widths of the real model, few rows of them. */
void check_matmul_real(void **state)
{
    (void)state;
    static const uint32_t widths[] = {512, 2048, 6144, 12288, 16384};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        for (size_t k = 0; k < KIND_COUNT; k++) {
            struct product p = {.kind = kinds[k],
                                .rows = 5,
                                .cols = widths[i],
                                .group = 128,
                                .m = 1,
                                .x_fill = FILL_PLAIN,
                                .side = GUARD_AFTER};
            check_product(&p);
            p.rows = 4;
            p.m = 5;
            check_product(&p);
        }
    }
}

/* Every lane underflows to -0, and so must the sum: padding may not turn a lane into +0. */
static void check_negative_zero_of(enum quant_kind kind, uint32_t cols, size_t m)
{
    enum { ROWS = 5 };
    struct test_matrix test = test_matrix_make(kind, ROWS, cols, 64, GUARD_AFTER, FILL_PLAIN);
    bool f32 = kind == QUANT_F32;
    size_t scales = ROWS * quant_row_scales(kind, cols, 64);
    float *tiny = f32 ? test.weights.data : test.scales.data;
    for (size_t i = 0; i < (f32 ? ROWS * (size_t)cols : scales); i++) {
        tiny[i] = -0x1p-100f;
    }
    if (!f32) {
        memset(test.weights.data, 0x99, test.weights.size); /* every weight is +1 */
    }
    struct guarded x = guarded_floats(m * cols, GUARD_AFTER, FILL_PLAIN);
    for (size_t i = 0; i < m * cols; i++) {
        ((float *)x.data)[i] = 0x1p-100f;
    }
    float expected[ROWS * 6];
    float actual[ROWS * 6];
    struct product p = {.kind = kind, .rows = ROWS, .cols = cols, .m = m};
    for (size_t i = 0; i < ROWS * m; i++) {
        expected[i] = -0.0f;
    }
    for (size_t i = 0; i < VERSION_COUNT; i++) {
        if (versions[i].available) {
            checker_enter("matmul", versions[i].name, "%s cols %u m %zu, -0", quant_kind_name(kind), cols, m);
            run_matmul(&versions[i].table, &p, &test.matrix, x.data, cols, ROWS, actual, ROWS);
            check_equal(expected, actual, ROWS * m);
        }
    }
    guarded_free(&x);
    test_matrix_free(&test);
}

void check_matmul_negative_zero(void **state)
{
    (void)state;
    for (size_t m = 1; m <= 6; m++) {
        check_negative_zero_of(QUANT_F32, 32, m);
        check_negative_zero_of(QUANT_F32, 41, m);
        check_negative_zero_of(QUANT_INT4_GROUP, 256, m);
        check_negative_zero_of(QUANT_INT4_GROUP, 264, m);
    }
}

/* ---- absorb ---- */

struct absorption {
    enum quant_kind kind;
    uint32_t cols;
    uint32_t group;
    size_t n;
    size_t m;
    enum fill x_fill;
    enum fill weight_fill;
};

static void check_absorption(const struct absorption *p)
{
    size_t row0 = random_below(4);
    uint32_t rows = (uint32_t)(row0 + p->n);
    struct test_matrix test = test_matrix_make(p->kind, rows, p->cols, p->group, GUARD_AFTER, p->weight_fill);
    size_t x_stride = p->n + random_below(5);
    size_t out_stride = p->cols + random_below(5);
    size_t out_count = (p->m - 1) * out_stride + p->cols;
    size_t begin = 8 * random_below(p->cols / 8 + 1);
    size_t end = begin + 8 * random_below((p->cols - begin) / 8 + 1);
    if (random_below(2)) {
        begin = 0;
        end = p->cols;
    }
    struct guarded x = guarded_floats((p->m - 1) * x_stride + p->n, GUARD_AFTER, p->x_fill);
    struct guarded expected = guarded_output(out_count, GUARD_AFTER);
    REFERENCE->absorb(&test.matrix, row0, p->n, begin, end, x.data, x_stride, p->m, expected.data, out_stride);
    for (size_t i = 0; i < VERSION_COUNT; i++) {
        if (!versions[i].available) {
            continue;
        }
        size_t split = begin + 8 * random_below((end - begin) / 8 + 1);
        struct guarded actual = guarded_output(out_count, GUARD_AFTER);
        checker_enter("absorb", versions[i].name, "%s n %zu cols %zu..%zu..%zu of %u group %u m %zu fills %d %d",
                      quant_kind_name(p->kind), p->n, begin, split, end, p->cols, p->group, p->m, p->x_fill,
                      p->weight_fill);
        const struct kernel_table *table = &versions[i].table;
        table->absorb(&test.matrix, row0, p->n, begin, split, x.data, x_stride, p->m, actual.data, out_stride);
        table->absorb(&test.matrix, row0, p->n, split, end, x.data, x_stride, p->m, actual.data, out_stride);
        check_equal(expected.data, actual.data, out_count);
        guarded_free(&actual);
    }
    guarded_free(&expected);
    guarded_free(&x);
    test_matrix_free(&test);
}

void check_absorb(void **state)
{
    (void)state;
    for (size_t k = 0; k < KIND_COUNT; k++) {
        for (uint32_t cols = 8; cols <= 200; cols += 8) {
            struct absorption p = {.kind = kinds[k],
                                   .cols = cols,
                                   .group = random_group(),
                                   .n = 1 + random_below(40),
                                   .m = 1,
                                   .x_fill = cols % 3 ? FILL_PLAIN : FILL_TINY};
            check_absorption(&p);
            p.m = 1 + random_below(7);
            check_absorption(&p);
        }
        struct absorption real = {.kind = kinds[k], .cols = 512, .group = 128, .n = 192, .m = 1};
        check_absorption(&real);
        real.m = 18;
        real.n = 33;
        check_absorption(&real);
        real.m = 1;
        real.n = 9;
        real.cols = 2056;
        check_absorption(&real);
    }
}

void check_absorb_hostile(void **state)
{
    (void)state;
    for (size_t k = 0; k < KIND_COUNT; k++) {
        for (int x_fill = 0; x_fill < FILL_COUNT; x_fill++) {
            for (int weight_fill = 0; weight_fill < FILL_COUNT; weight_fill++) {
                struct absorption p = {.kind = kinds[k],
                                       .cols = (uint32_t)(8 * (1 + random_below(20))),
                                       .group = random_group(),
                                       .n = 1 + random_below(20),
                                       .m = 1,
                                       .x_fill = (enum fill)x_fill,
                                       .weight_fill = (enum fill)weight_fill};
                check_absorption(&p);
                p.m = 1 + random_below(5);
                check_absorption(&p);
            }
        }
    }
}

void check_dequant_row(void **state)
{
    (void)state;
    for (size_t k = 0; k < KIND_COUNT; k++) {
        bool int4 = kinds[k] == QUANT_INT4_ROW || kinds[k] == QUANT_INT4_GROUP;
        for (uint32_t cols = 8; cols <= 136; cols += int4 ? 8 : 4) {
            enum fill fill = (enum fill)random_below(FILL_COUNT);
            struct test_matrix test = test_matrix_make(kinds[k], 3, cols, random_group(), GUARD_AFTER, fill);
            for (size_t i = 0; i < VERSION_COUNT; i++) {
                struct guarded expected = guarded_output(cols, GUARD_AFTER);
                struct guarded actual = guarded_output(cols, GUARD_AFTER);
                checker_enter("dequant_row", versions[i].name, "%s cols %u", quant_kind_name(kinds[k]), cols);
                REFERENCE->dequant_row(&test.matrix, 2, expected.data);
                if (versions[i].available) {
                    versions[i].table.dequant_row(&test.matrix, 2, actual.data);
                    check_equal(expected.data, actual.data, cols);
                }
                guarded_free(&actual);
                guarded_free(&expected);
            }
            test_matrix_free(&test);
        }
    }
}
