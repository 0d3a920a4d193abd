/* The parts of the graph that need no weights: rotary table, selection, layout and limits of the cache. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/rope.h"
#include "model/select.h"

/* ---- rope ---- */

static void test_frequency(void **state)
{
    (void)state;
    static const double thetas[] = {10000.0, 1e6, 8e6, 1.5, 1e12};
    for (size_t t = 0; t < sizeof(thetas) / sizeof(thetas[0]); t++) {
        for (size_t j = 0; j < 32; j++) {
            double expected = pow(thetas[t], -2.0 * (double)j / 64.0);
            assert_true(fabs(rope_frequency(thetas[t], j, 64) - expected) <= 8e-15 * expected);
        }
        assert_true(rope_frequency(thetas[t], 0, 64) == 1.0);
    }
}

static void test_sine_cosine(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 200000; i++) {
        double angle = i < 1000 ? i * 0.01 : (double)(i * 2654435761u % 1048576u) + i * 1e-6;
        double s, c;
        rope_sine_cosine(angle, &s, &c);
        double tolerance = 1e-15 + angle * 1e-16;
        assert_true(fabs(s - sin(angle)) <= tolerance);
        assert_true(fabs(c - cos(angle)) <= tolerance);
    }
}

/* The table is part of the numerics contract: these bits must never change, on any processor. */
static void test_table_bits(void **state)
{
    (void)state;
    struct thread_pool *pool;
    struct rope_table table;
    sluice_error err;
    assert_int_equal(thread_pool_open(&pool, 2, &err), SLUICE_OK);
    assert_int_equal(rope_table_open(&table, 4096, 64, 8e6, pool, &err), SLUICE_OK);
    uint64_t hash = 14695981039346656037u; /* FNV-1a over the words of both tables */
    for (size_t i = 0; i < 4096 * 32; i++) {
        uint32_t words[2];
        memcpy(&words[0], &table.cosine[i], 4);
        memcpy(&words[1], &table.sine[i], 4);
        hash = (hash ^ words[0]) * 1099511628211u;
        hash = (hash ^ words[1]) * 1099511628211u;
    }
    assert_true(table.cosine[0] == 1.0f && table.sine[0] == 0.0f);
    assert_int_equal(hash, 0x56744405e0205017u);
    rope_table_close(&table);
    thread_pool_close(&pool);
}

/* ---- selection ---- */

static uint32_t random_state = 1;

static uint32_t next_random(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

/* Positions by their plain definition: the k-th place goes to the highest score, the lower position among equals. */
static void select_plainly(const float *scores, size_t n, size_t k, uint8_t *selected)
{
    memset(selected, 0, n);
    for (size_t taken = 0; taken < k; taken++) {
        size_t best = n;
        for (size_t i = 0; i < n; i++) {
            if (!selected[i] && (best == n || scores[i] > scores[best])) {
                best = i;
            }
        }
        selected[best] = 1;
    }
}

#define SELECT_MOST 300

static void check_positions(const float *scores, size_t n, size_t k)
{
    uint8_t expected[SELECT_MOST];
    uint32_t positions[SELECT_MOST];
    size_t next = 0;
    select_plainly(scores, n, k, expected);
    select_positions(scores, n, k, positions);
    for (uint32_t i = 0; i < n; i++) {
        if (expected[i]) {
            assert_int_equal(positions[next++], i);
        }
    }
    assert_int_equal(next, k);
}

static void test_positions(void **state)
{
    (void)state;
    float scores[SELECT_MOST];
    for (size_t round = 0; round < 400; round++) {
        size_t n = 1 + next_random() % SELECT_MOST;
        unsigned distinct = 1 + next_random() % (round % 2 ? 5 : 10000); /* many ties in every other round */
        for (size_t i = 0; i < n; i++) {
            scores[i] = ((float)(next_random() % distinct) - (float)distinct / 2) * (round % 3 ? 1.0f : 1e-42f);
        }
        check_positions(scores, n, 1 + next_random() % n);
        check_positions(scores, n, n);
    }
}

static void test_positions_special(void **state)
{
    (void)state;
    const float zeros[] = {-0.0f, 0.0f, -0.0f, 0.0f, -1.0f};
    const float ends[] = {INFINITY, -INFINITY, 3e38f, -3e38f, 1e-45f, -1e-45f, 0.0f};
    check_positions(zeros, 5, 2);
    for (size_t k = 1; k <= 7; k++) {
        check_positions(ends, 7, k);
    }
    const float broken[] = {NAN, 1.0f, -NAN, 2.0f}; /* whatever is chosen: k distinct positions, ascending */
    uint32_t positions[3];
    select_positions(broken, 4, 3, positions);
    assert_true(positions[0] < positions[1] && positions[1] < positions[2] && positions[2] < 4);
}

static void test_ranked(void **state)
{
    (void)state;
    float scores[64], bias[64];
    uint32_t ids[64];
    for (size_t round = 0; round < 300; round++) {
        size_t n = 1 + next_random() % 64;
        size_t k = 1 + next_random() % n;
        uint8_t taken[64] = {0};
        for (size_t i = 0; i < n; i++) {
            scores[i] = (float)(next_random() % 8) / 8.0f;
            bias[i] = (float)(next_random() % 4) / 8.0f;
        }
        select_ranked(scores, bias, n, k, ids);
        for (size_t rank = 0; rank < k; rank++) {
            size_t best = n;
            for (size_t i = 0; i < n; i++) {
                if (!taken[i] && (best == n || scores[i] + bias[i] > scores[best] + bias[best])) {
                    best = i;
                }
            }
            assert_int_equal(ids[rank], best);
            taken[best] = 1;
        }
    }
}

static void test_ranked_not_finite(void **state)
{
    (void)state;
    const float scores[] = {NAN, 0.5f, NAN, 0.75f};
    const float bias[4] = {0};
    uint32_t ids[3];
    select_ranked(scores, bias, 4, 3, ids);
    assert_true(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    assert_true(ids[0] < 4 && ids[1] < 4 && ids[2] < 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frequency),         cmocka_unit_test(test_sine_cosine),
        cmocka_unit_test(test_table_bits),        cmocka_unit_test(test_positions),
        cmocka_unit_test(test_positions_special), cmocka_unit_test(test_ranked),
        cmocka_unit_test(test_ranked_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
