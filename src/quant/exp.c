/* The canonical exponential: the definition that every vector version repeats step by step.
 *
 * Each line is one correctly rounded operation (fmaf is a fused multiply-add whether the processor has
 * one or not), so the bits do not depend on the machine. */
#include "quant/exp.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* 2^n for -126 <= n <= 127. */
static float power_of_two(uint32_t n)
{
    uint32_t bits = (n + 127u) << 23;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float quant_exp(float x)
{
    if (x != x) {
        return x;
    }
    x = x < QUANT_EXP_MAX ? x : QUANT_EXP_MAX;
    x = x > QUANT_EXP_MIN ? x : QUANT_EXP_MIN;
    float shifted = fmaf(x, QUANT_EXP_LOG2E, QUANT_EXP_MAGIC);
    float n = shifted - QUANT_EXP_MAGIC;
    float r = fmaf(n, -QUANT_EXP_LN2_HIGH, x);
    r = fmaf(n, -QUANT_EXP_LN2_LOW, r);
    float p = fmaf(r, QUANT_EXP_C6, QUANT_EXP_C5);
    p = fmaf(r, p, QUANT_EXP_C4);
    p = fmaf(r, p, QUANT_EXP_C3);
    p = fmaf(r, p, QUANT_EXP_C2);
    p = fmaf(r * r, p, r);
    p = 1.0f + p;
    /* Halves keep both factors in range; the first product is exact, the second rounds once. */
    int32_t power = (int32_t)n;
    int32_t half = power >> 1;
    return p * power_of_two((uint32_t)half) * power_of_two((uint32_t)(power - half));
}

float quant_sigmoid(float x)
{
    return 1.0f / (1.0f + quant_exp(-x));
}

float quant_silu_mul(float gate, float up)
{
    float silu = gate * quant_sigmoid(gate);
    return silu * up;
}
