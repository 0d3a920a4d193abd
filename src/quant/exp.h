/* The canonical exponential of the numerics contract, and the activations built on it.
 *
 * One polynomial with explicit fma; the same text serves C and, later, CUDA. Error below 1 ulp, exact
 * at 0, saturating to 0 and +inf, NaN in gives NaN out. The vector versions in src/kernels must give
 * the same bits for every input. */
#ifndef SLUICE_QUANT_EXP_H
#define SLUICE_QUANT_EXP_H

float quant_exp(float x);
float quant_sigmoid(float x);               /* 1 / (1 + exp(-x)) */
float quant_silu_mul(float gate, float up); /* (gate * sigmoid(gate)) * up */

#endif
