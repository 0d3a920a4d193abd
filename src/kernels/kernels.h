/* The table of CPU kernels.
 *
 * One signature per kernel, a plain C reference that is the law (numerics.md), and one file per
 * instruction set whose results are the same bits. kernel_table_init fills a table by a ladder over the
 * CPU's flags, which the caller may have masked. Kernels never allocate, never over-read, and take
 * unaligned pointers unless a line says otherwise.
 *
 * Weight products come in two steps, so that a batch reads and unpacks each weight once and so that
 * several matrices can share one input: prepare rearranges the m input rows into a layout private to
 * the table's version, matmul then computes any range of output rows from it. Splitting rows over
 * threads, or input rows over calls, changes no bit. */
#ifndef SLUICE_KERNELS_KERNELS_H
#define SLUICE_KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "quant/matrix.h"

#define KERNEL_POSITION_BLOCK 64 /* cached positions per block, by absolute index */

/* name, result, arguments: the pointer types, the reference and every version's prototypes come from this list. */
#define KERNEL_LIST(X)                                                                                                \
    /* Rearranges x [m][cols] (row stride x_stride floats) for matmul with a matrix of this kind into `act`,          \
     * which holds kernel_act_bytes(kind, cols, m) bytes aligned to 64. Prepared rows are independent: row i          \
     * lies at act + i * kernel_act_bytes(kind, cols, 1), so a part of a batch may be handed to matmul. cols is       \
     * divisible by 8 for int4, any number otherwise. */                                                              \
    X(prepare, void, (enum quant_kind kind, const float *x, size_t x_stride, size_t m, size_t cols, void *act))       \
    /* out[i * out_stride + r] for i < m, r in [row_begin, row_end): dot of weight row r with input row i. */         \
    X(matmul, void,                                                                                                   \
      (const struct quant_matrix *w, size_t row_begin, size_t row_end, const void *act, size_t m, float *out,         \
       size_t out_stride))                                                                                            \
    /* Absorb: out[i][c] = fold over d of fma(a[d], w[row0 + d][c]) with a[d] = x[i][d] * scale, for c in             \
     * [col_begin, col_end) (multiples of 8); x [m][n] rows x_stride apart, w rows [row0, row0 + n). */               \
    X(absorb, void,                                                                                                   \
      (const struct quant_matrix *w, size_t row0, size_t n, size_t col_begin, size_t col_end, const float *x,         \
       size_t x_stride, size_t m, float *out, size_t out_stride))                                                     \
    /* out[h * out_stride + j] = lanedot(q[h], key[j]) * scale for h < heads and j < n; q [heads][dim] rows           \
     * q_stride apart; key j = keys + index[j] * key_stride (index NULL: key j = keys + j * key_stride). */           \
    X(scores, void,                                                                                                   \
      (const float *q, size_t q_stride, size_t heads, const float *keys, size_t key_stride, const uint8_t *index,     \
       size_t n, size_t dim, float scale, float *out, size_t out_stride))                                             \
    /* Block mix: out[h][d] = fold over j ascending of fma(p[h * p_stride + j], value[j][d], .) from +0; values       \
     * addressed as keys above, d < dim, out rows out_stride apart. */                                                \
    X(mix, void,                                                                                                      \
      (const float *p, size_t p_stride, size_t heads, const float *values, size_t value_stride, const uint8_t *index, \
       size_t n, size_t dim, float *out, size_t out_stride))                                                          \
    /* x[j] = exp(x[j] - max); the sum of these in ascending order from +0 is returned. */                            \
    X(exp_sum, float, (float *x, size_t n, float max))                                                                \
    /* Largest of n values; -inf for n = 0. NaN is ignored unless all are; of both zeros +0 is the larger. */         \
    X(max, float, (const float *x, size_t n))                                                                         \
    /* Index score of n positions: out[j] = (fold over h of fma(w[h], relu(s[h][j]), .)) * head_scale, s as           \
     * written by scores: s + h * s_stride; relu of NaN is +0. */                                                     \
    X(index_combine, void,                                                                                            \
      (const float *w, size_t heads, const float *s, size_t s_stride, size_t n, float head_scale, float *out))        \
    /* Sum of squares in binary64, 32 lanes (lane = column mod 32) and the tree; inv = f32(1 / sqrt(sum / n + eps)),  \
     * the operations before the rounding in binary64; out = (x * inv) * weight. */                                   \
    X(rmsnorm, void, (const float *x, const float *weight, size_t n, float eps, float *out)) /* out may be x */       \
    /* mean and variance = sum of (x - mean)^2 / n in binary64 as above, each operation rounded; inv likewise;        \
     * out = (f32(x - mean) * inv) * weight + bias. */                                                                \
    X(layernorm, void,                                                                                                \
      (const float *x, const float *weight, const float *bias, size_t n, float eps, float *out)) /* out may be x */   \
    /* quant_sigmoid of each, in place. */                                                                            \
    X(sigmoid, void, (float *x, size_t n))                                                                            \
    /* out[j] = silu(gate[j]) * up[j]; out may be gate or up. */                                                      \
    X(silu_mul, void, (const float *gate, const float *up, size_t n, float *out))                                     \
    X(add, void, (float *x, const float *y, size_t n)) /* x[j] = x[j] + y[j] */                                       \
    /* Compose: x[j] = x[j] + y[j] * weight (multiply, round, add, round). */                                         \
    X(add_scaled, void, (float *x, const float *y, float weight, size_t n))                                           \
    /* RoPE on pairs (2j, 2j+1) of x [n_pairs * 2] with cosines and sines [n_pairs]:                                  \
     * (x0 * c - x1 * s, x1 * c + x0 * s), each product and the sum rounded. */                                       \
    X(rope, void, (float *x, const float *cosine, const float *sine, size_t n_pairs))                                 \
    /* x[j] = q * scale of one row of w: the embedding. */                                                            \
    X(dequant_row, void, (const struct quant_matrix *w, size_t row, float *out))

struct kernel_table {
#define KERNEL_FIELD(name, result, args) result(*name) args;
    KERNEL_LIST(KERNEL_FIELD)
#undef KERNEL_FIELD
    const char *name; /* highest level in use: "c", "avx2" */
};

/* Fills the table with the best versions among `features` (a mask of enum cpu_feature). */
void kernel_table_init(struct kernel_table *table, uint32_t features);

/* Bytes that prepare needs for m rows of cols columns; a multiple of 64, the same for every version. */
size_t kernel_act_bytes(enum quant_kind kind, size_t cols, size_t m);

#endif
