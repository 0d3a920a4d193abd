/* The C reference of every kernel: the law that each instruction set's version repeats bit for bit.
 *
 * The loops follow docs/numerics.md word by word and nothing else. fma is written out where the
 * contract has one; everything else rounds after each operation. The file is compiled for the plainest
 * processor, where fmaf is a correctly rounded library call. */
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/internal.h"
#include "quant/exp.h"

/* ---- reading weights ---- */

static bool is_int4(enum quant_kind kind)
{
    return kind == QUANT_INT4_ROW || kind == QUANT_INT4_GROUP;
}

static const uint8_t *row_bytes(const struct quant_matrix *w, size_t row)
{
    return (const uint8_t *)w->weights + row * quant_row_bytes(w->kind, w->cols);
}

/* The integer behind an int4 column: 0..15 stands for -8..7. */
static float int4_value(const uint8_t *row, size_t col)
{
    int nibble = col % 2 == 0 ? row[col / 2] & 15 : row[col / 2] >> 4;
    return (float)(nibble - 8);
}

/* The stored number of one weight, before its scale. */
static float weight_value(const struct quant_matrix *w, size_t row, size_t col)
{
    const uint8_t *bytes = row_bytes(w, row);
    if (is_int4(w->kind)) {
        return int4_value(bytes, col);
    }
    if (w->kind == QUANT_INT8_ROW) {
        return (float)(int8_t)bytes[col];
    }
    float value;
    memcpy(&value, bytes + col * sizeof value, sizeof value);
    return value;
}

/* Scales of one row; NULL for f32. */
static const float *row_scales(const struct quant_matrix *w, size_t row)
{
    return w->kind == QUANT_F32 ? NULL : w->scales + row * quant_row_scales(w->kind, w->cols, w->group);
}

/* ---- the lane rule ---- */

/* Tree over the 32 lanes with offsets 16, 8, 4, 2, 1; destroys the lanes. */
static float lane_sum(float acc[KERNEL_LANES])
{
    for (size_t offset = KERNEL_LANES / 2; offset > 0; offset /= 2) {
        for (size_t i = 0; i < offset; i++) {
            acc[i] = acc[i] + acc[i + offset];
        }
    }
    return acc[0];
}

static double lane_sum_double(double acc[KERNEL_LANES])
{
    for (size_t offset = KERNEL_LANES / 2; offset > 0; offset /= 2) {
        for (size_t i = 0; i < offset; i++) {
            acc[i] = acc[i] + acc[i + offset];
        }
    }
    return acc[0];
}

/* int8 and f32 rows: lane l takes the columns l, l + 32, ... */
static float dot_columns(const struct quant_matrix *w, size_t row, const float *x)
{
    float acc[KERNEL_LANES] = {0};
    for (size_t k = 0; k < w->cols; k++) {
        float *lane = &acc[k % KERNEL_LANES];
        *lane = fmaf(weight_value(w, row, k), x[k], *lane);
    }
    return lane_sum(acc);
}

/* int4 rows with one scale: lane l takes the words l, l + 32, ..., eight columns each in ascending order. */
static float dot_words(const uint8_t *row, size_t cols, const float *x)
{
    float acc[KERNEL_LANES] = {0};
    for (size_t k = 0; k < cols; k++) {
        float *lane = &acc[k / KERNEL_WORD_COLS % KERNEL_LANES];
        *lane = fmaf(int4_value(row, k), x[k], *lane);
    }
    return lane_sum(acc);
}

/* int4 rows with grouped scales: each word has its own register, which then enters the lane scaled. */
static float dot_grouped_words(const uint8_t *row, size_t cols, const float *scales, size_t group, const float *x)
{
    float acc[KERNEL_LANES] = {0};
    for (size_t k = 0; k < cols; k += KERNEL_WORD_COLS) {
        float word = 0.0f;
        for (size_t j = k; j < k + KERNEL_WORD_COLS; j++) {
            word = fmaf(int4_value(row, j), x[j], word);
        }
        float *lane = &acc[k / KERNEL_WORD_COLS % KERNEL_LANES];
        *lane = fmaf(word, scales[k / group], *lane);
    }
    return lane_sum(acc);
}

static float dot_row(const struct quant_matrix *w, size_t row, const float *x)
{
    switch (w->kind) {
    case QUANT_F32:
        return dot_columns(w, row, x);
    case QUANT_INT8_ROW:
        return dot_columns(w, row, x) * w->scales[row];
    case QUANT_INT4_ROW:
        return dot_words(row_bytes(w, row), w->cols, x) * w->scales[row];
    case QUANT_INT4_GROUP:
        return dot_grouped_words(row_bytes(w, row), w->cols, row_scales(w, row), w->group, x);
    }
    return 0.0f;
}

/* ---- weight products ---- */

void kernel_prepare_c(enum quant_kind kind, const float *x, size_t x_stride, size_t m, size_t cols, void *act)
{
    assert(!is_int4(kind) || cols % KERNEL_WORD_COLS == 0);
    size_t stride = kernel_act_stride(kind, cols);
    for (size_t i = 0; i < m; i++) {
        struct kernel_act_row *row = (struct kernel_act_row *)((char *)act + i * stride);
        memset(row, 0, sizeof *row);
        memcpy(row->values, x + i * x_stride, cols * sizeof(float));
    }
}

void kernel_matmul_c(const struct quant_matrix *w, size_t row_begin, size_t row_end, const void *act, size_t m,
                     float *out, size_t out_stride)
{
    size_t stride = kernel_act_stride(w->kind, w->cols);
    for (size_t i = 0; i < m; i++) {
        const struct kernel_act_row *x = (const struct kernel_act_row *)((const char *)act + i * stride);
        for (size_t row = row_begin; row < row_end; row++) {
            out[i * out_stride + row] = dot_row(w, row, x->values);
        }
    }
}

void kernel_absorb_c(const struct quant_matrix *w, size_t row0, size_t n, size_t col_begin, size_t col_end,
                     const float *x, size_t x_stride, size_t m, float *out, size_t out_stride)
{
    for (size_t i = 0; i < m; i++) {
        for (size_t c = col_begin; c < col_end; c++) {
            float sum = 0.0f;
            for (size_t d = 0; d < n; d++) {
                const float *scales = row_scales(w, row0 + d);
                float a = x[i * x_stride + d];
                if (scales) {
                    a = a * scales[w->kind == QUANT_INT4_GROUP ? c / w->group : 0];
                }
                sum = fmaf(a, weight_value(w, row0 + d, c), sum);
            }
            out[i * out_stride + c] = sum;
        }
    }
}

void kernel_dequant_row_c(const struct quant_matrix *w, size_t row, float *out)
{
    const float *scales = row_scales(w, row);
    for (size_t c = 0; c < w->cols; c++) {
        float value = weight_value(w, row, c);
        if (scales) {
            value = value * scales[w->kind == QUANT_INT4_GROUP ? c / w->group : 0];
        }
        out[c] = value;
    }
}

/* ---- attention ---- */

static const float *position_row(const float *base, size_t stride, const uint8_t *index, size_t j)
{
    return base + (index ? index[j] : j) * stride;
}

void kernel_scores_c(const float *q, size_t q_stride, size_t heads, const float *keys, size_t key_stride,
                     const uint8_t *index, size_t n, size_t dim, float scale, float *out, size_t out_stride)
{
    for (size_t h = 0; h < heads; h++) {
        for (size_t j = 0; j < n; j++) {
            const float *key = position_row(keys, key_stride, index, j);
            float acc[KERNEL_LANES] = {0};
            for (size_t k = 0; k < dim; k++) {
                float *lane = &acc[k % KERNEL_LANES];
                *lane = fmaf(q[h * q_stride + k], key[k], *lane);
            }
            out[h * out_stride + j] = lane_sum(acc) * scale;
        }
    }
}

void kernel_mix_c(const float *p, size_t p_stride, size_t heads, const float *values, size_t value_stride,
                  const uint8_t *index, size_t n, size_t dim, float *out, size_t out_stride)
{
    for (size_t h = 0; h < heads; h++) {
        for (size_t d = 0; d < dim; d++) {
            float sum = 0.0f;
            for (size_t j = 0; j < n; j++) {
                sum = fmaf(p[h * p_stride + j], position_row(values, value_stride, index, j)[d], sum);
            }
            out[h * out_stride + d] = sum;
        }
    }
}

float kernel_exp_sum_c(float *x, size_t n, float max)
{
    float sum = 0.0f;
    for (size_t j = 0; j < n; j++) {
        x[j] = quant_exp(x[j] - max);
        sum = sum + x[j];
    }
    return sum;
}

float kernel_max_c(const float *x, size_t n)
{
    float best = -INFINITY;
    size_t numbers = 0;
    for (size_t j = 0; j < n; j++) {
        numbers += x[j] == x[j];
        best = x[j] > best ? x[j] : best;
    }
    if (n > 0 && numbers == 0) {
        return NAN;
    }
    return best + 0.0f; /* of both zeros the positive one */
}

void kernel_index_combine_c(const float *w, size_t heads, const float *s, size_t s_stride, size_t n, float head_scale,
                            float *out)
{
    for (size_t j = 0; j < n; j++) {
        float sum = 0.0f;
        for (size_t h = 0; h < heads; h++) {
            float score = s[h * s_stride + j];
            float relu = score > 0.0f ? score : 0.0f;
            sum = fmaf(w[h], relu, sum);
        }
        out[j] = sum * head_scale;
    }
}

void kernel_rope_c(float *x, const float *cosine, const float *sine, size_t n_pairs)
{
    for (size_t j = 0; j < n_pairs; j++) {
        float x0 = x[2 * j];
        float x1 = x[2 * j + 1];
        x[2 * j] = x0 * cosine[j] - x1 * sine[j];
        x[2 * j + 1] = x1 * cosine[j] + x0 * sine[j];
    }
}

/* ---- norms ---- */

void kernel_rmsnorm_c(const float *x, const float *weight, size_t n, float eps, float *out)
{
    double acc[KERNEL_LANES] = {0};
    for (size_t k = 0; k < n; k++) {
        double value = x[k];
        acc[k % KERNEL_LANES] += value * value; /* the product is exact */
    }
    double mean = lane_sum_double(acc) / (double)n;
    float inverse = (float)(1.0 / sqrt(mean + (double)eps));
    for (size_t k = 0; k < n; k++) {
        out[k] = (x[k] * inverse) * weight[k];
    }
}

void kernel_layernorm_c(const float *x, const float *weight, const float *bias, size_t n, float eps, float *out)
{
    double acc[KERNEL_LANES] = {0};
    for (size_t k = 0; k < n; k++) {
        acc[k % KERNEL_LANES] += (double)x[k];
    }
    double mean = lane_sum_double(acc) / (double)n;
    memset(acc, 0, sizeof acc);
    for (size_t k = 0; k < n; k++) {
        double centred = (double)x[k] - mean;
        double square = centred * centred;
        acc[k % KERNEL_LANES] += square;
    }
    double variance = lane_sum_double(acc) / (double)n;
    float inverse = (float)(1.0 / sqrt(variance + (double)eps));
    for (size_t k = 0; k < n; k++) {
        float centred = (float)((double)x[k] - mean);
        out[k] = (centred * inverse) * weight[k] + bias[k];
    }
}

/* ---- elementwise ---- */

void kernel_sigmoid_c(float *x, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        x[j] = quant_sigmoid(x[j]);
    }
}

void kernel_silu_mul_c(const float *gate, const float *up, size_t n, float *out)
{
    for (size_t j = 0; j < n; j++) {
        out[j] = quant_silu_mul(gate[j], up[j]);
    }
}

void kernel_add_c(float *x, const float *y, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        x[j] = x[j] + y[j];
    }
}

void kernel_add_scaled_c(float *x, const float *y, float weight, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        float scaled = y[j] * weight;
        x[j] = x[j] + scaled;
    }
}
