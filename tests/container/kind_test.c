/* The kind of a quantised matrix from its byte counts. */
#include "tests.h"

#include "container/resolve.h"

static void test_kinds(void **state)
{
    (void)state;
    static const struct {
        uint32_t rows, cols;
        uint64_t bytes, scales;
        enum quant_match match;
        enum quant_kind kind;
        uint32_t group;
    } cases[] = {
        {16, 64, 1024, 16, QUANT_MATCH_ONE, QUANT_INT8_ROW, 0},
        {16, 64, 512, 16, QUANT_MATCH_ONE, QUANT_INT4_ROW, 0},
        {16, 64, 512, 16 * 2, QUANT_MATCH_ONE, QUANT_INT4_GROUP, 32}, /* 48 gives two groups too: the first counts */
        {16, 64, 512, 16 * 4, QUANT_MATCH_ONE, QUANT_INT4_GROUP, 16},
        {16, 192, 1536, 16 * 3, QUANT_MATCH_ONE, QUANT_INT4_GROUP, 64},
        {16, 192, 1536, 16 * 4, QUANT_MATCH_ONE, QUANT_INT4_GROUP, 48},
        {16, 192, 1536, 16 * 2, QUANT_MATCH_ONE, QUANT_INT4_GROUP, 96},
        {16, 2048, 16384, 16 * 16, QUANT_MATCH_ONE, QUANT_INT4_GROUP, 128},
        {16, 2048, 16384, 16 * 11, QUANT_MATCH_ONE, QUANT_INT4_GROUP, 192},
        {16, 2048, 16384, 16 * 8, QUANT_MATCH_ONE, QUANT_INT4_GROUP, 256},
        {16, 72, 576, 16 * 5, QUANT_MATCH_ONE, QUANT_INT4_GROUP, 16}, /* the last group is shorter */
        {16, 7, 64, 16, QUANT_MATCH_ONE, QUANT_INT4_ROW, 0},          /* odd columns: half a byte is left */
        {1, 1, 1, 1, QUANT_MATCH_AMBIGUOUS, 0, 0},
        {5, 1, 5, 5, QUANT_MATCH_AMBIGUOUS, 0, 0},
        {16, 64, 1024, 17, QUANT_MATCH_NONE, 0, 0},
        {16, 64, 1024, 16 * 4, QUANT_MATCH_NONE, 0, 0}, /* int8 has no groups */
        {16, 64, 513, 16, QUANT_MATCH_NONE, 0, 0},
        {16, 64, 512, 0, QUANT_MATCH_NONE, 0, 0},
        {16, 64, 512, 15, QUANT_MATCH_NONE, 0, 0},
        {16, 64, 512, 16 * 3, QUANT_MATCH_NONE, 0, 0},
        {16, 64, 512, 16 * 8, QUANT_MATCH_NONE, 0, 0}, /* groups of 8 are not of the format */
        {16, 64, 0, 16, QUANT_MATCH_NONE, 0, 0},
        {1 << 22, 1 << 16, (uint64_t)1 << 38, 1 << 22, QUANT_MATCH_ONE, QUANT_INT8_ROW, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct quant_guess guess = {0};
        enum quant_match match = resolve_kind(cases[i].rows, cases[i].cols, cases[i].bytes, cases[i].scales, &guess);
        assert_int_equal(match, cases[i].match);
        if (match == QUANT_MATCH_ONE) {
            assert_int_equal(guess.kind, cases[i].kind);
            assert_int_equal(guess.group, cases[i].group);
        }
    }
}

int run_kind_tests(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds)};
    return cmocka_run_group_tests_name("kinds", tests, NULL, NULL);
}
