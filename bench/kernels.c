/* How fast each kernel is, against what the machine allows.
 *
 * One core, in processor time of this thread, so that the turns of other programs do not count. Weights lie in a large
 * buffer that the measurements walk through, so that the products of one input row read memory rather than a cache;
 * kernels that work on activations stay on the same hot bytes. Each sample takes, one after the other, a plain read of
 * as many bytes, a loop of independent fma, and the kernel; ratios are taken within a sample and the median of the
 * samples is reported.
 *
 * The buffer holds floats of either sign in [0.5, 1), which serve as int4 and int8 weights as well: no
 * denormal, NaN or infinity slows one version more than another. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "bench/bench.h"
#include "bench/peak.h"
#include "bench/stream.h"
#include "kernels/kernels.h"
#include "os/cpu.h"
#include "os/pages.h"

#define DATA_BYTES ((size_t)288 << 20)
#define SCRATCH_FLOATS ((size_t)1 << 20) /* inputs, and as much for outputs */
#define SAMPLES 9
#define SAMPLE_BYTES 64e6    /* bytes of weights that a sample reads at most, */
#define SAMPLE_MACS 150e6    /* products it does at most, and */
#define REFERENCE_MACS 2.5e6 /* the same for the C version, whose matrices are cut to it */
#define SAMPLE_CALLS 2000
#define PEAK_ROUNDS 100000
#define GROUP 128
#define HEADS 64

struct kernel_case;

struct kernel_bench {
    FILE *out;
    const struct kernel_table *table;
    bool has_peak; /* the processor can run the fma loop */
    struct os_pages data;
    size_t at; /* where in data the next sample begins */
    float *input;
    float *output;
    void *act;
    volatile float sink; /* keeps results alive */
};

/* One line of the report. Shapes are rows x cols of weights, heads x positions x width, or n. */
struct kernel_case {
    const char *name;
    enum quant_kind kind;
    uint32_t rows;
    uint32_t cols;
    size_t m;
    bool hot; /* every call works on the same bytes */
    void (*call)(struct kernel_bench *bench, const struct kernel_case *c, const void *data);
    double macs;  /* of one call; 0: none worth counting */
    double bytes; /* of weights, keys or inputs that one call reads */
};

struct kernel_result {
    double seconds; /* of one call */
    double spread;  /* (slowest - fastest) / median of the samples */
    double read_ratio;
    double peak_ratio; /* 0: not measured */
};

/* ---- calls ---- */

static struct quant_matrix case_matrix(const struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    struct quant_matrix w = {c->kind, c->rows, c->cols, c->kind == QUANT_INT4_GROUP ? GROUP : 0, data, bench->input};
    return w;
}

static void call_matmul(struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    struct quant_matrix w = case_matrix(bench, c, data);
    bench->table->matmul(&w, 0, c->rows, bench->act, c->m, bench->output, c->rows);
}

/* Head after head, each with `rows` of its own. */
static void call_absorb(struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    struct quant_matrix w = case_matrix(bench, c, data);
    size_t rows = c->rows / HEADS;
    for (size_t head = 0; head < HEADS; head++) {
        bench->table->absorb(&w, head * rows, rows, 0, c->cols, bench->input, c->rows, c->m, bench->output, c->cols);
    }
}

static void call_scores(struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    bench->table->scores(bench->input, c->cols, c->m, data, c->cols, NULL, c->rows, c->cols, 0.1f, bench->output,
                         c->rows);
}

static void call_mix(struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    bench->table->mix(bench->input, c->rows, c->m, data, c->cols, NULL, c->rows, c->cols, bench->output, c->cols);
}

static void call_prepare(struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    bench->table->prepare(c->kind, data, c->cols, c->m, c->cols, bench->act);
}

static void call_dequant_row(struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    struct quant_matrix w = case_matrix(bench, c, data);
    bench->table->dequant_row(&w, 0, bench->output);
}

static void call_index_combine(struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    bench->table->index_combine(bench->input, c->m, data, c->cols, c->cols, 0.1f, bench->output);
}

/* Kernels that replace their argument would let it drift: it is copied first. */
static void call_exp_sum(struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    memcpy(bench->output, data, c->cols * sizeof(float));
    bench->sink = bench->table->exp_sum(bench->output, c->cols, 1.0f);
}

static void call_max(struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    bench->sink = bench->table->max(data, c->cols);
}

static void call_rmsnorm(struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    bench->table->rmsnorm(data, bench->input, c->cols, 1e-5f, bench->output);
}

static void call_layernorm(struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    bench->table->layernorm(data, bench->input, bench->input, c->cols, 1e-6f, bench->output);
}

static void call_sigmoid(struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    memcpy(bench->output, data, c->cols * sizeof(float));
    bench->table->sigmoid(bench->output, c->cols);
}

static void call_silu_mul(struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    bench->table->silu_mul(data, bench->input, c->cols, bench->output);
}

static void call_add(struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    memset(bench->output, 0, sizeof(float));
    bench->table->add(bench->output, data, c->cols);
}

static void call_add_scaled(struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    bench->table->add_scaled(bench->output, data, 1e-6f, c->cols);
}

static void call_rope(struct kernel_bench *bench, const struct kernel_case *c, const void *data)
{
    memcpy(bench->output, bench->input, c->cols * sizeof(float));
    bench->table->rope(bench->output, data, bench->input, c->cols / 2);
}

/* ---- the cases ---- */

#define MATMUL(kind, rows, cols, m)                             \
    {                                                           \
        "matmul", kind, rows, cols, m, false, call_matmul, 0, 0 \
    }
#define ABSORB(kind, m)                                               \
    {                                                                 \
        "absorb", kind, HEADS * 192, 512, m, false, call_absorb, 0, 0 \
    }
#define VECTOR(name, cols)                                    \
    {                                                         \
#name, QUANT_F32, 1, cols, 1, true, call_##name, 0, 0 \
    }

static const struct kernel_case cases[] = {
    MATMUL(QUANT_INT4_ROW, 2048, 6144, 1),
    MATMUL(QUANT_INT4_ROW, 6144, 2048, 1),
    MATMUL(QUANT_INT4_ROW, 2048, 6144, 2),
    MATMUL(QUANT_INT4_ROW, 2048, 6144, 4),
    MATMUL(QUANT_INT4_ROW, 2048, 6144, 8),
    MATMUL(QUANT_INT4_ROW, 2048, 6144, 16),
    MATMUL(QUANT_INT4_ROW, 6144, 2048, 16),
    MATMUL(QUANT_INT4_GROUP, 2048, 6144, 1),
    MATMUL(QUANT_INT4_GROUP, 2048, 6144, 16),
    MATMUL(QUANT_INT8_ROW, 2048, 6144, 1),
    MATMUL(QUANT_INT8_ROW, 2048, 6144, 4),
    MATMUL(QUANT_INT8_ROW, 2048, 6144, 16),
    MATMUL(QUANT_F32, 256, 6144, 1),
    MATMUL(QUANT_F32, 256, 6144, 16),
    ABSORB(QUANT_INT4_ROW, 1),
    ABSORB(QUANT_INT4_ROW, 16),
    ABSORB(QUANT_INT4_GROUP, 1),
    ABSORB(QUANT_INT8_ROW, 1),
    ABSORB(QUANT_INT8_ROW, 16),
    {"scores", QUANT_F32, KERNEL_POSITION_BLOCK, 576, HEADS, false, call_scores, 0, 0},
    {"scores", QUANT_F32, KERNEL_POSITION_BLOCK, 128, 32, false, call_scores, 0, 0},
    {"mix", QUANT_F32, KERNEL_POSITION_BLOCK, 512, HEADS, false, call_mix, 0, 0},
    {"prepare", QUANT_INT4_ROW, 1, 6144, 1, true, call_prepare, 0, 0},
    {"prepare", QUANT_INT8_ROW, 1, 6144, 1, true, call_prepare, 0, 0},
    {"dequant_row", QUANT_INT8_ROW, 1, 6144, 1, true, call_dequant_row, 0, 0},
    {"index_combine", QUANT_F32, 32, KERNEL_POSITION_BLOCK, 32, true, call_index_combine, 0, 0},
    VECTOR(exp_sum, KERNEL_POSITION_BLOCK),
    VECTOR(max, KERNEL_POSITION_BLOCK),
    VECTOR(rmsnorm, 6144),
    VECTOR(layernorm, 128),
    VECTOR(sigmoid, 256),
    VECTOR(silu_mul, 2048),
    VECTOR(add, 6144),
    VECTOR(add_scaled, 6144),
    VECTOR(rope, 64),
};

static bool is_reference(const struct kernel_table *table)
{
    return strcmp(table->name, "c") == 0;
}

/* Cuts a case to what the version does in reasonable time, and fills in what follows from the shape. */
static struct kernel_case case_prepare(const struct kernel_case *from, const struct kernel_table *table)
{
    struct kernel_case c = *from;
    while (is_reference(table) && (double)c.rows * c.cols * (double)c.m > REFERENCE_MACS && c.rows % (2 * HEADS) == 0) {
        c.rows /= 2;
    }
    bool embedding = c.call == call_prepare || c.call == call_dequant_row;
    bool inputs = c.call == call_prepare;
    c.bytes = (double)c.rows * (double)quant_row_bytes(inputs ? QUANT_F32 : c.kind, c.cols);
    if (!embedding && !(c.hot && c.rows == 1)) {
        c.macs = (double)c.rows * c.cols * (c.call == call_index_combine ? 1.0 : (double)c.m);
    }
    return c;
}

/* ---- measuring ---- */

/* Seconds this thread has run. */
static double thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Room for `bytes` in data, after what the last sample used. */
static const uint8_t *next_bytes(struct kernel_bench *bench, const struct kernel_case *c, size_t bytes)
{
    if (c->hot) {
        return bench->data.data;
    }
    if (bench->data.size - bench->at < bytes) {
        bench->at = 0;
    }
    const uint8_t *data = (const uint8_t *)bench->data.data + bench->at;
    bench->at += bytes;
    return data;
}

static double time_read(struct kernel_bench *bench, const struct kernel_case *c, size_t calls)
{
    size_t bytes = (size_t)c->bytes;
    const uint8_t *data = next_bytes(bench, c, c->hot ? bytes : calls * bytes);
    uint64_t sum = 0;
    double start = thread_seconds();
    for (size_t i = 0; i < calls; i++) {
        sum ^= bench_stream_read(c->hot ? data : data + i * bytes, bytes);
        bench->sink = (float)sum;
    }
    return (thread_seconds() - start) / (double)calls;
}

static double time_calls(struct kernel_bench *bench, const struct kernel_case *c, size_t calls)
{
    size_t bytes = (size_t)c->bytes;
    const uint8_t *data = next_bytes(bench, c, c->hot ? bytes : calls * bytes);
    double start = thread_seconds();
    for (size_t i = 0; i < calls; i++) {
        c->call(bench, c, c->hot ? data : data + i * bytes);
    }
    return (thread_seconds() - start) / (double)calls;
}

/* Seconds that the fma loop takes for the products of one call. */
static double time_peak(struct kernel_bench *bench, const struct kernel_case *c)
{
#if defined(BENCH_HAVE_PEAK)
    double start = thread_seconds();
    bench->sink = bench_peak_run(PEAK_ROUNDS);
    double seconds = thread_seconds() - start;
    return seconds * c->macs / ((double)PEAK_ROUNDS * BENCH_PEAK_MACS);
#else
    (void)bench;
    (void)c;
    return 0.0;
#endif
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double values[SAMPLES])
{
    qsort(values, SAMPLES, sizeof *values, compare_doubles);
    return values[SAMPLES / 2];
}

static size_t calls_per_sample(const struct kernel_bench *bench, const struct kernel_case *c)
{
    double macs = c->macs > 0 ? c->macs : c->bytes; /* an elementwise step costs about a product */
    double calls = (is_reference(bench->table) ? REFERENCE_MACS : SAMPLE_MACS) / macs;
    calls = calls * c->bytes > SAMPLE_BYTES && !c->hot ? SAMPLE_BYTES / c->bytes : calls;
    calls = calls > SAMPLE_CALLS ? SAMPLE_CALLS : calls;
    return calls < 1 ? 1 : (size_t)calls;
}

static struct kernel_result measure(struct kernel_bench *bench, const struct kernel_case *c)
{
    double seconds[SAMPLES];
    double read_ratio[SAMPLES];
    double peak_ratio[SAMPLES];
    size_t calls = calls_per_sample(bench, c);
    bool peak = bench->has_peak && c->macs > 0;
    time_calls(bench, c, 1);
    for (size_t i = 0; i < SAMPLES; i++) {
        double read = time_read(bench, c, calls);
        double limit = peak ? time_peak(bench, c) : 0.0;
        seconds[i] = time_calls(bench, c, calls);
        read_ratio[i] = read / seconds[i];
        peak_ratio[i] = limit / seconds[i];
    }
    struct kernel_result result = {.read_ratio = median(read_ratio), .peak_ratio = median(peak_ratio)};
    result.seconds = median(seconds);
    result.spread = (seconds[SAMPLES - 1] - seconds[0]) / result.seconds;
    return result;
}

/* ---- reporting ---- */

static void describe(const struct kernel_case *c, char *shape, size_t len)
{
    if (c->call == call_matmul || c->call == call_absorb) {
        snprintf(shape, len, "%s %ux%u m=%zu", quant_kind_name(c->kind), c->rows, c->cols, c->m);
    } else if (c->call == call_scores || c->call == call_mix) {
        snprintf(shape, len, "%zu heads %u positions %u wide", c->m, c->rows, c->cols);
    } else if (c->call == call_index_combine) {
        snprintf(shape, len, "%u heads %u positions", c->rows, c->cols);
    } else {
        snprintf(shape, len, "%s n=%u", quant_kind_name(c->kind), c->cols);
    }
}

static void report_line(struct kernel_bench *bench, const struct kernel_case *c, const struct kernel_result *r)
{
    char shape[64];
    describe(c, shape, sizeof shape);
    fprintf(bench->out, "%-13s %-32s %-5s %10.2f us  +-%3.0f%%", c->name, shape, bench->table->name, r->seconds * 1e6,
            r->spread * 50);
    if (c->macs > 0) {
        fprintf(bench->out, " %8.2f GMAC/s", c->macs / r->seconds * 1e-9);
    } else {
        fprintf(bench->out, " %8s       ", "-");
    }
    fprintf(bench->out, " %7.2f GB/s  read %.2f", c->bytes / r->seconds * 1e-9, r->read_ratio);
    if (r->peak_ratio > 0) {
        fprintf(bench->out, "  peak %.2f", r->peak_ratio);
    }
    fputc('\n', bench->out);
}

static void report_json(struct kernel_bench *bench, const struct kernel_case *c, const struct kernel_result *r)
{
    char shape[64];
    describe(c, shape, sizeof shape);
    fprintf(bench->out,
            "{\"bench\":\"kernels\",\"kernel\":\"%s\",\"shape\":\"%s\",\"version\":\"%s\",\"microseconds\":%.3f,"
            "\"spread\":%.3f,\"gmac_per_s\":%.3f,\"gb_per_s\":%.3f,\"read_ratio\":%.3f,\"peak_ratio\":%.3f}\n",
            c->name, shape, bench->table->name, r->seconds * 1e6, r->spread, c->macs / r->seconds * 1e-9,
            c->bytes / r->seconds * 1e-9, r->read_ratio, r->peak_ratio);
}

/* ---- set-up ---- */

#define CASE_COUNT (sizeof cases / sizeof *cases)

/* splitmix64 bits as two floats of either sign in [0.5, 1). */
static void fill(void *data, size_t bytes)
{
    uint64_t state = 1;
    uint64_t *words = data;
    for (size_t i = 0; i < bytes / sizeof *words; i++) {
        state += 0x9E3779B97F4A7C15u;
        uint64_t z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
        words[i] = (z & 0x807FFFFF807FFFFFu) | 0x3F0000003F000000u;
    }
}

static bool bench_open(struct kernel_bench *bench)
{
    if (os_pages_alloc(&bench->data, DATA_BYTES, NULL) != SLUICE_OK) {
        return false;
    }
    bench->input = mem_alloc_aligned(SCRATCH_FLOATS, sizeof(float));
    bench->output = mem_alloc_aligned(SCRATCH_FLOATS, sizeof(float));
    bench->act = mem_alloc_aligned(SCRATCH_FLOATS, sizeof(float));
    if (!bench->input || !bench->output || !bench->act) {
        return false;
    }
    fill(bench->data.data, bench->data.size);
    fill(bench->input, SCRATCH_FLOATS * sizeof(float));
    fill(bench->output, SCRATCH_FLOATS * sizeof(float));
    return true;
}

static void bench_close(struct kernel_bench *bench)
{
    free(bench->act);
    free(bench->output);
    free(bench->input);
    os_pages_free(&bench->data);
}

static struct kernel_result run_case(struct kernel_bench *bench, const struct kernel_case *c)
{
    if (c->call == call_matmul) {
        bench->table->prepare(c->kind, bench->input, c->cols, c->m, c->cols, bench->act);
    }
    struct kernel_result result = measure(bench, c);
    report_line(bench, c, &result);
    fflush(bench->out);
    return result;
}

int bench_kernels(FILE *out, uint32_t features)
{
    struct kernel_table tables[2];
    struct kernel_result results[2][CASE_COUNT];
    size_t versions = 1;
    kernel_table_init(&tables[0], 0);
    kernel_table_init(&tables[1], features);
    if (strcmp(tables[0].name, tables[1].name) != 0) {
        versions = 2;
    }
    struct kernel_bench bench = {.out = out, .has_peak = (features & CPU_AVX2) != 0};
    if (!bench_open(&bench)) {
        bench_close(&bench);
        return 1;
    }
    for (size_t i = 0; i < CASE_COUNT; i++) {
        for (size_t v = 0; v < versions; v++) {
            struct kernel_case c = case_prepare(&cases[i], &tables[v]);
            bench.table = &tables[v];
            results[v][i] = run_case(&bench, &c);
        }
    }
    for (size_t i = 0; i < CASE_COUNT; i++) {
        for (size_t v = 0; v < versions; v++) {
            struct kernel_case c = case_prepare(&cases[i], &tables[v]);
            bench.table = &tables[v];
            report_json(&bench, &c, &results[v][i]);
        }
    }
    bench_close(&bench);
    return 0;
}
