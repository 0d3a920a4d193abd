/* AVX2 + FMA: weight rows times several input rows, each weight read and unpacked once per sixteen.
 *
 * Work goes block by block: BLOCK_ROWS weight rows by BLOCK_INPUTS input rows. Within a block the dot
 * products advance in runs of one chunk: for each lane vector the chunk of every weight row is unpacked
 * to floats, then register tiles sweep over it from the first cache level. Between runs the accumulators
 * rest in memory, which changes no bit; a lane's own order of fma (rounds ascending, nibbles ascending)
 * is never touched. Up to DIRECT_INPUTS input rows the tiles unpack in registers instead. */
#include "kernels/avx2_tile.h"

#define BLOCK_ROWS 12 /* divisible by the rows of every tile */
#define DIRECT_INPUTS 8

/* A block in progress: about 65 KB on the stack. */
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
static void batch_unpack(struct batch *b, struct matmul_run run, size_t v)
{
    enum quant_kind kind = b->w->kind;
    for (size_t r = 0; r < b->rows; r++) {
        const uint8_t *weights = run.weights + r * run.weight_stride + v * (round_bytes(kind) / LANE_VECTORS);
        float *out = b->unpacked + r * UNPACKED_STRIDE;
        if (kind_is_int4(kind) && b->plain) {
            unpack_int4(weights, run.rounds, true, out);
        } else if (kind_is_int4(kind)) {
            unpack_int4(weights, run.rounds, false, out);
        } else {
            for (size_t round = 0; round < run.rounds; round++) {
                _mm256_store_ps(out + round * VECTOR, load_columns(kind, weights + round * round_bytes(kind)));
            }
        }
    }
}

/* ---- runs ---- */

/* Asks for the v-th quarter of the same run of the next block's rows r .. r + rows: a little before every
 * tile, so that the requests never queue. */
static void batch_prefetch(const struct batch *b, struct matmul_run run, size_t v, size_t r, size_t rows)
{
    size_t quarter = run.rounds * round_bytes(b->w->kind) / LANE_VECTORS;
    uintptr_t next = (uintptr_t)run.weights + (r + BLOCK_ROWS) * run.weight_stride + v * quarter;
    for (size_t i = 0; i < rows; i++, next += run.weight_stride) {
        for (size_t line = 0; line < quarter; line += CACHE_LINE) {
            _mm_prefetch((const char *)(next + line), _MM_HINT_T1);
        }
    }
}

/* Lane vector v of a run, with x at the run's first step: tiles over packed weights. */
static void batch_direct(struct batch *b, struct matmul_run run, size_t v, const float *x, struct tile *t)
{
    enum quant_kind kind = b->w->kind;
    size_t inputs;
    for (size_t i = 0; i < b->inputs; i += inputs) {
        size_t left = b->inputs - i;
        inputs = left == TILE_INPUTS + 1 ? 3 : left < TILE_INPUTS ? left : TILE_INPUTS; /* never one */
        size_t rows = tile_direct_rows(inputs);
        t->x = x + i * b->x_stride;
        for (size_t r = 0; r < b->rows; r += rows) {
            rows = b->rows - r < rows ? 1 : rows;
            if (i == 0) {
                batch_prefetch(b, run, v, r, rows);
            }
            t->packed = run.weights + r * run.weight_stride + v * (round_bytes(kind) / LANE_VECTORS);
            t->scales = b->scales + r * SCALES_STRIDE + v * VECTOR;
            t->sum = b->sum[v] + r * SUM_STRIDE + i * VECTOR;
            tile_direct(kind, rows, inputs)(t);
        }
    }
}

/* The same with weights unpacked first. */
static void batch_unpacked(struct batch *b, struct matmul_run run, size_t v, const float *x, struct tile *t)
{
    batch_unpack(b, run, v);
    for (size_t r = 0; r < b->rows; r += TILE_ROWS) {
        size_t rows = b->rows - r < TILE_ROWS ? b->rows - r : TILE_ROWS;
        batch_prefetch(b, run, v, r, rows);
        t->weights = b->unpacked + r * UNPACKED_STRIDE;
        t->scales = b->scales + r * SCALES_STRIDE + v * VECTOR;
        for (size_t i = 0; i < b->inputs; i += TILE_INPUTS) {
            size_t inputs = b->inputs - i < TILE_INPUTS ? b->inputs - i : TILE_INPUTS;
            t->x = x + i * b->x_stride;
            t->sum = b->sum[v] + r * SUM_STRIDE + i * VECTOR;
            tile_unpacked(b->w->kind, rows, inputs)(t);
        }
    }
}

/* Advances every dot product of the block by a run of at most one chunk. */
static void batch_run(struct batch *b, struct matmul_run run)
{
    bool direct = !b->plain && b->inputs <= DIRECT_INPUTS;
    struct tile t = {.packed_stride = run.weight_stride, .x_stride = b->x_stride, .rounds = run.rounds};
    if (b->w->kind == QUANT_INT4_GROUP) {
        for (size_t r = 0; r < b->rows; r++) {
            spread_scales(b->w, b->row + r, run.first, run.rounds, b->scales + r * SCALES_STRIDE);
        }
    }
    for (size_t v = 0; v < LANE_VECTORS; v++) {
        const float *x = b->x + v * b->vector_stride + run.first * round_steps(b->w->kind) * VECTOR;
        if (direct) {
            batch_direct(b, run, v, x, &t);
        } else {
            batch_unpacked(b, run, v, x, &t);
        }
    }
}

/* ---- blocks ---- */

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
            if (b.inputs == 1 && !b.plain) {
                matmul_single_avx2(w, row, row + b.rows, b.x, out + i * out_stride);
            } else {
                batch_block(&b, out + i * out_stride, out_stride);
            }
        }
    }
}
