/* Processor features and count. */
#include "tests.h"

#include <sched.h>
#include <string.h>

#include "os/cpu.h"

static void assert_parsed(const char *list, uint32_t expected)
{
    uint32_t mask = 0xDEAD;
    sluice_error err = {0};
    assert_int_equal(cpu_features_parse(list, &mask, &err), SLUICE_OK);
    assert_int_equal(mask, expected);
}

static void feature_lists(void **state)
{
    (void)state;
    assert_parsed("scalar", 0);
    assert_parsed("avx2", CPU_AVX2);
    assert_parsed("all", CPU_AVX2);
    assert_parsed("scalar,avx2", CPU_AVX2);
    assert_parsed("avx2,avx2,all", CPU_AVX2);
}

static void bad_feature_lists(void **state)
{
    (void)state;
    static const char *const bad[] = {"",      ",",    "avx2,", ",avx2",        "avx",
                                      "avx22", "AVX2", "avx2 ", "avx2,,scalar", "sse9"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint32_t mask = 0xDEAD;
        sluice_error err = {0};
        assert_int_equal(cpu_features_parse(bad[i], &mask, &err), SLUICE_INVALID);
        assert_int_equal(mask, 0xDEAD);
        assert_memory_equal(err.message, "cpu features \"", 14);
    }
    sluice_error err;
    uint32_t mask;
    cpu_features_parse("avx2,sse9,scalar", &mask, &err);
    assert_string_equal(err.message, "cpu features \"avx2,sse9,scalar\": unknown name \"sse9\" (all, scalar, avx2)");
}

static void features_are_known_and_constant(void **state)
{
    (void)state;
    uint32_t all;
    assert_int_equal(cpu_features_parse("all", &all, NULL), SLUICE_OK);
    assert_int_equal(cpu_features() & ~all, 0);
    assert_int_equal(cpu_features(), cpu_features());
}

static void count_follows_the_affinity(void **state)
{
    (void)state;
    cpu_set_t before;
    assert_true(cpu_count() >= 1);
    if (sched_getaffinity(0, sizeof(before), &before) != 0) {
        skip();
    }
    assert_int_equal(cpu_count(), CPU_COUNT(&before));
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &before)) {
            CPU_SET(i, &one);
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    unsigned count = cpu_count();
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(count, 1);
}

int run_cpu_tests(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(feature_lists),
        cmocka_unit_test(bad_feature_lists),
        cmocka_unit_test(features_are_known_and_constant),
        cmocka_unit_test(count_follows_the_affinity),
    };
    return cmocka_run_group_tests_name("cpu", tests, NULL, NULL);
}
