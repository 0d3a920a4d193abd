/* scores, mix, exp_sum, max, index_combine: edges of heads, positions and widths, gathered positions. */
#include "kernels/checks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/checker.h"

/* Heads against positions of one block; `gathered` addresses the positions through an index. */
struct attention_case {
    size_t heads;
    size_t n;
    size_t dim;
    bool gathered;
    enum fill fill;
};

/* Rows of a cached block and an index of n of them, ascending. */
struct positions {
    struct guarded rows;
    struct guarded index_bytes;
    const uint8_t *index;
    size_t stride;
};

static struct positions positions_make(const struct attention_case *c)
{
    struct positions positions = {.stride = c->dim + random_below(4)};
    size_t present = c->gathered ? KERNEL_POSITION_BLOCK : c->n;
    size_t count = present == 0 ? 0 : (present - 1) * positions.stride + c->dim;
    positions.rows = guarded_floats(count, GUARD_AFTER, c->fill);
    if (!c->gathered) {
        return positions;
    }
    positions.index_bytes = guarded_alloc(c->n, GUARD_AFTER);
    uint8_t *index = positions.index_bytes.data;
    size_t at = 0;
    for (size_t i = 0; i < c->n; i++) {
        at += random_below(KERNEL_POSITION_BLOCK - at - (c->n - i) + 1);
        index[i] = (uint8_t)at;
        at++;
    }
    positions.index = index;
    return positions;
}

static void positions_free(struct positions *positions)
{
    guarded_free(&positions->rows);
    guarded_free(&positions->index_bytes);
}

static void check_scores_case(const struct attention_case *c)
{
    struct positions keys = positions_make(c);
    size_t q_stride = c->dim + random_below(4);
    size_t out_stride = c->n + random_below(4);
    size_t out_count = (c->heads - 1) * out_stride + c->n;
    struct guarded q = guarded_floats((c->heads - 1) * q_stride + c->dim, GUARD_AFTER, c->fill);
    struct guarded expected = guarded_output(out_count, GUARD_AFTER);
    REFERENCE->scores(q.data, q_stride, c->heads, keys.rows.data, keys.stride, keys.index, c->n, c->dim, 0.37f,
                      expected.data, out_stride);
    for (size_t i = 0; i < VERSION_COUNT; i++) {
        if (!versions[i].available) {
            continue;
        }
        struct guarded actual = guarded_output(out_count, GUARD_AFTER);
        checker_enter("scores", versions[i].name, "heads %zu n %zu dim %zu gathered %d fill %d", c->heads, c->n, c->dim,
                      c->gathered, c->fill);
        versions[i].table.scores(q.data, q_stride, c->heads, keys.rows.data, keys.stride, keys.index, c->n, c->dim,
                                 0.37f, actual.data, out_stride);
        check_equal(expected.data, actual.data, out_count);
        guarded_free(&actual);
    }
    guarded_free(&expected);
    guarded_free(&q);
    positions_free(&keys);
}

static void check_mix_case(const struct attention_case *c)
{
    struct positions values = positions_make(c);
    size_t p_stride = c->n + random_below(4);
    size_t out_stride = c->dim + random_below(4);
    size_t out_count = (c->heads - 1) * out_stride + c->dim;
    struct guarded p = guarded_floats((c->heads - 1) * p_stride + c->n, GUARD_AFTER, c->fill);
    struct guarded expected = guarded_output(out_count, GUARD_AFTER);
    REFERENCE->mix(p.data, p_stride, c->heads, values.rows.data, values.stride, values.index, c->n, c->dim,
                   expected.data, out_stride);
    for (size_t i = 0; i < VERSION_COUNT; i++) {
        if (!versions[i].available) {
            continue;
        }
        struct guarded actual = guarded_output(out_count, GUARD_AFTER);
        checker_enter("mix", versions[i].name, "heads %zu n %zu dim %zu gathered %d fill %d", c->heads, c->n, c->dim,
                      c->gathered, c->fill);
        versions[i].table.mix(p.data, p_stride, c->heads, values.rows.data, values.stride, values.index, c->n, c->dim,
                              actual.data, out_stride);
        check_equal(expected.data, actual.data, out_count);
        guarded_free(&actual);
    }
    guarded_free(&expected);
    guarded_free(&p);
    positions_free(&values);
}

static void for_each_case(void (*check)(const struct attention_case *c))
{
    for (size_t dim = 1; dim <= 75; dim++) {
        struct attention_case c = {.heads = 1 + dim % 8,
                                   .n = 1 + random_below(12),
                                   .dim = dim,
                                   .gathered = random_below(2) != 0,
                                   .fill = dim % 5 ? FILL_PLAIN : FILL_TINY};
        check(&c);
    }
    for (int fill = 0; fill < FILL_COUNT; fill++) {
        struct attention_case c = {
            .heads = 7, .n = 11, .dim = 8 * (1 + random_below(20)), .gathered = fill % 2, .fill = (enum fill)fill};
        check(&c);
    }
    struct attention_case real[] = {
        {.heads = 16, .n = 64, .dim = 576}, {.heads = 8, .n = 63, .dim = 512, .gathered = true},
        {.heads = 32, .n = 64, .dim = 128}, {.heads = 4, .n = 64, .dim = 24, .gathered = true},
        {.heads = 3, .n = 0, .dim = 24},
    };
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        check(&real[i]);
    }
}

void check_scores(void **state)
{
    (void)state;
    for_each_case(check_scores_case);
}

/* Every lane underflows to -0, and so must the score. */
void check_scores_negative_zero(void **state)
{
    (void)state;
    enum { HEADS = 4, N = 5, DIM = 41 };
    float q[HEADS * DIM];
    float keys[N * DIM];
    float expected[HEADS * N];
    float actual[HEADS * N];
    for (size_t i = 0; i < HEADS * DIM; i++) {
        q[i] = 0x1p-100f;
    }
    for (size_t i = 0; i < N * DIM; i++) {
        keys[i] = -0x1p-100f;
    }
    for (size_t i = 0; i < HEADS * N; i++) {
        expected[i] = -0.0f;
    }
    for (size_t i = 0; i < VERSION_COUNT; i++) {
        if (versions[i].available) {
            checker_enter("scores", versions[i].name, "dim %d, -0", DIM);
            versions[i].table.scores(q, DIM, HEADS, keys, DIM, NULL, N, DIM, 0.5f, actual, N);
            check_equal(expected, actual, HEADS * N);
        }
    }
}

void check_mix(void **state)
{
    (void)state;
    for_each_case(check_mix_case);
}

void check_exp_sum(void **state)
{
    (void)state;
    for (size_t round = 0; round < 700; round++) {
        size_t n = round % 70;
        enum fill fill = (enum fill)(round / 70 % FILL_COUNT);
        struct guarded x = guarded_floats(n, GUARD_AFTER, fill);
        float max = fill == FILL_INFINITE ? INFINITY : random_float() * 40.0f;
        for (size_t i = 0; i < VERSION_COUNT; i++) {
            struct guarded expected = guarded_output(n, GUARD_AFTER);
            struct guarded actual = guarded_output(n, GUARD_AFTER);
            memcpy(expected.data, x.data, n * sizeof(float));
            memcpy(actual.data, x.data, n * sizeof(float));
            float expected_sum = REFERENCE->exp_sum(expected.data, n, max);
            if (versions[i].available) {
                checker_enter("exp_sum", versions[i].name, "n %zu fill %d max %a", n, fill, (double)max);
                float sum = versions[i].table.exp_sum(actual.data, n, max);
                check_equal(&expected_sum, &sum, 1);
                check_equal(expected.data, actual.data, n);
            }
            guarded_free(&actual);
            guarded_free(&expected);
        }
        guarded_free(&x);
    }
}

static void check_max_of(const float *x, size_t n)
{
    for (size_t i = 0; i < VERSION_COUNT; i++) {
        if (versions[i].available) {
            float expected = REFERENCE->max(x, n);
            checker_enter("max", versions[i].name, "n %zu", n);
            float actual = versions[i].table.max(x, n);
            check_equal(&expected, &actual, 1);
        }
    }
}

void check_max(void **state)
{
    (void)state;
    for (size_t round = 0; round < 700; round++) {
        size_t n = round % 70;
        struct guarded x = guarded_floats(n, GUARD_AFTER, (enum fill)(round / 70 % FILL_COUNT));
        check_max_of(x.data, n);
        guarded_free(&x);
    }
    float nan[9];
    for (size_t i = 0; i < 9; i++) {
        nan[i] = NAN;
    }
    check_max_of(nan, 9);
    assert_true(isnan(REFERENCE->max(nan, 9)));
    nan[5] = -INFINITY;
    check_max_of(nan, 9);
    assert_true(REFERENCE->max(nan, 9) == -INFINITY);
    assert_true(REFERENCE->max(nan, 0) == -INFINITY);
    float zeros[] = {-0.0f, -0.0f, 0.0f};
    check_max_of(zeros, 3);
    assert_false(signbit(REFERENCE->max(zeros, 3)));
    assert_false(signbit(REFERENCE->max(zeros, 2)));
}

void check_index_combine(void **state)
{
    (void)state;
    for (size_t round = 0; round < 300; round++) {
        size_t heads = 1 + random_below(32);
        size_t n = round % 67;
        size_t stride = n + random_below(4);
        enum fill fill = (enum fill)(round % FILL_COUNT);
        struct guarded w = guarded_floats(heads, GUARD_AFTER, fill);
        struct guarded s = guarded_floats((heads - 1) * stride + n, GUARD_AFTER, fill);
        for (size_t i = 0; i < VERSION_COUNT; i++) {
            struct guarded expected = guarded_output(n, GUARD_AFTER);
            struct guarded actual = guarded_output(n, GUARD_AFTER);
            REFERENCE->index_combine(w.data, heads, s.data, stride, n, 0.18f, expected.data);
            if (versions[i].available) {
                checker_enter("index_combine", versions[i].name, "heads %zu n %zu fill %d", heads, n, fill);
                versions[i].table.index_combine(w.data, heads, s.data, stride, n, 0.18f, actual.data);
                check_equal(expected.data, actual.data, n);
            }
            guarded_free(&actual);
            guarded_free(&expected);
        }
        guarded_free(&s);
        guarded_free(&w);
    }
}
