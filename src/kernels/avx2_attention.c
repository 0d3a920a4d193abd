/* AVX2 + FMA: attention scores and the mix of latents.
 *
 * scores is a product of heads and keys by the lane rule: tiles of heads x keys accumulators, one lane
 * vector at a time, then the trees. mix shares each load of a value among several heads. */
#include <string.h>

#include "kernels/avx2_common.h"

#define SCORE_HEADS 3
#define SCORE_KEYS 4
#define MIX_HEADS 3
#define MIX_VECTORS 4

ALWAYS_INLINE const float *position_row(const float *base, size_t stride, const uint8_t *index, size_t j)
{
    return base + (index ? index[j] : j) * stride;
}

/* ---- scores ---- */

/* Heads and keys of one tile. The partial last round lies in padded copies: q with -0 and keys with +0,
 * so that a padded product is -0 and changes no lane. */
struct score_tile {
    const float *q[SCORE_HEADS];
    const float *key[SCORE_KEYS];
    size_t whole; /* columns in whole rounds */
    size_t dim;
    float q_tail[SCORE_HEADS][KERNEL_LANES];
    float key_tail[SCORE_KEYS][KERNEL_LANES];
};

/* Lane vector v of every dot product of the tile to sum. */
ALWAYS_INLINE void score_lanes(const struct score_tile *t, size_t heads, size_t keys, size_t v,
                               __m256 sum[SCORE_HEADS][SCORE_KEYS][LANE_VECTORS])
{
    __m256 acc[SCORE_HEADS][SCORE_KEYS];
    UNROLL
    for (size_t h = 0; h < heads; h++) {
        UNROLL
        for (size_t j = 0; j < keys; j++) {
            acc[h][j] = _mm256_setzero_ps();
        }
    }
    for (size_t k = v * VECTOR; k < t->whole; k += KERNEL_LANES) {
        __m256 q[SCORE_HEADS];
        UNROLL
        for (size_t h = 0; h < heads; h++) {
            q[h] = _mm256_loadu_ps(t->q[h] + k);
        }
        UNROLL
        for (size_t j = 0; j < keys; j++) {
            __m256 key = _mm256_loadu_ps(t->key[j] + k);
            UNROLL
            for (size_t h = 0; h < heads; h++) {
                acc[h][j] = _mm256_fmadd_ps(q[h], key, acc[h][j]);
            }
        }
    }
    UNROLL
    for (size_t h = 0; h < heads; h++) {
        UNROLL
        for (size_t j = 0; j < keys; j++) {
            if (t->whole < t->dim) {
                __m256 q = _mm256_loadu_ps(t->q_tail[h] + v * VECTOR);
                acc[h][j] = _mm256_fmadd_ps(q, _mm256_loadu_ps(t->key_tail[j] + v * VECTOR), acc[h][j]);
            }
            sum[h][j][v] = acc[h][j];
        }
    }
}

static void score_copy_tails(struct score_tile *t, size_t heads, size_t keys)
{
    size_t bytes = (t->dim - t->whole) * sizeof(float);
    for (size_t h = 0; h < heads; h++) {
        for (size_t i = 0; i < KERNEL_LANES; i++) {
            t->q_tail[h][i] = -0.0f;
        }
        memcpy(t->q_tail[h], t->q[h] + t->whole, bytes);
    }
    memset(t->key_tail, 0, sizeof t->key_tail);
    for (size_t j = 0; j < keys; j++) {
        memcpy(t->key_tail[j], t->key[j] + t->whole, bytes);
    }
}

ALWAYS_INLINE void score_tile(struct score_tile *t, size_t heads, size_t keys, float scale, float *out,
                              size_t out_stride)
{
    __m256 sum[SCORE_HEADS][SCORE_KEYS][LANE_VECTORS];
    if (t->whole < t->dim) {
        score_copy_tails(t, heads, keys);
    }
    for (size_t v = 0; v < LANE_VECTORS; v++) {
        score_lanes(t, heads, keys, v, sum);
    }
    for (size_t h = 0; h < heads; h++) {
        if (keys == SCORE_KEYS) {
            __m128 total =
                lanes_sum4(lanes_fold(sum[h][0]), lanes_fold(sum[h][1]), lanes_fold(sum[h][2]), lanes_fold(sum[h][3]));
            _mm_storeu_ps(out + h * out_stride, _mm_mul_ps(total, _mm_set1_ps(scale)));
            continue;
        }
        for (size_t j = 0; j < keys; j++) {
            out[h * out_stride + j] = lanes_sum(lanes_fold(sum[h][j])) * scale;
        }
    }
}

/* Full tiles, and edges with one head or one key at a time. */
static void score_tile_edge(struct score_tile *t, size_t heads, size_t keys, float scale, float *out, size_t out_stride)
{
    if (heads == SCORE_HEADS && keys == SCORE_KEYS) {
        score_tile(t, SCORE_HEADS, SCORE_KEYS, scale, out, out_stride);
    } else if (heads == 2 && keys == SCORE_KEYS) {
        score_tile(t, 2, SCORE_KEYS, scale, out, out_stride);
    } else if (heads == 1 && keys == SCORE_KEYS) {
        score_tile(t, 1, SCORE_KEYS, scale, out, out_stride);
    } else if (heads == SCORE_HEADS) {
        score_tile(t, SCORE_HEADS, 1, scale, out, out_stride);
    } else if (heads == 2) {
        score_tile(t, 2, 1, scale, out, out_stride);
    } else {
        score_tile(t, 1, 1, scale, out, out_stride);
    }
}

void kernel_scores_avx2(const float *q, size_t q_stride, size_t heads, const float *keys, size_t key_stride,
                        const uint8_t *index, size_t n, size_t dim, float scale, float *out, size_t out_stride)
{
    struct score_tile t = {.whole = dim / KERNEL_LANES * KERNEL_LANES, .dim = dim};
    size_t key_count;
    for (size_t j = 0; j < n; j += key_count) {
        key_count = n - j >= SCORE_KEYS ? SCORE_KEYS : 1;
        for (size_t i = 0; i < key_count; i++) {
            t.key[i] = position_row(keys, key_stride, index, j + i);
        }
        for (size_t h = 0; h < heads; h += SCORE_HEADS) {
            size_t head_count = heads - h < SCORE_HEADS ? heads - h : SCORE_HEADS;
            for (size_t i = 0; i < head_count; i++) {
                t.q[i] = q + (h + i) * q_stride;
            }
            score_tile_edge(&t, head_count, key_count, scale, out + h * out_stride + j, out_stride);
        }
    }
}

/* ---- mix ---- */

struct mix_args {
    const float *p; /* [heads][n] */
    size_t p_stride;
    const float *values; /* at the tile's first column */
    size_t value_stride;
    const uint8_t *index;
    size_t n;
    float *out; /* at the tile's first column */
    size_t out_stride;
};

/* A tile of whole vectors. */
ALWAYS_INLINE void mix_tile(const struct mix_args *a, size_t heads, size_t vectors)
{
    __m256 acc[MIX_HEADS][MIX_VECTORS];
    UNROLL
    for (size_t h = 0; h < heads; h++) {
        UNROLL
        for (size_t i = 0; i < vectors; i++) {
            acc[h][i] = _mm256_setzero_ps();
        }
    }
    for (size_t j = 0; j < a->n; j++) {
        const float *row = position_row(a->values, a->value_stride, a->index, j);
        __m256 p[MIX_HEADS];
        UNROLL
        for (size_t h = 0; h < heads; h++) {
            p[h] = _mm256_broadcast_ss(a->p + h * a->p_stride + j);
        }
        UNROLL
        for (size_t i = 0; i < vectors; i++) {
            __m256 value = _mm256_loadu_ps(row + i * VECTOR);
            UNROLL
            for (size_t h = 0; h < heads; h++) {
                acc[h][i] = _mm256_fmadd_ps(p[h], value, acc[h][i]);
            }
        }
    }
    UNROLL
    for (size_t h = 0; h < heads; h++) {
        UNROLL
        for (size_t i = 0; i < vectors; i++) {
            _mm256_storeu_ps(a->out + h * a->out_stride + i * VECTOR, acc[h][i]);
        }
    }
}

/* The last dim % 8 columns of one head. */
static void mix_columns(const struct mix_args *a, size_t columns)
{
    __m256i mask = vector_mask(columns);
    __m256 acc = _mm256_setzero_ps();
    for (size_t j = 0; j < a->n; j++) {
        const float *row = position_row(a->values, a->value_stride, a->index, j);
        acc = _mm256_fmadd_ps(_mm256_broadcast_ss(a->p + j), _mm256_maskload_ps(row, mask), acc);
    }
    _mm256_maskstore_ps(a->out, mask, acc);
}

/* All columns [0, dim) of up to MIX_HEADS heads. */
ALWAYS_INLINE void mix_heads(struct mix_args a, size_t heads, size_t dim)
{
    size_t d = 0;
    for (; d + MIX_VECTORS * VECTOR <= dim; d += MIX_VECTORS * VECTOR) {
        mix_tile(&a, heads, MIX_VECTORS);
        a.values += MIX_VECTORS * VECTOR;
        a.out += MIX_VECTORS * VECTOR;
    }
    for (; d + VECTOR <= dim; d += VECTOR) {
        mix_tile(&a, heads, 1);
        a.values += VECTOR;
        a.out += VECTOR;
    }
    for (size_t h = 0; h < heads && d < dim; h++) {
        mix_columns(&a, dim - d);
        a.p += a.p_stride;
        a.out += a.out_stride;
    }
}

void kernel_mix_avx2(const float *p, size_t p_stride, size_t heads, const float *values, size_t value_stride,
                     const uint8_t *index, size_t n, size_t dim, float *out, size_t out_stride)
{
    struct mix_args a = {p, p_stride, values, value_stride, index, n, out, out_stride};
    for (size_t h = 0; h < heads; h += MIX_HEADS) {
        a.p = p + h * p_stride;
        a.out = out + h * out_stride;
        switch (heads - h) {
        case 1:
            mix_heads(a, 1, dim);
            break;
        case 2:
            mix_heads(a, 2, dim);
            break;
        default:
            mix_heads(a, MIX_HEADS, dim);
        }
    }
}
