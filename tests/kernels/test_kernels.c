/* Runs every check. The one argument is a seed; a failure prints the seed it ran with. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/checker.h"
#include "kernels/checks.h"

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 20240607;
    printf("seed %" PRIu64 "\n", seed);
    checker_init(seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_reference_accuracy),
        cmocka_unit_test(check_reference_lane_order),
        cmocka_unit_test(check_reference_golden),
        cmocka_unit_test(check_act_bytes),
        cmocka_unit_test(check_matmul_widths),
        cmocka_unit_test(check_matmul_batches),
        cmocka_unit_test(check_matmul_hostile),
        cmocka_unit_test(check_matmul_real),
        cmocka_unit_test(check_matmul_negative_zero),
        cmocka_unit_test(check_scores_negative_zero),
        cmocka_unit_test(check_absorb),
        cmocka_unit_test(check_absorb_hostile),
        cmocka_unit_test(check_dequant_row),
        cmocka_unit_test(check_scores),
        cmocka_unit_test(check_mix),
        cmocka_unit_test(check_exp_sum),
        cmocka_unit_test(check_max),
        cmocka_unit_test(check_index_combine),
        cmocka_unit_test(check_norms),
        cmocka_unit_test(check_activations),
        cmocka_unit_test(check_sums),
        cmocka_unit_test(check_rope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
