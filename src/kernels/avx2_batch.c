/* AVX2 + FMA: weight rows times several input rows, each weight read and unpacked once per sixteen.
 *
 * Work goes block by block: BLOCK_ROWS weight rows by BLOCK_INPUTS input rows. Within a block the dot
 * products advance in chunks of CHUNK_STEPS steps of one lane vector: the chunk of every weight row is
 * unpacked to floats, then tiles of TILE_ROWS x TILE_INPUTS accumulators sweep over it from the first
 * cache level. Between chunks the accumulators rest in memory, which changes no bit; a lane's own order
 * of fma (rounds ascending, nibbles ascending) is never touched. */
#include "kernels/avx2_matmul.h"

#define TILE_ROWS 3
#define TILE_INPUTS 4
#define BLOCK_ROWS 12   /* a multiple of TILE_ROWS */
#define BLOCK_INPUTS 16 /* a multiple of TILE_INPUTS */
#define CHUNK_STEPS 64  /* a multiple of the 8 steps of an int4 round */
#define CHUNK_ROUNDS (CHUNK_STEPS / KERNEL_WORD_COLS)
#define UNPACKED_STRIDE (CHUNK_STEPS * VECTOR)
#define SCALES_STRIDE (CHUNK_ROUNDS * KERNEL_LANES)
#define SUM_STRIDE (BLOCK_INPUTS * VECTOR)

/* Scratch of one block, about 65 KB on the stack. */
struct batch {
    const struct quant_matrix *w;
    size_t row;  /* first weight row of the block */
    size_t rows; /* at most BLOCK_ROWS */
    bool plain;
    size_t inputs;        /* at most BLOCK_INPUTS */
    const float *x;       /* values of the block's first input row */
    size_t x_stride;      /* floats to the next input row */
    size_t vector_stride; /* floats from one lane vector's values to the next one's */
    float sum[LANE_VECTORS][BLOCK_ROWS * SUM_STRIDE] __attribute__((aligned(32)));
    float unpacked[BLOCK_ROWS * UNPACKED_STRIDE] __attribute__((aligned(32)));
    float scales[BLOCK_ROWS * SCALES_STRIDE] __attribute__((aligned(32)));
    uint8_t tail[BLOCK_ROWS * ROUND_BYTES_MAX];
};

/* ---- unpacking ---- */

ALWAYS_INLINE void unpack_int4(const uint8_t *weights, size_t rounds, bool plain, float *out)
{
    for (size_t round = 0; round < rounds; round++) {
        __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)(weights + round * ROUND_BYTES_MAX));
        __m256i half[2] = {int4_low_half(words), int4_high_half(words)};
        UNROLL
        for (size_t j = 0; j < KERNEL_WORD_COLS; j++) {
            __m256 value = int4_expand(half[j / INT4_PHASES], j % INT4_PHASES);
            if (plain) {
                value = _mm256_mul_ps(value, int4_unscale(j % INT4_PHASES));
            }
            _mm256_store_ps(out + (round * KERNEL_WORD_COLS + j) * VECTOR, value);
        }
    }
}

/* Lane vector v of every row of the block in this run. */
static void unpack_rows(struct batch *b, struct matmul_run run, size_t v)
{
    enum quant_kind kind = b->w->kind;
    for (size_t r = 0; r < b->rows; r++) {
        const uint8_t *weights = run.weights + r * run.weight_stride + v * (round_bytes(kind) / LANE_VECTORS);
        float *out = b->unpacked + r * UNPACKED_STRIDE;
        if (kind_is_int4(kind)) {
            if (b->plain) {
                unpack_int4(weights, run.rounds, true, out);
            } else {
                unpack_int4(weights, run.rounds, false, out);
            }
            continue;
        }
        for (size_t round = 0; round < run.rounds; round++) {
            _mm256_store_ps(out + round * VECTOR, load_columns(kind, weights + round * round_bytes(kind)));
        }
    }
}

/* ---- tiles ---- */

/* One scale a row: the accumulators stay in registers for the whole chunk. */
ALWAYS_INLINE void tile_plain(size_t rows, size_t inputs, const float *weights, const float *x, size_t x_stride,
                              size_t steps, float *sum)
{
    __m256 acc[TILE_ROWS][TILE_INPUTS];
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t i = 0; i < inputs; i++) {
            acc[r][i] = _mm256_load_ps(sum + r * SUM_STRIDE + i * VECTOR);
        }
    }
    for (size_t step = 0; step < steps; step++) {
        __m256 weight[TILE_ROWS];
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            weight[r] = _mm256_load_ps(weights + r * UNPACKED_STRIDE + step * VECTOR);
        }
        UNROLL
        for (size_t i = 0; i < inputs; i++) {
            __m256 value = _mm256_load_ps(x + i * x_stride + step * VECTOR);
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                acc[r][i] = _mm256_fmadd_ps(weight[r], value, acc[r][i]);
            }
        }
    }
    UNROLL
    for (size_t r = 0; r < rows; r++) {
        UNROLL
        for (size_t i = 0; i < inputs; i++) {
            _mm256_store_ps(sum + r * SUM_STRIDE + i * VECTOR, acc[r][i]);
        }
    }
}

/* Grouped scales: the registers hold the words, each of which enters its lane in memory. */
ALWAYS_INLINE void tile_grouped(size_t rows, size_t inputs, const float *weights, const float *scales, const float *x,
                                size_t x_stride, size_t rounds, float *sum)
{
    for (size_t round = 0; round < rounds; round++) {
        __m256 word[TILE_ROWS][TILE_INPUTS];
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            UNROLL
            for (size_t i = 0; i < inputs; i++) {
                word[r][i] = _mm256_setzero_ps();
            }
        }
        for (size_t step = round * KERNEL_WORD_COLS; step < (round + 1) * KERNEL_WORD_COLS; step++) {
            __m256 weight[TILE_ROWS];
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                weight[r] = _mm256_load_ps(weights + r * UNPACKED_STRIDE + step * VECTOR);
            }
            UNROLL
            for (size_t i = 0; i < inputs; i++) {
                __m256 value = _mm256_load_ps(x + i * x_stride + step * VECTOR);
                UNROLL
                for (size_t r = 0; r < rows; r++) {
                    word[r][i] = _mm256_fmadd_ps(weight[r], value, word[r][i]);
                }
            }
        }
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            __m256 scale = _mm256_load_ps(scales + r * SCALES_STRIDE + round * KERNEL_LANES);
            UNROLL
            for (size_t i = 0; i < inputs; i++) {
                float *lane = sum + r * SUM_STRIDE + i * VECTOR;
                _mm256_store_ps(lane, _mm256_fmadd_ps(word[r][i], scale, _mm256_load_ps(lane)));
            }
        }
    }
}

/* One function per tile shape; narrower shapes finish the edges of a block. */
struct tile_args {
    const float *weights; /* [rows] UNPACKED_STRIDE apart */
    const float *scales;  /* [rows] SCALES_STRIDE apart; grouped only */
    const float *x;       /* [inputs] x_stride apart */
    size_t x_stride;
    size_t rounds;
    size_t steps;
    float *sum; /* [rows][inputs][8], rows SUM_STRIDE apart */
};

#define TILE_FUNCTIONS(rows, inputs)                                                             \
    static void tile_plain_##rows##x##inputs(const struct tile_args *t)                          \
    {                                                                                            \
        tile_plain(rows, inputs, t->weights, t->x, t->x_stride, t->steps, t->sum);               \
    }                                                                                            \
    static void tile_grouped_##rows##x##inputs(const struct tile_args *t)                        \
    {                                                                                            \
        tile_grouped(rows, inputs, t->weights, t->scales, t->x, t->x_stride, t->rounds, t->sum); \
    }
#define TILE_ROW(X, rows) X(rows, 1) X(rows, 2) X(rows, 3) X(rows, 4)
TILE_ROW(TILE_FUNCTIONS, 1)
TILE_ROW(TILE_FUNCTIONS, 2)
TILE_ROW(TILE_FUNCTIONS, 3)

typedef void (*tile_function)(const struct tile_args *t);

static tile_function tile_select(bool grouped, size_t rows, size_t inputs)
{
    static const tile_function plain[TILE_ROWS][TILE_INPUTS] = {
#define TILE_NAME(rows, inputs) tile_plain_##rows##x##inputs,
        {TILE_ROW(TILE_NAME, 1)},
        {TILE_ROW(TILE_NAME, 2)},
        {TILE_ROW(TILE_NAME, 3)},
#undef TILE_NAME
    };
    static const tile_function group[TILE_ROWS][TILE_INPUTS] = {
#define TILE_NAME(rows, inputs) tile_grouped_##rows##x##inputs,
        {TILE_ROW(TILE_NAME, 1)},
        {TILE_ROW(TILE_NAME, 2)},
        {TILE_ROW(TILE_NAME, 3)},
#undef TILE_NAME
    };
    return grouped ? group[rows - 1][inputs - 1] : plain[rows - 1][inputs - 1];
}

/* ---- blocks ---- */

/* Advances every dot product of the block by a run of at most one chunk. */
static void batch_run(struct batch *b, struct matmul_run run)
{
    bool grouped = b->w->kind == QUANT_INT4_GROUP;
    size_t steps = round_steps(b->w->kind);
    struct tile_args t = {.x_stride = b->x_stride, .rounds = run.rounds, .steps = run.rounds * steps};
    if (grouped) {
        for (size_t r = 0; r < b->rows; r++) {
            spread_scales(b->w, b->row + r, run.first, run.rounds, b->scales + r * SCALES_STRIDE);
        }
    }
    for (size_t v = 0; v < LANE_VECTORS; v++) {
        unpack_rows(b, run, v);
        for (size_t r = 0; r < b->rows; r += TILE_ROWS) {
            size_t rows = b->rows - r < TILE_ROWS ? b->rows - r : TILE_ROWS;
            t.weights = b->unpacked + r * UNPACKED_STRIDE;
            t.scales = b->scales + r * SCALES_STRIDE + v * VECTOR;
            for (size_t i = 0; i < b->inputs; i += TILE_INPUTS) {
                size_t inputs = b->inputs - i < TILE_INPUTS ? b->inputs - i : TILE_INPUTS;
                t.x = b->x + i * b->x_stride + v * b->vector_stride + run.first * steps * VECTOR;
                t.sum = b->sum[v] + r * SUM_STRIDE + i * VECTOR;
                tile_select(grouped, rows, inputs)(&t);
            }
        }
    }
}

/* The four lane vectors of one dot product, folded. */
ALWAYS_INLINE __m256 batch_fold(const struct batch *b, size_t r, size_t i)
{
    __m256 lane[LANE_VECTORS];
    for (size_t v = 0; v < LANE_VECTORS; v++) {
        lane[v] = _mm256_load_ps(b->sum[v] + r * SUM_STRIDE + i * VECTOR);
    }
    return lanes_fold(lane);
}

/* Trees, scales, and the results to out[i * out_stride + row]. */
static void batch_finish(const struct batch *b, float *out, size_t out_stride)
{
    bool scaled = b->w->kind == QUANT_INT8_ROW || b->w->kind == QUANT_INT4_ROW;
    for (size_t i = 0; i < b->inputs; i++) {
        float *target = out + i * out_stride + b->row;
        size_t r = 0;
        for (; r + 4 <= b->rows; r += 4) {
            __m128 total = lanes_sum4(batch_fold(b, r, i), batch_fold(b, r + 1, i), batch_fold(b, r + 2, i),
                                      batch_fold(b, r + 3, i));
            if (scaled) {
                total = _mm_mul_ps(total, _mm_loadu_ps(b->w->scales + b->row + r));
            }
            _mm_storeu_ps(target + r, total);
        }
        for (; r < b->rows; r++) {
            float total = lanes_sum(batch_fold(b, r, i));
            target[r] = scaled ? total * b->w->scales[b->row + r] : total;
        }
    }
}

static void batch_block(struct batch *b, float *out, size_t out_stride)
{
    enum quant_kind kind = b->w->kind;
    size_t row_bytes = quant_row_bytes(kind, b->w->cols);
    const uint8_t *weights = (const uint8_t *)b->w->weights + b->row * row_bytes;
    size_t whole = b->w->cols / round_cols(kind);
    size_t chunk = CHUNK_STEPS / round_steps(kind);
    for (size_t v = 0; v < LANE_VECTORS; v++) {
        memset(b->sum[v], 0, b->rows * SUM_STRIDE * sizeof(float));
    }
    for (size_t first = 0; first < whole; first += chunk) {
        size_t rounds = whole - first < chunk ? whole - first : chunk;
        struct matmul_run run = {weights + first * round_bytes(kind), row_bytes, first, rounds};
        batch_run(b, run);
    }
    if (whole * round_cols(kind) < b->w->cols) {
        batch_run(b, matmul_tail(b->w, b->row, b->rows, whole, b->tail));
    }
    batch_finish(b, out, out_stride);
}

void matmul_batch_avx2(const struct quant_matrix *w, size_t begin, size_t end, const struct kernel_act_row *act,
                       size_t m, float *out, size_t out_stride)
{
    struct batch b;
    size_t rounds = (w->cols + round_cols(w->kind) - 1) / round_cols(w->kind);
    b.w = w;
    b.plain = act->plain;
    b.x_stride = kernel_act_stride(w->kind, w->cols) / sizeof(float);
    b.vector_stride = rounds * round_steps(w->kind) * VECTOR;
    for (size_t row = begin; row < end; row += BLOCK_ROWS) {
        b.row = row;
        b.rows = end - row < BLOCK_ROWS ? end - row : BLOCK_ROWS;
        for (size_t i = 0; i < m; i += BLOCK_INPUTS) {
            b.inputs = m - i < BLOCK_INPUTS ? m - i : BLOCK_INPUTS;
            b.x = act->values + i * b.x_stride;
            batch_block(&b, out + i * out_stride, out_stride);
        }
    }
}
