/* See avx2_tile.h. Every tile is an instance of one of two inline bodies with constant shape, so that its
 * accumulators are registers: at most twelve, at least eight where the shape allows, to hide the latency
 * of fma. */
#include "kernels/avx2_tile.h"

typedef __m256 tile_sum[TILE_ROWS_MAX][TILE_INPUTS];

/* ---- accumulators ---- */

ALWAYS_INLINE void tile_clear(size_t rows, size_t inputs, tile_sum acc)
{
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t i = 0; i < inputs; i++) {
            acc[r][i] = _mm256_setzero_ps();
        }
    }
}

ALWAYS_INLINE void tile_load(size_t rows, size_t inputs, const float *sum, tile_sum acc)
{
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t i = 0; i < inputs; i++) {
            acc[r][i] = _mm256_load_ps(sum + r * SUM_STRIDE + i * VECTOR);
        }
    }
}

ALWAYS_INLINE void tile_store(size_t rows, size_t inputs, float *sum, tile_sum acc)
{
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t i = 0; i < inputs; i++) {
            _mm256_store_ps(sum + r * SUM_STRIDE + i * VECTOR, acc[r][i]);
        }
    }
}

/* Grouped scales: the registers hold the words of a round, which enter their lanes in memory. */
ALWAYS_INLINE void tile_enter_words(size_t rows, size_t inputs, const float *scales, float *sum, tile_sum word)
{
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        __m256 scale = _mm256_load_ps(scales + r * SCALES_STRIDE);
        UNROLL
        for (size_t i = 0; i < inputs; i++) {
            float *lane = sum + r * SUM_STRIDE + i * VECTOR;
            _mm256_store_ps(lane, _mm256_fmadd_ps(word[r][i], scale, _mm256_load_ps(lane)));
        }
    }
    tile_clear(rows, inputs, word);
}

/* One step: each weight vector with each input's vector. */
ALWAYS_INLINE void tile_step(size_t rows, size_t inputs, const __m256 weight[TILE_ROWS_MAX], const float *x,
                             size_t x_stride, tile_sum acc)
{
    UNROLL
    for (size_t i = 0; i < inputs; i++) {
        __m256 value = _mm256_load_ps(x + i * x_stride);
        KEEP(value);
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            acc[r][i] = _mm256_fmadd_ps(weight[r], value, acc[r][i]);
        }
    }
}

/* ---- unpacked weights ---- */

ALWAYS_INLINE void unpacked_steps(size_t rows, size_t inputs, const struct tile *t, size_t begin, size_t end,
                                  tile_sum acc)
{
    for (size_t step = begin; step < end; step++) {
        __m256 weight[TILE_ROWS_MAX];
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            weight[r] = _mm256_load_ps(t->weights + r * UNPACKED_STRIDE + step * VECTOR);
        }
        tile_step(rows, inputs, weight, t->x + step * VECTOR, t->x_stride, acc);
    }
}

/* steps: of a round, 1 or 8. */
ALWAYS_INLINE void unpacked_tile(size_t steps, size_t rows, size_t inputs, const struct tile *t)
{
    tile_sum acc;
    tile_load(rows, inputs, t->sum, acc);
    unpacked_steps(rows, inputs, t, 0, t->rounds * steps, acc);
    tile_store(rows, inputs, t->sum, acc);
}

ALWAYS_INLINE void unpacked_grouped_tile(size_t rows, size_t inputs, const struct tile *t)
{
    tile_sum word;
    tile_clear(rows, inputs, word);
    for (size_t round = 0; round < t->rounds; round++) {
        size_t begin = round * KERNEL_WORD_COLS;
        unpacked_steps(rows, inputs, t, begin, begin + KERNEL_WORD_COLS, word);
        tile_enter_words(rows, inputs, t->scales + round * KERNEL_LANES, t->sum, word);
    }
}

/* ---- direct ---- */

/* Half of a round's nibbles, 0 the lower four; x at its first step. */
ALWAYS_INLINE void direct_nibbles(size_t half, size_t rows, size_t inputs, const struct tile *t, const uint8_t *packed,
                                  const float *x, tile_sum acc)
{
    __m256i nibbles[TILE_ROWS_MAX];
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)(packed + r * t->packed_stride));
        nibbles[r] = half == 0 ? int4_low_half(words) : int4_high_half(words);
    }
    UNROLL
    for (size_t phase = 0; phase < INT4_PHASES; phase++) {
        __m256 weight[TILE_ROWS_MAX];
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            weight[r] = int4_expand(nibbles[r], phase);
        }
        tile_step(rows, inputs, weight, x + phase * VECTOR, t->x_stride, acc);
    }
}

/* One round of the tile, whatever the kind. */
ALWAYS_INLINE void direct_round(enum quant_kind kind, size_t rows, size_t inputs, const struct tile *t, size_t round,
                                tile_sum acc)
{
    const uint8_t *packed = t->packed + round * round_bytes(kind);
    const float *x = t->x + round * round_steps(kind) * VECTOR;
    if (kind_is_int4(kind)) {
        direct_nibbles(0, rows, inputs, t, packed, x, acc);
        direct_nibbles(1, rows, inputs, t, packed, x + INT4_PHASES * VECTOR, acc);
        return;
    }
    __m256 weight[TILE_ROWS_MAX];
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        weight[r] = load_columns(kind, packed + r * t->packed_stride);
    }
    tile_step(rows, inputs, weight, x, t->x_stride, acc);
}

ALWAYS_INLINE void direct_tile(enum quant_kind kind, size_t rows, size_t inputs, const struct tile *t)
{
    tile_sum acc;
    if (kind == QUANT_INT4_GROUP) {
        tile_clear(rows, inputs, acc);
        for (size_t round = 0; round < t->rounds; round++) {
            direct_round(kind, rows, inputs, t, round, acc);
            tile_enter_words(rows, inputs, t->scales + round * KERNEL_LANES, t->sum, acc);
        }
        return;
    }
    tile_load(rows, inputs, t->sum, acc);
    for (size_t round = 0; round < t->rounds; round++) {
        direct_round(kind, rows, inputs, t, round, acc);
    }
    tile_store(rows, inputs, t->sum, acc);
}

/* ---- instances ---- */

#define UNPACKED_INSTANCE(rows, inputs)                                  \
    static void unpacked_columns_##rows##x##inputs(const struct tile *t) \
    {                                                                    \
        unpacked_tile(1, rows, inputs, t);                               \
    }                                                                    \
    static void unpacked_int4_##rows##x##inputs(const struct tile *t)    \
    {                                                                    \
        unpacked_tile(KERNEL_WORD_COLS, rows, inputs, t);                \
    }                                                                    \
    static void unpacked_grouped_##rows##x##inputs(const struct tile *t) \
    {                                                                    \
        unpacked_grouped_tile(rows, inputs, t);                          \
    }
#define FOR_INPUTS(X, rows) X(rows, 1) X(rows, 2) X(rows, 3) X(rows, 4)
FOR_INPUTS(UNPACKED_INSTANCE, 1)
FOR_INPUTS(UNPACKED_INSTANCE, 2)
FOR_INPUTS(UNPACKED_INSTANCE, 3)

tile_function tile_unpacked(enum quant_kind kind, size_t rows, size_t inputs)
{
#define COLUMNS_NAME(rows, inputs) unpacked_columns_##rows##x##inputs,
#define INT4_NAME(rows, inputs) unpacked_int4_##rows##x##inputs,
#define GROUPED_NAME(rows, inputs) unpacked_grouped_##rows##x##inputs,
#define FOR_ROWS(X)                             \
    {                                           \
        {FOR_INPUTS(X, 1)}, {FOR_INPUTS(X, 2)}, \
        {                                       \
            FOR_INPUTS(X, 3)                    \
        }                                       \
    }
    static const tile_function functions[][TILE_ROWS][TILE_INPUTS] = {
        [QUANT_F32] = FOR_ROWS(COLUMNS_NAME),
        [QUANT_INT8_ROW] = FOR_ROWS(COLUMNS_NAME),
        [QUANT_INT4_ROW] = FOR_ROWS(INT4_NAME),
        [QUANT_INT4_GROUP] = FOR_ROWS(GROUPED_NAME),
    };
    return functions[kind][rows - 1][inputs - 1];
}

#define DIRECT_INSTANCE(kind, rows, inputs)                             \
    static void direct_##kind##_##rows##x##inputs(const struct tile *t) \
    {                                                                   \
        direct_tile(QUANT_##kind, rows, inputs, t);                     \
    }
#define FOR_DIRECT(X, kind) X(kind, 1, 2) X(kind, 1, 3) X(kind, 1, 4) X(kind, 4, 2) X(kind, 3, 3) X(kind, 2, 4)
FOR_DIRECT(DIRECT_INSTANCE, F32)
FOR_DIRECT(DIRECT_INSTANCE, INT8_ROW)
FOR_DIRECT(DIRECT_INSTANCE, INT4_ROW)
FOR_DIRECT(DIRECT_INSTANCE, INT4_GROUP)

size_t tile_direct_rows(size_t inputs)
{
    static const size_t rows[TILE_INPUTS + 1] = {[2] = 4, [3] = 3, [4] = 2};
    return rows[inputs];
}

tile_function tile_direct(enum quant_kind kind, size_t rows, size_t inputs)
{
#define DIRECT_NAME(kind, rows, inputs) direct_##kind##_##rows##x##inputs,
    enum { SHAPES = 6 }; /* one row by 2, 3, 4 inputs, then the wide tiles of 2, 3, 4 inputs */
    static const tile_function functions[][SHAPES] = {
        [QUANT_F32] = {FOR_DIRECT(DIRECT_NAME, F32)},
        [QUANT_INT8_ROW] = {FOR_DIRECT(DIRECT_NAME, INT8_ROW)},
        [QUANT_INT4_ROW] = {FOR_DIRECT(DIRECT_NAME, INT4_ROW)},
        [QUANT_INT4_GROUP] = {FOR_DIRECT(DIRECT_NAME, INT4_GROUP)},
    };
    return functions[kind][(rows == 1 ? 0 : SHAPES / 2) + inputs - 2];
}
