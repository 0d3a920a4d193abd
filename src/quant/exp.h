/* The canonical exponential of the numerics contract, and the activations built on it.
 *
 * One polynomial with explicit fma; the same text serves C and, later, CUDA. Error below 1 ulp over the
 * whole range, gradual underflow included, exact at 0, saturating to 0 and +inf, NaN in gives NaN out.
 * The vector versions in src/kernels must give the same bits for every input, so the constants stand
 * here. */
#ifndef SLUICE_QUANT_EXP_H
#define SLUICE_QUANT_EXP_H

/* exp(x) = 2^n * e^r with n = x / ln 2 rounded to an integer and r = x - n * ln 2, |r| < 0.3467;
 * e^r = 1 + (r + r^2 * (C2 + r * (C3 + r * (C4 + r * (C5 + r * C6))))), a minimax fit of the bracket
 * whose own error is 3.1e-9 of e^r. The scaling by 2^n is two exact steps and one that rounds. */
#define QUANT_EXP_MIN (-104.0f)           /* at it and below the result rounds to 0 */
#define QUANT_EXP_MAX 89.0f               /* at it and above the result rounds to +inf */
#define QUANT_EXP_LOG2E 0x1.715476p+0f    /* 1 / ln 2 */
#define QUANT_EXP_MAGIC 0x1.8p+23f        /* adding it leaves the nearest integer in the low bits */
#define QUANT_EXP_LN2_HIGH 0x1.62e430p-1f /* ln 2 rounded to binary32 */
#define QUANT_EXP_LN2_LOW (-0x1.05c610p-29f)
#define QUANT_EXP_C2 0x1.fffffcp-2f
#define QUANT_EXP_C3 0x1.555492p-3f
#define QUANT_EXP_C4 0x1.5558f2p-5f
#define QUANT_EXP_C5 0x1.123a20p-7f
#define QUANT_EXP_C6 0x1.6a23d4p-10f

float quant_exp(float x);
float quant_sigmoid(float x);               /* 1 / (1 + exp(-x)) */
float quant_silu_mul(float gate, float up); /* (gate * sigmoid(gate)) * up */

#endif
