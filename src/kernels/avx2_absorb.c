/* AVX2 + FMA: absorb, the transposed product out[c] = fold over d of fma(a[d], w[d][c]).
 *
 * Weight rows are streamed SLAB rows at a time in tiles of 64 columns. For one input row the accumulators
 * of a tile sit in eight registers while the slab passes; for several, the tile is unpacked to floats
 * once and every input row sweeps over it.
 * int4 tiles stay in the order in which words unpack, nibble by nibble over eight words, and are
 * transposed to column order once, after the last row. */
#include <string.h>

#include "kernels/avx2_matmul.h"

#define TILE (VECTOR * VECTOR) /* columns of a tile */
#define SLAB VECTOR            /* weight rows that pass over one tile before the next tile */
#define PANEL_TILES 16         /* tiles whose accumulators wait in memory at once: 4 KB */
#define PREFETCH_BYTES 8192    /* about how far ahead weights are asked for */
#define UNPACKED_ROWS 32       /* weight rows unpacked at once */
#define GROUP_INPUTS 16        /* input rows that share an unpacked tile */
#define INPUT_TILE 3           /* input rows per register tile */
#define VECTOR_TILE 4          /* column vectors per register tile */

struct absorb {
    const struct quant_matrix *w;
    size_t row_bytes;
    size_t ahead; /* bytes from a weight to the one that is prefetched with it: whole rows */
    size_t row0;
    size_t n;       /* weight rows */
    const float *x; /* [m][n] */
    size_t x_stride;
    size_t m;
    float *out; /* [m], indexed by column */
    size_t out_stride;
};

/* ---- reading a tile row ---- */

/* Weight row d at a column that is a multiple of 8. */
ALWAYS_INLINE const uint8_t *tile_weights(const struct absorb *p, size_t d, size_t col)
{
    size_t offset = col; /* int8 */
    if (kind_is_int4(p->w->kind)) {
        offset = col / 2;
    } else if (p->w->kind == QUANT_F32) {
        offset = col * sizeof(float);
    }
    return (const uint8_t *)p->w->weights + (p->row0 + d) * p->row_bytes + offset;
}

/* The same columns some rows further on. It may lie beyond the matrix: a prefetch never faults. */
ALWAYS_INLINE void prefetch_ahead(const struct absorb *p, const uint8_t *weights)
{
    _mm_prefetch((const char *)((uintptr_t)weights + p->ahead), _MM_HINT_T0);
}

/* Up to eight words at `weights`, the missing ones zero. */
ALWAYS_INLINE __m256i load_words(const uint8_t *weights, size_t words)
{
    return _mm256_maskload_epi32((const int *)(const void *)weights, vector_mask(words));
}

/* The scales of eight accumulator elements of an int4 tile of grouped row d: one per word. The tile begins
 * in group `group`, `left` columns before that group's end. */
static __m256 word_scales(const struct absorb *p, size_t d, size_t columns, size_t group, size_t left)
{
    const float *scales = p->w->scales + (p->row0 + d) * quant_row_scales(QUANT_INT4_GROUP, p->w->cols, p->w->group);
    if (left >= columns) {
        return _mm256_broadcast_ss(scales + group);
    }
    float spread[VECTOR] = {0};
    for (size_t i = 0; i < columns / KERNEL_WORD_COLS; i++) {
        if (left == 0) {
            group++;
            left = p->w->group;
        }
        spread[i] = scales[group];
        left -= KERNEL_WORD_COLS;
    }
    return _mm256_loadu_ps(spread);
}

/* Rows d .. d + rows of column range [col, col + columns): one vector of scales a row. */
static void tile_scales(const struct absorb *p, size_t d, size_t rows, size_t col, size_t columns, float (*out)[VECTOR])
{
    size_t group = 0;
    size_t left = 0;
    if (p->w->kind == QUANT_INT4_GROUP) {
        group = col / p->w->group;
        left = (group + 1) * p->w->group - col;
    }
    for (size_t r = 0; r < rows; r++) {
        __m256 scale = _mm256_set1_ps(1.0f);
        if (p->w->kind == QUANT_INT4_GROUP) {
            scale = word_scales(p, d + r, columns, group, left);
        } else if (p->w->kind != QUANT_F32) {
            scale = _mm256_broadcast_ss(p->w->scales + p->row0 + d + r);
        }
        _mm256_store_ps(out[r], scale);
    }
}

/* Stores the accumulators of a tile as columns. */
static void tile_store(enum quant_kind kind, const float *sum, size_t columns, float *out)
{
    __m256 v[VECTOR];
    float ordered[TILE];
    for (size_t i = 0; i < VECTOR; i++) {
        v[i] = _mm256_loadu_ps(sum + i * VECTOR);
    }
    if (kind_is_int4(kind)) {
        vectors_transpose(v);
    }
    for (size_t i = 0; i < VECTOR; i++) {
        _mm256_storeu_ps(ordered + i * VECTOR, v[i]);
    }
    memcpy(out, ordered, columns * sizeof(float));
}

/* ---- one input row ---- */

/* The factors of a slab for the int4 tiles up to column `end`: a[d] * 2^-(4 * phase), or a[d] alone when
 * that would lose bits (plain). A tile that lies in several groups has a factor for each word (spread). */
struct slab_factors {
    size_t end;
    bool plain;
    bool spread;
    float row[INT4_PHASES][SLAB] __attribute__((aligned(32)));           /* not spread */
    float words[SLAB][INT4_PHASES][VECTOR] __attribute__((aligned(32))); /* spread */
};

/* The four scalings of eight factors, `stride` floats apart; true when they must stay plain. */
ALWAYS_INLINE void store_phases(__m256 a, bool plain, size_t stride, float *out)
{
    UNROLL
    for (size_t phase = 0; phase < INT4_PHASES; phase++) {
        _mm256_store_ps(out + phase * stride, plain ? a : _mm256_mul_ps(a, int4_unscale(phase)));
    }
}

/* One factor a row: eight rows are one vector. */
static void slab_prepare_rows(const struct absorb *p, size_t d, size_t rows, size_t group, struct slab_factors *f)
{
    float scales[SLAB] = {0};
    size_t row_scales = quant_row_scales(p->w->kind, p->w->cols, p->w->group);
    const float *from = p->w->scales + (p->row0 + d) * row_scales + group;
    for (size_t r = 0; r < rows; r++) {
        scales[r] = from[r * row_scales];
    }
    __m256 a = _mm256_mul_ps(_mm256_maskload_ps(p->x + d, vector_mask(rows)), _mm256_loadu_ps(scales));
    f->spread = false;
    f->plain = _mm256_movemask_ps(vector_is_tiny(a)) != 0;
    store_phases(a, f->plain, SLAB, f->row[0]);
}

/* One factor a word. */
static void slab_prepare_words(const struct absorb *p, size_t d, size_t rows, size_t col, size_t columns,
                               struct slab_factors *f)
{
    float scales[SLAB][VECTOR] __attribute__((aligned(32)));
    __m256 a[SLAB];
    __m256 tiny = _mm256_setzero_ps();
    tile_scales(p, d, rows, col, columns, scales);
    for (size_t r = 0; r < rows; r++) {
        a[r] = _mm256_mul_ps(_mm256_set1_ps(p->x[d + r]), _mm256_load_ps(scales[r]));
        tiny = _mm256_or_ps(tiny, vector_is_tiny(a[r]));
    }
    f->spread = true;
    f->plain = _mm256_movemask_ps(tiny) != 0;
    for (size_t r = 0; r < rows; r++) {
        store_phases(a[r], f->plain, VECTOR, f->words[r][0]);
    }
}

static void slab_prepare(const struct absorb *p, size_t d, size_t rows, size_t col, size_t columns,
                         struct slab_factors *f)
{
    size_t group = 0;
    f->end = SIZE_MAX;
    if (p->w->kind == QUANT_INT4_GROUP) {
        group = col / p->w->group;
        f->end = (group + 1) * p->w->group;
    }
    if (col + columns <= f->end) {
        slab_prepare_rows(p, d, rows, group, f);
    } else {
        f->end = col + columns;
        slab_prepare_words(p, d, rows, col, columns, f);
    }
}

/* Passes a slab of int4 rows over one tile. */
ALWAYS_INLINE void slab_int4(const struct absorb *p, const uint8_t *weights, size_t rows, size_t words, bool plain,
                             bool spread, const struct slab_factors *f, float *sum)
{
    __m256 acc[VECTOR];
    UNROLL
    for (size_t j = 0; j < VECTOR; j++) {
        acc[j] = _mm256_load_ps(sum + j * VECTOR);
    }
    for (size_t r = 0; r < rows; r++) {
        const uint8_t *row = weights + r * p->row_bytes;
        prefetch_ahead(p, row);
        __m256i word = load_words(row, words);
        __m256i half[2] = {int4_low_half(word), int4_high_half(word)};
        UNROLL
        for (size_t j = 0; j < VECTOR; j++) {
            __m256 value = int4_expand(half[j / INT4_PHASES], j % INT4_PHASES);
            if (plain) {
                value = _mm256_mul_ps(value, int4_unscale(j % INT4_PHASES));
            }
            size_t phase = j % INT4_PHASES;
            __m256 a = spread ? _mm256_load_ps(f->words[r][phase]) : _mm256_broadcast_ss(&f->row[phase][r]);
            acc[j] = _mm256_fmadd_ps(a, value, acc[j]);
        }
    }
    UNROLL
    for (size_t j = 0; j < VECTOR; j++) {
        _mm256_store_ps(sum + j * VECTOR, acc[j]);
    }
}

/* Passes a slab of int8 rows over one whole tile. */
static void slab_int8(const struct absorb *p, const uint8_t *weights, size_t rows, const float *a, float *sum)
{
    __m256 acc[VECTOR];
    UNROLL
    for (size_t j = 0; j < VECTOR; j++) {
        acc[j] = _mm256_load_ps(sum + j * VECTOR);
    }
    for (size_t r = 0; r < rows; r++) {
        const __m256 factor = _mm256_broadcast_ss(a + r);
        const uint8_t *row = weights + r * p->row_bytes;
        prefetch_ahead(p, row);
        UNROLL
        for (size_t j = 0; j < VECTOR; j++) {
            __m256 value = load_columns(QUANT_INT8_ROW, row + j * VECTOR);
            acc[j] = _mm256_fmadd_ps(factor, value, acc[j]);
        }
    }
    UNROLL
    for (size_t j = 0; j < VECTOR; j++) {
        _mm256_store_ps(sum + j * VECTOR, acc[j]);
    }
}

/* One slab over columns [col, end), whole tiles and a partial last one for int4. */
static void slab_pass(const struct absorb *p, size_t d, size_t rows, size_t col, size_t end, float *sum)
{
    struct slab_factors f;
    f.end = 0;
    f.plain = f.spread = false;
    float a[SLAB];
    bool int8 = p->w->kind == QUANT_INT8_ROW;
    for (size_t r = 0; r < rows && int8; r++) {
        a[r] = p->x[d + r] * p->w->scales[p->row0 + d + r];
    }
    for (size_t c = col; c < end; c += TILE, sum += TILE) {
        const uint8_t *weights = tile_weights(p, d, c);
        size_t columns = end - c < TILE ? end - c : TILE;
        if (int8) {
            slab_int8(p, weights, rows, a, sum);
            continue;
        }
        if (c + columns > f.end) {
            slab_prepare(p, d, rows, c, columns, &f);
        }
        size_t words = columns / KERNEL_WORD_COLS;
        if (f.plain || f.spread) {
            slab_int4(p, weights, rows, words, f.plain, f.spread, &f, sum);
        } else {
            slab_int4(p, weights, rows, words, false, false, &f, sum);
        }
    }
}

/* One input row, columns [col_begin, col_end): int4, or int8 in whole tiles. */
static void absorb_single(const struct absorb *p, size_t col_begin, size_t col_end)
{
    float sum[PANEL_TILES * TILE] __attribute__((aligned(32)));
    for (size_t col = col_begin; col < col_end; col += PANEL_TILES * TILE) {
        size_t end = col_end - col < PANEL_TILES * TILE ? col_end : col + PANEL_TILES * TILE;
        memset(sum, 0, sizeof sum);
        for (size_t d = 0; d < p->n; d += SLAB) {
            slab_pass(p, d, p->n - d < SLAB ? p->n - d : SLAB, col, end, sum);
        }
        for (size_t c = col; c < end; c += TILE) {
            tile_store(p->w->kind, sum + (c - col), end - c < TILE ? end - c : TILE, p->out + c);
        }
    }
}

/* ---- several input rows ---- */

/* Some rows of a tile as floats, and the scales of its accumulators' elements. */
struct unpacked_tile {
    float weights[UNPACKED_ROWS][TILE] __attribute__((aligned(32)));
    float scales[UNPACKED_ROWS][VECTOR] __attribute__((aligned(32)));
    float sum[GROUP_INPUTS][TILE] __attribute__((aligned(32)));
};

static void unpack_tile_row(enum quant_kind kind, const uint8_t *weights, size_t columns, float *out)
{
    if (!kind_is_int4(kind)) {
        size_t bytes = kind == QUANT_INT8_ROW ? VECTOR : VECTOR * sizeof(float);
        for (size_t j = 0; j < columns / VECTOR; j++) {
            _mm256_store_ps(out + j * VECTOR, load_columns(kind, weights + j * bytes));
        }
        return;
    }
    __m256i word = load_words(weights, columns / KERNEL_WORD_COLS);
    __m256i half[2] = {int4_low_half(word), int4_high_half(word)};
    UNROLL
    for (size_t j = 0; j < VECTOR; j++) {
        __m256 value = int4_expand(half[j / INT4_PHASES], j % INT4_PHASES);
        _mm256_store_ps(out + j * VECTOR, _mm256_mul_ps(value, int4_unscale(j % INT4_PHASES)));
    }
}

/* `inputs` input rows by VECTOR_TILE accumulators; x at the first unpacked row. */
ALWAYS_INLINE void sweep(size_t inputs, const struct unpacked_tile *t, size_t vector, size_t rows, const float *x,
                         size_t x_stride, float *sum)
{
    __m256 acc[INPUT_TILE][VECTOR_TILE];
    UNROLL
    for (size_t i = 0; i < inputs; i++) {
        UNROLL
        for (size_t v = 0; v < VECTOR_TILE; v++) {
            acc[i][v] = _mm256_load_ps(sum + i * TILE + v * VECTOR);
        }
    }
    for (size_t r = 0; r < rows; r++) {
        __m256 a[INPUT_TILE];
        UNROLL
        for (size_t i = 0; i < inputs; i++) {
            a[i] = _mm256_mul_ps(_mm256_broadcast_ss(x + i * x_stride + r), _mm256_load_ps(t->scales[r]));
        }
        UNROLL
        for (size_t v = 0; v < VECTOR_TILE; v++) {
            __m256 value = _mm256_load_ps(t->weights[r] + (vector + v) * VECTOR);
            UNROLL
            for (size_t i = 0; i < inputs; i++) {
                acc[i][v] = _mm256_fmadd_ps(a[i], value, acc[i][v]);
            }
        }
    }
    UNROLL
    for (size_t i = 0; i < inputs; i++) {
        UNROLL
        for (size_t v = 0; v < VECTOR_TILE; v++) {
            _mm256_store_ps(sum + i * TILE + v * VECTOR, acc[i][v]);
        }
    }
}

/* All input rows of the group over the unpacked rows. */
static void sweep_inputs(struct unpacked_tile *t, size_t inputs, size_t rows, const float *x, size_t x_stride)
{
    for (size_t vector = 0; vector < VECTOR; vector += VECTOR_TILE) {
        for (size_t i = 0; i < inputs; i += INPUT_TILE) {
            float *sum = t->sum[i] + vector * VECTOR;
            const float *from = x + i * x_stride;
            switch (inputs - i) {
            case 1:
                sweep(1, t, vector, rows, from, x_stride, sum);
                break;
            case 2:
                sweep(2, t, vector, rows, from, x_stride, sum);
                break;
            default:
                sweep(INPUT_TILE, t, vector, rows, from, x_stride, sum);
            }
        }
    }
}

static void absorb_several(const struct absorb *p, size_t col_begin, size_t col_end)
{
    struct unpacked_tile t;
    memset(&t, 0, sizeof t);
    for (size_t first = 0; first < p->m; first += GROUP_INPUTS) {
        size_t inputs = p->m - first < GROUP_INPUTS ? p->m - first : GROUP_INPUTS;
        for (size_t col = col_begin; col < col_end; col += TILE) {
            size_t columns = col_end - col < TILE ? col_end - col : TILE;
            memset(t.sum, 0, sizeof t.sum);
            for (size_t d = 0; d < p->n; d += UNPACKED_ROWS) {
                size_t rows = p->n - d < UNPACKED_ROWS ? p->n - d : UNPACKED_ROWS;
                for (size_t r = 0; r < rows; r++) {
                    const uint8_t *weights = tile_weights(p, d + r, col);
                    prefetch_ahead(p, weights);
                    unpack_tile_row(p->w->kind, weights, columns, t.weights[r]);
                }
                tile_scales(p, d, rows, col, columns, t.scales);
                sweep_inputs(&t, inputs, rows, p->x + first * p->x_stride + d, p->x_stride);
            }
            for (size_t i = 0; i < inputs; i++) {
                tile_store(p->w->kind, t.sum[i], columns, p->out + (first + i) * p->out_stride + col);
            }
        }
    }
}

void kernel_absorb_avx2(const struct quant_matrix *w, size_t row0, size_t n, size_t col_begin, size_t col_end,
                        const float *x, size_t x_stride, size_t m, float *out, size_t out_stride)
{
    size_t row_bytes = quant_row_bytes(w->kind, w->cols);
    size_t ahead = (PREFETCH_BYTES + row_bytes - 1) / row_bytes * row_bytes;
    struct absorb p = {w, row_bytes, ahead, row0, n, x, x_stride, m, out, out_stride};
    size_t whole_end = col_begin + (col_end - col_begin) / TILE * TILE;
    if (m == 1 && kind_is_int4(w->kind)) {
        absorb_single(&p, col_begin, col_end);
    } else if (m == 1 && w->kind == QUANT_INT8_ROW) {
        absorb_single(&p, col_begin, whole_end);
        absorb_several(&p, whole_end, col_end);
    } else {
        absorb_several(&p, col_begin, col_end);
    }
}
