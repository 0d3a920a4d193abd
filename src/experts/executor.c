/* Running a layer's routed experts: see executor.h.
 *
 * A run groups the routes into items, one for each expert in order of first appearance, with the rows it has to
 * compute. An item goes missing → loading → ready → done, or starts ready. The loop asks for missing experts while the
 * store grants slots, collects what has arrived, computes a group of ready items, gives their leases back and begins
 * again; it only waits when there is nothing to compute. Groups are bounded, so that a long list of resident
 * experts does not keep the slots from reading the others meanwhile.
 *
 * Every routed row goes to a place of its own in `results`, [row][rank]; composing comes last, by ranks, so neither
 * residency nor arrival has any influence on the sum. All scratch is one allocation, carved by lay_out. */
#include "experts/executor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define CALL_EXPERTS 16      /* most routed experts in one call of the device */
#define CALL_ROWS 128        /* and most rows, unless one expert may have more */
#define COMPOSE_COLUMNS 1024 /* columns of a row that one thread composes at a time */
#define ITEM_NONE UINT32_MAX

/* One expert of the batch. Its routes are [begin, begin + n) of x_rows and result_rows. */
struct item {
    uint32_t expert;
    uint32_t begin, n;
    uint32_t last_row; /* while grouping: to find an id twice in a row */
    struct expert_lease lease;
};

struct executor {
    struct executor_options options;
    size_t max_items, call_rows;
    uint32_t *item_of;                   /* [n_experts] item of an expert, ITEM_NONE between runs */
    struct item *items;                  /* [max_items], n_items in use */
    uint32_t *x_rows;                    /* [max_rows * k] by item */
    uint32_t *result_rows;               /* [max_rows * k] by item */
    float *results;                      /* [max_rows][k][hidden] */
    float *shared;                       /* [max_rows][hidden] */
    uint32_t *missing;                   /* [max_items] items not asked for yet, from next_missing on */
    uint32_t *loading;                   /* [max_items] items whose lease is out and whose weights are not there */
    struct expert_lease *loading_leases; /* [max_items] the same, for expert_store_wait */
    uint32_t *ready;                     /* [max_items] items to compute, from next_ready on */
    size_t n_items, n_missing, next_missing, n_loading, n_ready, next_ready;
    struct device_block blocks[CALL_EXPERTS + 1];
};

/* ---- Scratch ---- */

/* Reserves n items at the next cache line; SIZE_MAX once a sum has overflown. */
static size_t reserve(size_t *total, size_t n, size_t size)
{
    size_t at = *total, bytes;
    if (at == SIZE_MAX || !size_mul(n, size, &bytes) || !size_add(bytes, 63, &bytes) ||
        !size_add(at, bytes / 64 * 64, total)) {
        *total = SIZE_MAX;
    }
    return at;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Bytes of an executor; with `base`, that many of them, also sets its pointers. */
static size_t lay_out(const struct executor_options *options, char *base)
{
    size_t routes, total = 0;
    if (!size_mul(options->max_rows, options->k, &routes)) {
        return SIZE_MAX;
    }
    size_t max_items = smaller(options->n_experts, routes);
    size_t row_bytes = (size_t)options->hidden * sizeof(float);
    size_t self = reserve(&total, 1, sizeof(struct executor));
    size_t item_of = reserve(&total, options->n_experts, sizeof(uint32_t));
    size_t items = reserve(&total, max_items, sizeof(struct item));
    size_t x_rows = reserve(&total, routes, sizeof(uint32_t));
    size_t result_rows = reserve(&total, routes, sizeof(uint32_t));
    size_t missing = reserve(&total, max_items, sizeof(uint32_t));
    size_t loading = reserve(&total, max_items, sizeof(uint32_t));
    size_t loading_leases = reserve(&total, max_items, sizeof(struct expert_lease));
    size_t ready = reserve(&total, max_items, sizeof(uint32_t));
    size_t results = reserve(&total, routes, row_bytes);
    size_t shared = reserve(&total, options->max_rows, row_bytes);
    if (base == NULL || total == SIZE_MAX) {
        return total;
    }
    struct executor *executor = (struct executor *)(void *)(base + self);
    *executor = (struct executor){
        .options = *options,
        .max_items = max_items,
        .item_of = (uint32_t *)(void *)(base + item_of),
        .items = (struct item *)(void *)(base + items),
        .x_rows = (uint32_t *)(void *)(base + x_rows),
        .result_rows = (uint32_t *)(void *)(base + result_rows),
        .results = (float *)(void *)(base + results),
        .shared = (float *)(void *)(base + shared),
        .missing = (uint32_t *)(void *)(base + missing),
        .loading = (uint32_t *)(void *)(base + loading),
        .loading_leases = (struct expert_lease *)(void *)(base + loading_leases),
        .ready = (uint32_t *)(void *)(base + ready),
    };
    return total;
}

size_t executor_bytes(const struct executor_options *options)
{
    return lay_out(options, NULL);
}

/* Most routed rows of one call: those of any one expert fit. */
static size_t routed_rows(const struct executor_options *options)
{
    size_t rows = options->max_rows > CALL_ROWS ? options->max_rows : CALL_ROWS;
    return smaller(rows, options->max_rows * options->k);
}

void executor_call_limits(const struct executor_options *options, size_t *max_rows, size_t *max_blocks)
{
    *max_rows = routed_rows(options) + options->max_rows;
    *max_blocks = smaller(CALL_EXPERTS, smaller(options->n_experts, options->max_rows * options->k)) + 1;
}

sluice_status executor_open(struct executor **out, const struct executor_options *options, sluice_error *err)
{
    if (options->max_rows == 0 || options->k == 0 || options->k > options->n_experts || options->hidden == 0 ||
        options->max_rows >= UINT32_MAX / options->k) {
        return error_set(err, SLUICE_INVALID,
                         "executor: rows, width and experts per row must be positive and possible");
    }
    size_t bytes = lay_out(options, NULL);
    char *memory = bytes == SIZE_MAX ? NULL : mem_alloc_aligned(bytes, 1);
    if (memory == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "executor: no memory for %zu bytes of scratch", bytes);
    }
    lay_out(options, memory);
    struct executor *executor = (struct executor *)(void *)memory;
    executor->call_rows = routed_rows(options);
    for (size_t i = 0; i < options->n_experts; i++) {
        executor->item_of[i] = ITEM_NONE;
    }
    *out = executor;
    return SLUICE_OK;
}

void executor_close(struct executor **executor)
{
    if (executor != NULL) {
        free(*executor); /* one allocation, the struct at its start */
        *executor = NULL;
    }
}

/* ---- Grouping ---- */

static sluice_status check_batch(const struct executor *executor, const struct expert_batch *batch, sluice_error *err)
{
    const struct executor_options *options = &executor->options;
    if (batch->m == 0 || batch->m > options->max_rows || batch->k == 0 || batch->k > options->k) {
        return error_set(err, SLUICE_INVALID, "executor: %zu rows of %zu experts, at most %zu of %zu", batch->m,
                         batch->k, options->max_rows, options->k);
    }
    if (batch->shared != NULL && batch->shared->gate.cols != options->hidden) {
        return error_set(err, SLUICE_INVALID, "executor: the shared expert is not %" PRIu32 " wide", options->hidden);
    }
    for (size_t i = 0; i < batch->m * batch->k; i++) {
        if (batch->ids[i] >= options->n_experts) {
            return error_set(err, SLUICE_INVALID, "executor: layer %" PRIu32 " has no expert %" PRIu32, batch->layer,
                             batch->ids[i]);
        }
    }
    return SLUICE_OK;
}

/* Counts the routes of each expert; items appear in the order of the routes. */
static sluice_status count_routes(struct executor *executor, const struct expert_batch *batch, sluice_error *err)
{
    for (size_t i = 0; i < batch->m * batch->k; i++) {
        uint32_t expert = batch->ids[i], row = (uint32_t)(i / batch->k);
        uint32_t *item_of = &executor->item_of[expert];
        if (*item_of == ITEM_NONE) {
            *item_of = (uint32_t)executor->n_items++;
            executor->items[*item_of] = (struct item){.expert = expert, .last_row = ITEM_NONE};
        }
        struct item *item = &executor->items[*item_of];
        if (item->last_row == row) {
            return error_set(err, SLUICE_INVALID, "executor: expert %" PRIu32 " twice in row %" PRIu32, expert, row);
        }
        item->last_row = row;
        item->n++;
    }
    return SLUICE_OK;
}

static void place_routes(struct executor *executor, const struct expert_batch *batch)
{
    uint32_t begin = 0;
    for (size_t i = 0; i < executor->n_items; i++) {
        struct item *item = &executor->items[i];
        item->begin = begin;
        begin += item->n;
        item->n = 0;
    }
    for (size_t i = 0; i < batch->m * batch->k; i++) {
        struct item *item = &executor->items[executor->item_of[batch->ids[i]]];
        uint32_t route = item->begin + item->n++;
        executor->x_rows[route] = (uint32_t)(i / batch->k);
        executor->result_rows[route] = (uint32_t)i;
    }
}

static sluice_status group_routes(struct executor *executor, const struct expert_batch *batch, sluice_error *err)
{
    executor->n_items = 0;
    sluice_status status = count_routes(executor, batch, err);
    if (status == SLUICE_OK) {
        place_routes(executor, batch);
    }
    for (size_t i = 0; i < executor->n_items; i++) {
        executor->item_of[executor->items[i].expert] = ITEM_NONE;
    }
    return status;
}

/* ---- Leasing ---- */

static void push_ready(struct executor *executor, uint32_t index)
{
    executor->ready[executor->n_ready++] = index;
}

/* What is resident is leased before anything is read, so that no read of this batch evicts it. */
static void lease_resident(struct executor *executor, const struct expert_batch *batch)
{
    executor->n_ready = executor->next_ready = 0;
    executor->n_missing = executor->next_missing = 0;
    executor->n_loading = 0;
    for (uint32_t i = 0; i < executor->n_items; i++) {
        struct item *item = &executor->items[i];
        if (expert_store_acquire_ready(executor->options.store, batch->layer, item->expert, &item->lease)) {
            push_ready(executor, i);
        } else {
            executor->missing[executor->n_missing++] = i;
        }
    }
}

/* Asks for one expert. With nothing to compute and nothing to wait for, any slot will do. */
static sluice_status ask_for(struct executor *executor, uint32_t layer, struct item *item, bool *ready,
                             sluice_error *err)
{
    struct expert_store *store = executor->options.store;
    bool stuck = executor->n_loading == 0 && executor->next_ready == executor->n_ready;
    return stuck ? expert_store_acquire_any(store, layer, item->expert, &item->lease, ready, err)
                 : expert_store_acquire(store, layer, item->expert, &item->lease, ready, err);
}

/* Asks for missing experts until all are asked for or the store has no slot left. */
static sluice_status ask_for_missing(struct executor *executor, const struct expert_batch *batch, sluice_error *err)
{
    while (executor->next_missing < executor->n_missing) {
        uint32_t index = executor->missing[executor->next_missing];
        struct item *item = &executor->items[index];
        bool ready;
        sluice_error failure;
        sluice_status status = ask_for(executor, batch->layer, item, &ready, &failure);
        if (status == SLUICE_BUSY) {
            return SLUICE_OK;
        }
        if (status != SLUICE_OK) {
            if (err != NULL) {
                *err = failure;
            }
            return status;
        }
        executor->next_missing++;
        if (ready) {
            push_ready(executor, index);
        } else {
            executor->loading_leases[executor->n_loading] = item->lease;
            executor->loading[executor->n_loading++] = index;
        }
    }
    return SLUICE_OK;
}

static void loading_to_ready(struct executor *executor, size_t i)
{
    push_ready(executor, executor->loading[i]);
    executor->n_loading--;
    executor->loading[i] = executor->loading[executor->n_loading];
    executor->loading_leases[i] = executor->loading_leases[executor->n_loading];
}

/* Moves what has arrived, without waiting. A failed read is left for expert_store_wait to report. */
static void collect_arrived(struct executor *executor)
{
    for (size_t i = executor->n_loading; i-- > 0;) {
        struct expert_weights weights;
        if (expert_store_view(executor->options.store, executor->loading_leases[i], &weights, NULL) == SLUICE_OK) {
            loading_to_ready(executor, i);
        }
    }
}

static sluice_status wait_for_one(struct executor *executor, const struct expert_batch *batch, sluice_error *err)
{
    size_t which = 0;
    TRY(expert_store_wait(executor->options.store, executor->loading_leases, executor->n_loading, batch->cancel, &which,
                          err));
    if (executor->n_loading > 0) {
        loading_to_ready(executor, which);
    }
    return SLUICE_OK;
}

/* Leases of ready items not computed and of loading ones go back; reads under way drain in the store. */
static void release_all(struct executor *executor)
{
    struct expert_store *store = executor->options.store;
    for (size_t i = executor->next_ready; i < executor->n_ready; i++) {
        expert_store_release(store, executor->items[executor->ready[i]].lease, NULL);
    }
    for (size_t i = 0; i < executor->n_loading; i++) {
        expert_store_release(store, executor->loading_leases[i], NULL);
    }
    executor->next_ready = executor->n_ready;
    executor->n_loading = 0;
}

/* ---- Computing ---- */

static struct device_block shared_block(const struct executor *executor, const struct expert_batch *batch)
{
    size_t hidden = executor->options.hidden;
    return (struct device_block){.weights = *batch->shared,
                                 .x = batch->x,
                                 .x_stride = hidden,
                                 .m = batch->m,
                                 .out = executor->shared,
                                 .out_stride = hidden};
}

static sluice_status item_block(const struct executor *executor, const struct expert_batch *batch,
                                const struct item *item, struct device_block *out, sluice_error *err)
{
    size_t hidden = executor->options.hidden;
    *out = (struct device_block){.x = batch->x,
                                 .x_stride = hidden,
                                 .rows = executor->x_rows + item->begin,
                                 .m = item->n,
                                 .out = executor->results,
                                 .out_stride = hidden,
                                 .out_rows = executor->result_rows + item->begin};
    TRY(expert_store_view(executor->options.store, item->lease, &out->weights, err));
    if (out->weights.gate.cols != hidden) {
        return error_set(err, SLUICE_INVALID, "executor: expert %" PRIu32 " of layer %" PRIu32 " is not %zu wide",
                         item->expert, batch->layer, hidden);
    }
    return SLUICE_OK;
}

/* Computes the next group of ready items, and the shared expert when asked to, in one call; gives the leases back. */
static sluice_status compute_ready(struct executor *executor, const struct expert_batch *batch, bool with_shared,
                                   sluice_error *err)
{
    size_t n = 0, rows = 0, end = executor->next_ready;
    if (with_shared) {
        executor->blocks[n++] = shared_block(executor, batch);
    }
    while (end < executor->n_ready && end - executor->next_ready < CALL_EXPERTS) {
        const struct item *item = &executor->items[executor->ready[end]];
        if (rows + item->n > executor->call_rows) {
            break;
        }
        TRY(item_block(executor, batch, item, &executor->blocks[n++], err));
        rows += item->n;
        end++;
    }
    TRY(device_run_blocks(executor->options.device, executor->blocks, n, err));
    for (; executor->next_ready < end; executor->next_ready++) {
        const struct item *item = &executor->items[executor->ready[executor->next_ready]];
        TRY(expert_store_release(executor->options.store, item->lease, err));
    }
    return SLUICE_OK;
}

static sluice_status check_cancel(const struct expert_batch *batch, sluice_error *err)
{
    if (batch->cancel != NULL && atomic_load(batch->cancel)) {
        return error_set(err, SLUICE_CANCELLED, "cancelled in layer %" PRIu32, batch->layer);
    }
    return SLUICE_OK;
}

static sluice_status compute_items(struct executor *executor, const struct expert_batch *batch, sluice_error *err)
{
    bool shared = batch->shared != NULL;
    lease_resident(executor, batch);
    while (shared || executor->next_ready < executor->n_items) {
        TRY(check_cancel(batch, err));
        TRY(ask_for_missing(executor, batch, err));
        collect_arrived(executor);
        if (shared || executor->next_ready < executor->n_ready) {
            TRY(compute_ready(executor, batch, shared, err));
            shared = false;
        } else {
            TRY(wait_for_one(executor, batch, err));
        }
    }
    return SLUICE_OK;
}

/* ---- Composing ---- */

struct compose_job {
    const struct executor *executor;
    const struct expert_batch *batch;
    size_t pieces; /* of COMPOSE_COLUMNS columns, a row */
};

static void compose_piece(const struct compose_job *job, size_t row, size_t begin, size_t n)
{
    const struct expert_batch *batch = job->batch;
    const struct kernel_table *kernels = job->executor->options.kernels;
    size_t hidden = job->executor->options.hidden;
    float *out = batch->out + row * hidden + begin;
    memset(out, 0, n * sizeof *out);
    for (size_t rank = 0; rank < batch->k; rank++) {
        size_t route = row * batch->k + rank;
        kernels->add_scaled(out, job->executor->results + route * hidden + begin, batch->weights[route], n);
    }
    if (batch->shared != NULL) {
        kernels->add(out, job->executor->shared + row * hidden + begin, n);
    }
}

static void compose_task(void *arg, unsigned worker, size_t begin, size_t end)
{
    (void)worker;
    const struct compose_job *job = arg;
    size_t hidden = job->executor->options.hidden;
    for (size_t i = begin; i < end; i++) {
        size_t column = i % job->pieces * COMPOSE_COLUMNS;
        compose_piece(job, i / job->pieces, column, smaller(COMPOSE_COLUMNS, hidden - column));
    }
}

static void compose(const struct executor *executor, const struct expert_batch *batch)
{
    size_t pieces = (executor->options.hidden + COMPOSE_COLUMNS - 1) / COMPOSE_COLUMNS;
    struct compose_job job = {.executor = executor, .batch = batch, .pieces = pieces};
    thread_pool_run(executor->options.pool, compose_task, &job, batch->m * pieces, 1);
}

sluice_status executor_run(struct executor *executor, const struct expert_batch *batch, sluice_error *err)
{
    TRY(check_batch(executor, batch, err));
    TRY(group_routes(executor, batch, err));
    sluice_status status = compute_items(executor, batch, err);
    if (status != SLUICE_OK) {
        release_all(executor);
        return status;
    }
    compose(executor, batch);
    return SLUICE_OK;
}
