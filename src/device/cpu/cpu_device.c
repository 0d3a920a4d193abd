/* SwiGLU blocks on the CPU.
 *
 * A call goes through three steps, each over all blocks at once:
 *   inputs   the rows of a block are gathered and rearranged for the kernels; neighbours that ask for the same rows
 *            share one arrangement (one token and its eight experts: prepared once);
 *   middle   rows of gate and up, then silu and product on the same columns; whoever computes a block's last
 *            rows also rearranges its middle for down, so that no barrier is needed for that;
 *   result   rows of down, straight into the caller's rows, or through scratch where those lie scattered.
 * Work is split by weight rows (cpu_rows.h), and every weight is read once for all rows of its block.
 *
 * Scratch is allocated at open for the largest call. Two areas, because not everything lives at the same time:
 * `first` holds the prepared inputs, then the results that have to be scattered; `second` holds the gathered inputs,
 * then the middle. kernel_act_bytes of m rows is m times that of one, so its sum does not depend on the blocks. */
#include "device/cpu/cpu_device.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/cpu/cpu_rows.h"

#define INLINE_INPUT_ROWS 4 /* fewer input rows are prepared at once by the caller: waking threads costs more */

/* One block of the call in progress. */
struct cpu_block {
    const struct device_block *block;
    size_t first_middle; /* its first row in the list of all gate rows */
    size_t first_result; /* its first row in the list of all down rows */
    float *gathered;     /* [m][hidden] where the rows have to be gathered, else NULL */
    void *gate_input;    /* prepared; up_input is the same when the kinds are */
    void *up_input;
    float *middle; /* [m][intermediate]: gate, then silu(gate) * up */
    float *up;     /* [m][intermediate] */
    void *middle_input;
    float *result; /* [m][hidden] where down's rows have to be scattered, else NULL */
    atomic_size_t middle_left;
};

struct device_sizes {
    size_t first, second; /* the two areas of scratch */
    size_t total;         /* all that open allocates */
};

struct cpu_device {
    struct device base;
    const struct kernel_table *kernels;
    struct thread_pool *pool;
    struct cpu_device_limits limits;
    struct device_sizes sizes;
    char *first;
    char *second;
    struct cpu_block *blocks; /* [max_blocks], n_blocks in use by the call in progress */
    size_t n_blocks;
    uint32_t *inputs; /* [max_blocks] blocks whose input is to be prepared; the others share a neighbour's */
    size_t n_inputs;
};

/* Bytes of max_rows prepared rows of any kind, however they are divided over blocks. */
static bool prepared_bytes(size_t max_rows, uint32_t cols, size_t *out)
{
    size_t row = 0;
    for (int kind = QUANT_F32; kind <= QUANT_INT4_GROUP; kind++) {
        size_t bytes = kernel_act_bytes((enum quant_kind)kind, cols, 1);
        row = bytes > row ? bytes : row;
    }
    return size_mul(max_rows, row, out);
}

static bool float_bytes(size_t rows, uint32_t cols, size_t *out)
{
    return size_mul(rows, (size_t)cols * sizeof(float), out);
}

/* Whole cache lines, as aligned memory is allocated. */
static size_t round_up(size_t bytes)
{
    return bytes / 64 * 64 + (bytes % 64 != 0 ? 64 : 0);
}

static bool device_sizes(const struct cpu_device_limits *limits, struct device_sizes *out)
{
    size_t input, middle_input, hidden, middle, tables;
    if (!prepared_bytes(limits->max_rows, limits->max_hidden, &input) || !size_mul(input, 2, &input) ||
        !prepared_bytes(limits->max_rows, limits->max_intermediate, &middle_input) ||
        !float_bytes(limits->max_rows, limits->max_hidden, &hidden) ||
        !float_bytes(limits->max_rows, limits->max_intermediate, &middle) || !size_mul(middle, 2, &middle) ||
        !size_add(middle, middle_input, &middle) ||
        !size_mul(limits->max_blocks, sizeof(struct cpu_block) + sizeof(uint32_t), &tables)) {
        return false;
    }
    out->first = round_up(input > hidden ? input : hidden);
    out->second = round_up(middle > hidden ? middle : hidden);
    return size_add(sizeof(struct cpu_device), tables, &out->total) && size_add(out->total, out->first, &out->total) &&
           size_add(out->total, out->second, &out->total);
}

size_t cpu_device_bytes(const struct cpu_device_limits *limits)
{
    struct device_sizes sizes;
    return device_sizes(limits, &sizes) ? sizes.total : SIZE_MAX;
}

/* ---- Checking a call ---- */

static bool block_is_consistent(const struct device_block *block, const struct cpu_device_limits *limits)
{
    const struct expert_weights *w = &block->weights;
    return block->m > 0 && w->gate.rows == w->up.rows && w->gate.cols == w->up.cols && w->down.rows == w->gate.cols &&
           w->down.cols == w->gate.rows && w->gate.cols > 0 && w->gate.cols <= limits->max_hidden && w->gate.rows > 0 &&
           w->gate.rows <= limits->max_intermediate;
}

static sluice_status check_call(const struct cpu_device *device, const struct device_block *blocks, size_t n,
                                sluice_error *err)
{
    if (n > device->limits.max_blocks) {
        return error_set(err, SLUICE_INVALID, "cpu device: %zu blocks in one call, at most %zu", n,
                         device->limits.max_blocks);
    }
    size_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        if (!block_is_consistent(&blocks[i], &device->limits)) {
            return error_set(err, SLUICE_INVALID, "cpu device: block %zu has no rows, or widths that do not fit", i);
        }
        if (blocks[i].m > device->limits.max_rows - rows) {
            return error_set(err, SLUICE_INVALID, "cpu device: more than %zu rows in one call",
                             device->limits.max_rows);
        }
        rows += blocks[i].m;
    }
    return SLUICE_OK;
}

/* ---- Laying a call out in scratch ---- */

static size_t row_index(const uint32_t *rows, size_t i)
{
    return rows != NULL ? rows[i] : i;
}

/* True if the m rows follow one another, so that they can be used where they lie. */
static bool rows_are_consecutive(const uint32_t *rows, size_t m)
{
    for (size_t i = 1; i < m; i++) {
        if (row_index(rows, i) != row_index(rows, 0) + i) {
            return false;
        }
    }
    return true;
}

static bool same_input(const struct device_block *a, const struct device_block *b)
{
    if (a->x != b->x || a->x_stride != b->x_stride || a->m != b->m || a->weights.gate.cols != b->weights.gate.cols ||
        a->weights.gate.kind != b->weights.gate.kind || a->weights.up.kind != b->weights.up.kind) {
        return false;
    }
    for (size_t i = 0; i < a->m; i++) {
        if (row_index(a->rows, i) != row_index(b->rows, i)) {
            return false;
        }
    }
    return true;
}

/* Bump allocation inside the two areas during one layout pass. */
struct scratch {
    char *next, *end;
};

static void *take(struct scratch *area, size_t bytes)
{
    assert(bytes <= (size_t)(area->end - area->next));
    void *place = area->next;
    area->next += bytes;
    return place;
}

static void lay_out_input(struct cpu_device *device, size_t i, struct scratch *first, struct scratch *second)
{
    struct cpu_block *entry = &device->blocks[i];
    const struct device_block *block = entry->block;
    if (i > 0 && same_input(block, entry[-1].block)) {
        entry->gate_input = entry[-1].gate_input;
        entry->up_input = entry[-1].up_input;
        return;
    }
    const struct quant_matrix *gate = &block->weights.gate, *up = &block->weights.up;
    entry->gate_input = take(first, kernel_act_bytes(gate->kind, gate->cols, block->m));
    entry->up_input = entry->gate_input;
    if (up->kind != gate->kind) {
        entry->up_input = take(first, kernel_act_bytes(up->kind, up->cols, block->m));
    }
    entry->gathered = NULL;
    if (!rows_are_consecutive(block->rows, block->m)) {
        entry->gathered = take(second, block->m * gate->cols * sizeof(float));
    }
    device->inputs[device->n_inputs++] = (uint32_t)i;
}

/* Floats before prepared rows: those are multiples of 64 bytes and have to start at one. */
static void lay_out_middle(struct cpu_device *device, struct scratch *second)
{
    for (size_t i = 0; i < device->n_blocks; i++) {
        struct cpu_block *entry = &device->blocks[i];
        const struct quant_matrix *down = &entry->block->weights.down;
        entry->middle_input = take(second, kernel_act_bytes(down->kind, down->cols, entry->block->m));
    }
    for (size_t i = 0; i < device->n_blocks; i++) {
        struct cpu_block *entry = &device->blocks[i];
        size_t bytes = entry->block->m * entry->block->weights.down.cols * sizeof(float);
        entry->middle = take(second, bytes);
        entry->up = take(second, bytes);
    }
}

static void lay_out_results(struct cpu_device *device, struct scratch *first)
{
    for (size_t i = 0; i < device->n_blocks; i++) {
        struct cpu_block *entry = &device->blocks[i];
        const struct device_block *block = entry->block;
        entry->result = NULL;
        if (!rows_are_consecutive(block->out_rows, block->m)) {
            entry->result = take(first, block->m * block->weights.down.rows * sizeof(float));
        }
    }
}

static void lay_out_call(struct cpu_device *device, const struct device_block *blocks, size_t n)
{
    struct scratch inputs = {device->first, device->first + device->sizes.first};
    struct scratch results = inputs;
    struct scratch gathered = {device->second, device->second + device->sizes.second};
    struct scratch middle = gathered;
    size_t middle_rows = 0, result_rows = 0;
    device->n_blocks = n;
    device->n_inputs = 0;
    for (size_t i = 0; i < n; i++) {
        struct cpu_block *entry = &device->blocks[i];
        const struct quant_matrix *down = &blocks[i].weights.down;
        entry->block = &blocks[i];
        entry->first_middle = middle_rows;
        entry->first_result = result_rows;
        atomic_store_explicit(&entry->middle_left, down->cols, memory_order_relaxed);
        middle_rows += down->cols;
        result_rows += down->rows;
        lay_out_input(device, i, &inputs, &gathered);
    }
    lay_out_middle(device, &middle);
    lay_out_results(device, &results);
}

/* ---- The three steps ---- */

static void gather_rows(float *dst, const struct device_block *block)
{
    size_t cols = block->weights.gate.cols;
    for (size_t i = 0; i < block->m; i++) {
        memcpy(dst + i * cols, block->x + block->rows[i] * block->x_stride, cols * sizeof(float));
    }
}

static void input_task(void *arg, unsigned worker, size_t begin, size_t end)
{
    (void)worker;
    struct cpu_device *device = arg;
    for (size_t i = begin; i < end; i++) {
        const struct cpu_block *entry = &device->blocks[device->inputs[i]];
        const struct device_block *block = entry->block;
        const struct quant_matrix *gate = &block->weights.gate, *up = &block->weights.up;
        const float *x = block->x + row_index(block->rows, 0) * block->x_stride;
        size_t stride = block->x_stride;
        if (entry->gathered != NULL) {
            gather_rows(entry->gathered, block);
            x = entry->gathered;
            stride = gate->cols;
        }
        device->kernels->prepare(gate->kind, x, stride, block->m, gate->cols, entry->gate_input);
        if (entry->up_input != entry->gate_input) {
            device->kernels->prepare(up->kind, x, stride, block->m, up->cols, entry->up_input);
        }
    }
}

static void compute_middle_rows(const struct kernel_table *kernels, struct cpu_block *entry, size_t begin, size_t end)
{
    const struct device_block *block = entry->block;
    const struct expert_weights *w = &block->weights;
    size_t width = w->down.cols;
    kernels->matmul(&w->gate, begin, end, entry->gate_input, block->m, entry->middle, width);
    kernels->matmul(&w->up, begin, end, entry->up_input, block->m, entry->up, width);
    for (size_t i = 0; i < block->m; i++) {
        float *gate = entry->middle + i * width + begin;
        kernels->silu_mul(gate, entry->up + i * width + begin, end - begin, gate);
    }
    /* Release our rows to whoever comes last, acquire everyone's if that is us. */
    if (atomic_fetch_sub_explicit(&entry->middle_left, end - begin, memory_order_acq_rel) == end - begin) {
        kernels->prepare(w->down.kind, entry->middle, width, block->m, width, entry->middle_input);
    }
}

static void middle_task(void *arg, unsigned worker, size_t begin, size_t end)
{
    (void)worker;
    struct cpu_device *device = arg;
    for (size_t i = 0; i < device->n_blocks && device->blocks[i].first_middle < end; i++) {
        struct cpu_block *entry = &device->blocks[i];
        size_t row_begin, row_end;
        if (rows_clip(begin, end, entry->first_middle, entry->block->weights.down.cols, &row_begin, &row_end)) {
            compute_middle_rows(device->kernels, entry, row_begin, row_end);
        }
    }
}

static void compute_result_rows(const struct kernel_table *kernels, const struct cpu_block *entry, size_t begin,
                                size_t end)
{
    const struct device_block *block = entry->block;
    const struct quant_matrix *down = &block->weights.down;
    if (entry->result == NULL) {
        float *out = block->out + row_index(block->out_rows, 0) * block->out_stride;
        kernels->matmul(down, begin, end, entry->middle_input, block->m, out, block->out_stride);
        return;
    }
    kernels->matmul(down, begin, end, entry->middle_input, block->m, entry->result, down->rows);
    for (size_t i = 0; i < block->m; i++) {
        memcpy(block->out + block->out_rows[i] * block->out_stride + begin, entry->result + i * down->rows + begin,
               (end - begin) * sizeof(float));
    }
}

static void result_task(void *arg, unsigned worker, size_t begin, size_t end)
{
    (void)worker;
    struct cpu_device *device = arg;
    for (size_t i = 0; i < device->n_blocks && device->blocks[i].first_result < end; i++) {
        const struct cpu_block *entry = &device->blocks[i];
        size_t row_begin, row_end;
        if (rows_clip(begin, end, entry->first_result, entry->block->weights.down.rows, &row_begin, &row_end)) {
            compute_result_rows(device->kernels, entry, row_begin, row_end);
        }
    }
}

static void prepare_inputs(struct cpu_device *device)
{
    size_t rows = 0;
    for (size_t i = 0; i < device->n_inputs; i++) {
        rows += device->blocks[device->inputs[i]].block->m;
    }
    if (rows <= INLINE_INPUT_ROWS) {
        input_task(device, 0, 0, device->n_inputs);
    } else {
        thread_pool_run(device->pool, input_task, device, device->n_inputs, 1);
    }
}

static sluice_status cpu_run_blocks(struct device *base, const struct device_block *blocks, size_t n, sluice_error *err)
{
    struct cpu_device *device = (struct cpu_device *)base;
    TRY(check_call(device, blocks, n, err));
    if (n == 0) {
        return SLUICE_OK;
    }
    lay_out_call(device, blocks, n);
    const struct cpu_block *last = &device->blocks[n - 1];
    size_t middle_rows = last->first_middle + last->block->weights.down.cols;
    size_t result_rows = last->first_result + last->block->weights.down.rows;
    unsigned threads = thread_pool_size(device->pool);
    prepare_inputs(device);
    thread_pool_run(device->pool, middle_task, device, middle_rows, rows_grain(middle_rows, threads));
    thread_pool_run(device->pool, result_task, device, result_rows, rows_grain(result_rows, threads));
    return SLUICE_OK;
}

/* ---- Opening and closing ---- */

static void cpu_close(struct device *base)
{
    struct cpu_device *device = (struct cpu_device *)base;
    free(device->blocks);
    free(device->inputs);
    free(device->first);
    free(device->second);
    free(device);
}

static const struct device_ops cpu_ops = {.name = "cpu", .run_blocks = cpu_run_blocks, .close = cpu_close};

static sluice_status allocate(struct cpu_device *device, sluice_error *err)
{
    if (!device_sizes(&device->limits, &device->sizes)) {
        return error_set(err, SLUICE_NO_MEMORY, "cpu device: limits too large");
    }
    device->blocks = mem_zalloc(device->limits.max_blocks, sizeof *device->blocks);
    device->inputs = mem_zalloc(device->limits.max_blocks, sizeof *device->inputs);
    device->first = mem_alloc_aligned(1, device->sizes.first);
    device->second = mem_alloc_aligned(1, device->sizes.second);
    if (device->blocks == NULL || device->inputs == NULL || device->first == NULL || device->second == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "cpu device: no memory for %zu bytes of scratch", device->sizes.total);
    }
    return SLUICE_OK;
}

sluice_status cpu_device_open(struct device **out, const struct kernel_table *kernels, struct thread_pool *pool,
                              const struct cpu_device_limits *limits, sluice_error *err)
{
    if (limits->max_rows == 0 || limits->max_blocks == 0 || limits->max_hidden == 0 || limits->max_intermediate == 0) {
        return error_set(err, SLUICE_INVALID, "cpu device: every limit must be positive");
    }
    struct cpu_device *device = mem_zalloc(1, sizeof *device);
    if (device == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "cpu device: no memory");
    }
    device->base.ops = &cpu_ops;
    device->kernels = kernels;
    device->pool = pool;
    device->limits = *limits;
    sluice_status status = allocate(device, err);
    if (status != SLUICE_OK) {
        cpu_close(&device->base);
        return status;
    }
    *out = &device->base;
    return SLUICE_OK;
}
