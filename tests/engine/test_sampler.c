/* The sampler: filters, the frequency of what is drawn, and ids that must be the same on every machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "engine/sampler.h"

#define VOCAB 8
/* Ids in order of likelihood: 3, 5, 1, 6, 0, 7, 2, 4. Ids 5 and 1 are equal, and so are 0 and 7. */
static const float logits[VOCAB] = {-1.0f, 2.0f, -3.0f, 4.0f, -8.0f, 2.0f, 1.0f, -1.0f};
static const uint32_t order[VOCAB] = {3, 1, 5, 6, 0, 7, 2, 4};

static int set_up(void **state)
{
    static struct sampler sampler;
    *state = &sampler;
    return sampler_open(&sampler, VOCAB, NULL) == SLUICE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    sampler_close(*state);
    return 0;
}

static void use(struct sampler *sampler, sluice_sampling settings)
{
    assert_int_equal(sampler_set(sampler, &settings, NULL), SLUICE_OK);
}

/* Draws n times and counts the ids. */
static void count(struct sampler *sampler, size_t n, size_t counts[VOCAB])
{
    memset(counts, 0, VOCAB * sizeof counts[0]);
    for (size_t i = 0; i < n; i++) {
        uint32_t id = sampler_pick(sampler, logits);
        assert_true(id < VOCAB);
        counts[id]++;
    }
}

/* Only the first `kept` ids in order of likelihood are drawn, each about as often as its probability says. */
static void check_distribution(struct sampler *sampler, size_t kept, double temperature)
{
    enum { DRAWS = 40000 };
    size_t counts[VOCAB];
    double total = 0.0;
    for (size_t rank = 0; rank < kept; rank++) {
        total += exp(((double)logits[order[rank]] - 4.0) / temperature);
    }
    count(sampler, DRAWS, counts);
    for (size_t rank = 0; rank < VOCAB; rank++) {
        double p = rank < kept ? exp(((double)logits[order[rank]] - 4.0) / temperature) / total : 0.0;
        double expected = p * DRAWS;
        double spread = 5.0 * sqrt(expected * (1.0 - p));
        assert_true(fabs((double)counts[order[rank]] - expected) <= spread);
    }
}

static void test_greedy(void **state)
{
    struct sampler *sampler = *state;
    const float equal[VOCAB] = {1.0f, 7.0f, 2.0f, 7.0f, 7.0f, -1.0f, 0.0f, 6.0f};
    const float negative[VOCAB] = {-9.0f, -8.0f, -7.0f, -6.0f, -5.0f, -4.0f, -3.0f, -2.0f};
    assert_int_equal(sampler_pick(sampler, logits), 3);
    assert_int_equal(sampler_pick(sampler, equal), 1);
    assert_int_equal(sampler_pick(sampler, negative), 7);
    assert_int_equal(sampler->draws, 0);
}

static void test_temperature(void **state)
{
    struct sampler *sampler = *state;
    use(sampler, (sluice_sampling){.temperature = 1.0f, .top_p = 1.0f, .seed = 1});
    check_distribution(sampler, VOCAB, 1.0);
    use(sampler, (sluice_sampling){.temperature = 2.5f, .top_p = 1.0f, .seed = 2});
    check_distribution(sampler, VOCAB, 2.5);
}

static void test_extreme_temperatures(void **state)
{
    struct sampler *sampler = *state;
    use(sampler, (sluice_sampling){.temperature = 1e-38f, .top_p = 1.0f, .seed = 3});
    for (int i = 0; i < 100; i++) {
        assert_int_equal(sampler_pick(sampler, logits), 3);
    }
    use(sampler, (sluice_sampling){.temperature = 3e38f, .top_p = 1.0f, .seed = 3});
    size_t counts[VOCAB];
    count(sampler, 8000, counts);
    for (size_t id = 0; id < VOCAB; id++) {
        assert_in_range(counts[id], 850, 1150);
    }
}

static void test_top_k(void **state)
{
    struct sampler *sampler = *state;
    for (uint32_t k = 1; k <= VOCAB + 1; k++) {
        use(sampler, (sluice_sampling){.temperature = 2.0f, .top_p = 1.0f, .top_k = k, .seed = 4});
        check_distribution(sampler, k < VOCAB ? k : VOCAB, 2.0);
    }
}

/* At temperature 1 the first rank has .7491, the first two .8505, the first three .9519. */
static void test_top_p(void **state)
{
    struct sampler *sampler = *state;
    static const struct {
        float top_p;
        size_t kept;
    } cases[] = {{0.001f, 1}, {0.74f, 1}, {0.76f, 2}, {0.85f, 2}, {0.851f, 3}, {0.95f, 3}, {0.96f, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        use(sampler, (sluice_sampling){.temperature = 1.0f, .top_p = cases[i].top_p, .seed = 5});
        check_distribution(sampler, cases[i].kept, 1.0);
    }
}

static void test_min_p(void **state)
{
    struct sampler *sampler = *state;
    static const struct {
        float min_p;
        size_t kept;
    } cases[] = {{1.0f, 1}, {0.14f, 1}, {0.13f, 3}, {0.05f, 3}, {0.04f, 4}, {0.006f, 6}, {1e-20f, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        use(sampler, (sluice_sampling){.temperature = 1.0f, .top_p = 1.0f, .min_p = cases[i].min_p, .seed = 6});
        check_distribution(sampler, cases[i].kept, 1.0);
    }
}

/* top_p looks at what top_k left, rescaled: of the first two, the first has .881. */
static void test_order_of_filters(void **state)
{
    struct sampler *sampler = *state;
    use(sampler, (sluice_sampling){.temperature = 1.0f, .top_p = 0.88f, .top_k = 2, .seed = 7});
    check_distribution(sampler, 1, 1.0);
    use(sampler, (sluice_sampling){.temperature = 1.0f, .top_p = 0.99f, .top_k = 3, .min_p = 0.5f, .seed = 7});
    check_distribution(sampler, 1, 1.0);
    use(sampler, (sluice_sampling){.temperature = 2.0f, .top_p = 1.0f, .min_p = 0.5f, .seed = 7});
    check_distribution(sampler, 1, 2.0);
    use(sampler, (sluice_sampling){.temperature = 3.0f, .top_p = 1.0f, .min_p = 0.5f, .seed = 7});
    check_distribution(sampler, 3, 3.0);
}

static void test_seed_and_rewind(void **state)
{
    struct sampler *sampler = *state;
    const sluice_sampling settings = {.temperature = 3.0f, .top_p = 0.95f, .seed = 99};
    uint32_t first[64], other[64];
    use(sampler, settings);
    for (size_t i = 0; i < 64; i++) {
        first[i] = sampler_pick(sampler, logits);
    }
    sampler->draws -= 32;
    for (size_t i = 32; i < 64; i++) {
        assert_int_equal(sampler_pick(sampler, logits), first[i]);
    }
    use(sampler, settings);
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(sampler_pick(sampler, logits), first[i]);
    }
    use(sampler, (sluice_sampling){.temperature = 3.0f, .top_p = 0.95f, .seed = 100});
    for (size_t i = 0; i < 64; i++) {
        other[i] = sampler_pick(sampler, logits);
    }
    assert_memory_not_equal(first, other, sizeof first);
}

/* A larger vocabulary with logits from an integer formula, so that nothing but the sampler can differ. */
static void test_golden_ids(void **state)
{
    (void)state;
    enum { N = 1000, PICKS = 12 };
    static const struct {
        sluice_sampling settings;
        uint32_t ids[PICKS];
    } cases[] = {
        {{.temperature = 1.0f, .top_p = 1.0f, .seed = 42}, {919, 333, 652, 521, 351, 521, 953, 927, 665, 406, 63, 576}},
        {{.temperature = 0.7f, .top_p = 0.9f, .seed = 42}, {110, 461, 542, 754, 652, 754, 55, 940, 521, 186, 131, 665}},
        {{.temperature = 1.3f, .top_p = 0.95f, .top_k = 40, .min_p = 0.05f, .seed = 0},
         {398, 165, 576, 398, 686, 521, 309, 55, 576, 254, 953, 144}},
        {{.temperature = 5.0f, .top_p = 1.0f, .top_k = 100, .seed = UINT64_MAX},
         {597, 351, 940, 372, 940, 953, 84, 961, 898, 461, 262, 987}},
    };
    float values[N];
    for (uint32_t i = 0; i < N; i++) {
        values[i] = (float)((i * 2654435761u) >> 20) / 256.0f;
    }
    struct sampler sampler;
    assert_int_equal(sampler_open(&sampler, N, NULL), SLUICE_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        use(&sampler, cases[i].settings);
        for (size_t pick = 0; pick < PICKS; pick++) {
            assert_int_equal(sampler_pick(&sampler, values), cases[i].ids[pick]);
        }
    }
    sampler_close(&sampler);
}

static void test_one_token(void **state)
{
    (void)state;
    struct sampler sampler;
    const float one = -5.0f;
    assert_int_equal(sampler_open(&sampler, 1, NULL), SLUICE_OK);
    assert_int_equal(sampler_pick(&sampler, &one), 0);
    use(&sampler, (sluice_sampling){.temperature = 1.0f, .top_p = 0.5f, .top_k = 3, .min_p = 1.0f});
    assert_int_equal(sampler_pick(&sampler, &one), 0);
    sampler_close(&sampler);
}

static void test_bad_settings(void **state)
{
    struct sampler *sampler = *state;
    static const sluice_sampling bad[] = {
        {.temperature = -0.1f, .top_p = 1.0f},    {.temperature = NAN, .top_p = 1.0f},
        {.temperature = INFINITY, .top_p = 1.0f}, {.temperature = 1.0f, .top_p = 0.0f},
        {.temperature = 1.0f, .top_p = 1.01f},    {.temperature = 1.0f, .top_p = NAN},
        {.temperature = 1.0f, .top_p = -1.0f},    {.temperature = 1.0f, .top_p = 1.0f, .min_p = -0.01f},
        {.top_p = 1.0f, .min_p = 1.01f},          {.temperature = 1.0f, .top_p = 1.0f, .min_p = NAN},
    };
    use(sampler, (sluice_sampling){.temperature = 0.5f, .top_p = 0.5f, .seed = 7});
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sluice_error error = {0};
        assert_int_equal(sampler_set(sampler, &bad[i], &error), SLUICE_INVALID);
        assert_int_equal(error.status, SLUICE_INVALID);
        assert_true(sampler->settings.temperature == 0.5f && sampler->settings.seed == 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_greedy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_temperature, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_extreme_temperatures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_top_k, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_top_p, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_min_p, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_order_of_filters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_seed_and_rewind, set_up, tear_down),
        cmocka_unit_test(test_golden_ids),
        cmocka_unit_test(test_one_token),
        cmocka_unit_test_setup_teardown(test_bad_settings, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
