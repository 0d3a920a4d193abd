/* The checks that test_kernels.c runs, one function per kernel and concern. */
#ifndef SLUICE_TESTS_KERNELS_CHECKS_H
#define SLUICE_TESTS_KERNELS_CHECKS_H

/* check_matmul.c */
void check_matmul_widths(void **state);
void check_matmul_batches(void **state);
void check_matmul_hostile(void **state);
void check_matmul_real(void **state);
void check_matmul_negative_zero(void **state);
void check_absorb(void **state);
void check_absorb_hostile(void **state);
void check_dequant_row(void **state);

/* check_attention.c */
void check_scores(void **state);
void check_scores_negative_zero(void **state);
void check_mix(void **state);
void check_exp_sum(void **state);
void check_max(void **state);
void check_index_combine(void **state);

/* check_elementwise.c */
void check_norms(void **state);
void check_activations(void **state);
void check_sums(void **state);
void check_rope(void **state);

/* check_reference.c */
void check_reference_accuracy(void **state);
void check_reference_lane_order(void **state);
void check_reference_golden(void **state);
void check_act_bytes(void **state);

#endif
