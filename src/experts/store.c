/* The table of slots: who holds what, who leases what, and what becomes of a slot next.
 *
 *   idle ──acquire──▶ loading ──arrived──▶ ready ──acquire of another expert, no lease──▶ loading
 *                        └──failed──▶ failed ──last lease back──▶ idle     (at once without leases)
 *
 * Any number of leases may be out on one slot; only a ready slot without any is given away. slot_of names the slot of
 * an expert from the start of its read until the read fails or the slot is given away, so that two callers share one
 * read and a retry after a failure starts a new one. Nothing is allocated after open. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "experts/store_internal.h"

/* A waiter that can be cancelled looks at its flag this often: a signal handler can set the flag, but not wake it. */
#define WAIT_NANOSECONDS 20000000

/* ---- Sizes ---- */

struct store_geometry {
    size_t sparse_layers, experts; /* experts: of one layer */
    size_t slot_bytes, max_parts;
};

static size_t count_parts(const struct expert_layout *layout)
{
    size_t n = 0;
    for (size_t i = 0; i < layout->n_ranges; i++) {
        n += expert_range_parts(&layout->ranges[i]);
    }
    return n;
}

static struct store_geometry measure(const struct container *container)
{
    struct store_geometry geometry = {.experts = container->config.n_routed_experts};
    for (size_t layer = 0; layer < container->config.num_hidden_layers; layer++) {
        if (!container->layers[layer].sparse) {
            continue;
        }
        geometry.sparse_layers++;
        for (size_t i = 0; i < geometry.experts; i++) {
            struct expert_layout layout;
            expert_layout_resolve(&container->layers[layer].experts[i], container->shards, &layout);
            size_t parts = count_parts(&layout);
            geometry.slot_bytes = layout.bytes > geometry.slot_bytes ? layout.bytes : geometry.slot_bytes;
            geometry.max_parts = parts > geometry.max_parts ? parts : geometry.max_parts;
        }
    }
    return geometry;
}

size_t expert_store_slot_bytes(const struct container *container)
{
    return measure(container).slot_bytes;
}

size_t expert_store_min_slots(const struct container *container)
{
    struct store_geometry geometry = measure(container);
    size_t all = geometry.sparse_layers * geometry.experts;
    size_t floor = geometry.sparse_layers + container->config.num_experts_per_tok;
    return floor < all ? floor : all;
}

static size_t usable_slots(const struct store_geometry *geometry, size_t n_slots)
{
    size_t all = geometry->sparse_layers * geometry->experts;
    return n_slots < all ? n_slots : all;
}

uint64_t expert_store_bytes(const struct container *container, size_t n_slots)
{
    struct store_geometry geometry = measure(container);
    uint64_t n = usable_slots(&geometry, n_slots);
    uint64_t slot = geometry.slot_bytes + sizeof(struct store_slot) + sizeof(struct policy_slot) +
                    geometry.max_parts * sizeof(struct async_read);
    return sizeof(struct expert_store) + n * slot + container->config.num_hidden_layers * sizeof(uint32_t) +
           geometry.sparse_layers * (geometry.experts + 1) * sizeof(uint32_t);
}

/* ---- Opening and closing ---- */

/* Quantised experts and plain F32 ones can be computed where they were read; other plain ones would have to be
 * converted first. */
static sluice_status check_expert(const struct container *container, const struct stored_mlp *expert, sluice_error *err)
{
    const struct stored_matrix *const matrices[] = {&expert->gate, &expert->up, &expert->down};
    for (size_t i = 0; i < 3; i++) {
        const struct tensor_ref *weights = &matrices[i]->weights;
        if (matrices[i]->kind == QUANT_F32 && weights->dtype != DTYPE_F32) {
            return error_set(err, SLUICE_UNSUPPORTED,
                             "%s: tensor %s: a routed expert must be quantised or F32, not 16-bit floating point",
                             container->shards[weights->shard].path, weights->name);
        }
    }
    return SLUICE_OK;
}

static sluice_status check_experts(const struct container *container, sluice_error *err)
{
    for (size_t layer = 0; layer < container->config.num_hidden_layers; layer++) {
        for (size_t i = 0; container->layers[layer].sparse && i < container->config.n_routed_experts; i++) {
            TRY(check_expert(container, &container->layers[layer].experts[i], err));
        }
    }
    return SLUICE_OK;
}

static sluice_status allocate(struct expert_store *store, const struct store_geometry *geometry, size_t n_slots,
                              sluice_error *err)
{
    size_t arena, n_parts;
    if (!size_mul(n_slots, geometry->slot_bytes, &arena) || !size_mul(n_slots, geometry->max_parts, &n_parts)) {
        return error_set(err, SLUICE_NO_MEMORY, "expert store: %zu slots are more than the address space", n_slots);
    }
    struct policy_table *table = &store->table;
    store->slots = mem_zalloc(n_slots, sizeof *store->slots);
    store->parts = mem_zalloc(n_parts, sizeof *store->parts);
    store->sparse_of = mem_zalloc(store->container->config.num_hidden_layers, sizeof *store->sparse_of);
    store->slot_of = mem_zalloc(geometry->sparse_layers * geometry->experts, sizeof *store->slot_of);
    table->slots = mem_zalloc(n_slots, sizeof *table->slots);
    table->held = mem_zalloc(geometry->sparse_layers, sizeof *table->held);
    if (store->slots == NULL || store->parts == NULL || store->sparse_of == NULL || store->slot_of == NULL ||
        table->slots == NULL || table->held == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "expert store: no memory for the tables of %zu slots", n_slots);
    }
    return os_pages_alloc(&store->arena, arena, err);
}

static void fill_tables(struct expert_store *store, const struct store_geometry *geometry)
{
    const struct container *container = store->container;
    uint32_t sparse = 0;
    for (size_t i = 0; i < container->config.num_hidden_layers; i++) {
        store->sparse_of[i] = container->layers[i].sparse ? sparse++ : SLOT_NONE;
    }
    for (size_t i = 0; i < geometry->sparse_layers * geometry->experts; i++) {
        store->slot_of[i] = SLOT_NONE;
    }
    for (size_t i = 0; i < store->table.n_slots; i++) {
        store->slots[i].store = store;
        store->slots[i].memory = (char *)store->arena.data + i * geometry->slot_bytes;
        store->slots[i].parts = store->parts + i * geometry->max_parts;
    }
}

static void init_lock(struct expert_store *store)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&store->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&store->lock, NULL);
}

static void free_store(struct expert_store *store)
{
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->lock);
    os_pages_free(&store->arena);
    free(store->slots);
    free(store->parts);
    free(store->sparse_of);
    free(store->slot_of);
    free(store->table.slots);
    free(store->table.held);
    free(store);
}

sluice_status expert_store_open(struct expert_store **out, const struct container *container,
                                struct async_reader *reader, size_t n_slots, sluice_error *err)
{
    if (n_slots == 0) {
        return error_set(err, SLUICE_INVALID, "expert store: must have at least one slot");
    }
    TRY(check_experts(container, err));
    struct expert_store *store = mem_zalloc(1, sizeof *store);
    if (store == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "expert store: no memory");
    }
    struct store_geometry geometry = measure(container);
    store->container = container;
    store->reader = reader;
    store->policy = &expert_policy_lru;
    store->max_parts = geometry.max_parts;
    store->table.n_slots = usable_slots(&geometry, n_slots);
    store->table.n_layers = geometry.sparse_layers;
    store->table.transit = container->config.num_experts_per_tok;
    init_lock(store);
    sluice_status status = allocate(store, &geometry, store->table.n_slots, err);
    if (status != SLUICE_OK) {
        free_store(store);
        return status;
    }
    fill_tables(store, &geometry);
    *out = store;
    return SLUICE_OK;
}

static size_t count_leases(const struct expert_store *store)
{
    size_t n = 0;
    for (size_t i = 0; i < store->table.n_slots; i++) {
        n += store->slots[i].leases;
    }
    return n;
}

sluice_status expert_store_close(struct expert_store **store_ptr, sluice_error *err)
{
    if (store_ptr == NULL || *store_ptr == NULL) {
        return SLUICE_OK;
    }
    struct expert_store *store = *store_ptr;
    pthread_mutex_lock(&store->lock);
    size_t leases = count_leases(store);
    pthread_mutex_unlock(&store->lock);
    if (leases > 0) {
        return error_set(err, SLUICE_BUSY, "expert store: %zu leases are still out", leases);
    }
    for (size_t i = 0; i < store->table.n_slots; i++) {
        async_reader_cancel(store->reader, &store->slots[i]);
    }
    pthread_mutex_lock(&store->lock);
    while (store->n_loading > 0) {
        pthread_cond_wait(&store->changed, &store->lock);
    }
    pthread_mutex_unlock(&store->lock);
    free_store(store);
    *store_ptr = NULL;
    return SLUICE_OK;
}

size_t expert_store_slots(const struct expert_store *store)
{
    return store->table.n_slots;
}

/* Looking is const to the caller; the lock is not. */
static pthread_mutex_t *lock_of(const struct expert_store *store)
{
    return &((struct expert_store *)store)->lock;
}

void expert_store_get_stats(const struct expert_store *store, struct expert_store_stats *out)
{
    pthread_mutex_lock(lock_of(store));
    *out = store->stats;
    pthread_mutex_unlock(lock_of(store));
}

/* ---- Slots, under the lock ---- */

static uint32_t slot_index(const struct store_slot *slot)
{
    return (uint32_t)(slot - slot->store->slots);
}

static uint32_t *slot_of(struct expert_store *store, uint32_t layer, uint32_t expert)
{
    return &store->slot_of[(size_t)store->sparse_of[layer] * store->container->config.n_routed_experts + expert];
}

/* Tells the policy's table what the slot has become. */
static void publish(struct store_slot *slot)
{
    struct policy_table *table = &slot->store->table;
    uint32_t index = slot_index(slot);
    if (slot->state == SLOT_IDLE) {
        policy_clear(table, index);
    } else {
        table->slots[index].state = slot->state == SLOT_READY && slot->leases == 0 ? POLICY_READY : POLICY_HELD;
    }
}

static struct expert_lease take_lease(struct store_slot *slot)
{
    uint32_t index = slot_index(slot);
    slot->leases++;
    slot->store->policy->use(&slot->store->table, index);
    publish(slot);
    return (struct expert_lease){.slot = index, .generation = slot->generation};
}

/* The slot of a lease that is out; NULL for a stale one. */
static struct store_slot *leased_slot(const struct expert_store *store, struct expert_lease lease)
{
    if (lease.slot >= store->table.n_slots) {
        return NULL;
    }
    struct store_slot *slot = &store->slots[lease.slot];
    return slot->generation == lease.generation && slot->leases > 0 ? slot : NULL;
}

static sluice_status stale(struct expert_lease lease, sluice_error *err)
{
    return error_set(err, SLUICE_STALE, "expert store: the lease on slot %u, generation %u, is not valid", lease.slot,
                     lease.generation);
}

/* OK when ready, BUSY while loading, else the failure of the read. */
static sluice_status slot_status(const struct store_slot *slot, sluice_error *err)
{
    switch (slot->state) {
    case SLOT_READY:
        return SLUICE_OK;
    case SLOT_FAILED:
        return store_load_report(slot, err);
    default:
        return error_set(err, SLUICE_BUSY, "expert store: slot %u is still being read", slot_index(slot));
    }
}

/* Gives a slot, idle or ready without leases, to another expert, with one lease. Returns the reads to submit. */
static size_t start_load(struct expert_store *store, struct store_slot *slot, uint32_t layer, uint32_t expert,
                         struct expert_lease *lease)
{
    if (slot->state == SLOT_READY) {
        *slot_of(store, slot->layer, slot->expert) = SLOT_NONE;
    }
    slot->generation++;
    slot->layer = layer;
    slot->expert = expert;
    *slot_of(store, layer, expert) = slot_index(slot);
    policy_assign(&store->table, slot_index(slot), store->sparse_of[layer]);
    store->n_loading++;
    size_t n_parts = store_load_prepare(slot);
    *lease = take_lease(slot);
    return n_parts;
}

void store_load_finished(struct store_slot *slot)
{
    struct expert_store *store = slot->store;
    pthread_mutex_lock(&store->lock);
    if (!slot->failure.failed) {
        slot->state = SLOT_READY;
    } else {
        *slot_of(store, slot->layer, slot->expert) = SLOT_NONE;
        slot->state = slot->leases > 0 ? SLOT_FAILED : SLOT_IDLE;
    }
    store->n_loading--;
    publish(slot);
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

/* ---- Leases ---- */

static sluice_status check_expert_id(const struct expert_store *store, uint32_t layer, uint32_t expert,
                                     sluice_error *err)
{
    const struct model_config *config = &store->container->config;
    if (layer >= config->num_hidden_layers || store->sparse_of[layer] == SLOT_NONE ||
        expert >= config->n_routed_experts) {
        return error_set(err, SLUICE_INVALID, "expert store: there is no expert %u in layer %u", expert, layer);
    }
    return SLUICE_OK;
}

bool expert_store_acquire_ready(struct expert_store *store, uint32_t layer, uint32_t expert, struct expert_lease *lease)
{
    if (check_expert_id(store, layer, expert, NULL) != SLUICE_OK) {
        return false;
    }
    pthread_mutex_lock(&store->lock);
    uint32_t index = *slot_of(store, layer, expert);
    bool ready = index != SLOT_NONE && store->slots[index].state == SLOT_READY;
    if (ready) {
        *lease = take_lease(&store->slots[index]);
        store->stats.hits++;
    }
    pthread_mutex_unlock(&store->lock);
    return ready;
}

static sluice_status acquire(struct expert_store *store, uint32_t layer, uint32_t expert, bool last_resort,
                             struct expert_lease *lease, bool *ready, sluice_error *err)
{
    TRY(check_expert_id(store, layer, expert, err));
    sluice_status status = SLUICE_OK;
    struct store_slot *slot = NULL;
    size_t n_parts = 0;
    pthread_mutex_lock(&store->lock);
    uint32_t index = *slot_of(store, layer, expert);
    if (index != SLOT_NONE) {
        slot = &store->slots[index];
        *ready = slot->state == SLOT_READY;
        *lease = take_lease(slot);
        store->stats.hits += *ready ? 1 : 0;
        store->stats.misses += *ready ? 0 : 1;
    } else {
        index = store->policy->victim(&store->table, store->sparse_of[layer], last_resort);
        if (index == POLICY_NONE) {
            status = error_set(err, SLUICE_BUSY, "expert store: every slot is in use");
        } else {
            slot = &store->slots[index];
            n_parts = start_load(store, slot, layer, expert, lease);
            *ready = false;
            store->stats.misses++;
        }
    }
    pthread_mutex_unlock(&store->lock);
    if (n_parts > 0) {
        store_load_submit(slot, n_parts);
    }
    return status;
}

sluice_status expert_store_acquire(struct expert_store *store, uint32_t layer, uint32_t expert,
                                   struct expert_lease *lease, bool *ready, sluice_error *err)
{
    return acquire(store, layer, expert, false, lease, ready, err);
}

sluice_status expert_store_acquire_any(struct expert_store *store, uint32_t layer, uint32_t expert,
                                       struct expert_lease *lease, bool *ready, sluice_error *err)
{
    return acquire(store, layer, expert, true, lease, ready, err);
}

/* Index of the first lease that is no longer loading, with its status; n when all are. */
static size_t find_settled(const struct expert_store *store, const struct expert_lease *leases, size_t n,
                           sluice_status *status, sluice_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct store_slot *slot = leased_slot(store, leases[i]);
        if (slot == NULL) {
            *status = stale(leases[i], err);
            return i;
        }
        if (slot->state != SLOT_LOADING) {
            *status = slot_status(slot, err);
            return i;
        }
    }
    return n;
}

/* Sleeps until something changes; not for long where a flag has to be looked at in between. */
static void sleep_for_change(struct expert_store *store, bool briefly)
{
    if (!briefly) {
        pthread_cond_wait(&store->changed, &store->lock);
        return;
    }
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_nsec += WAIT_NANOSECONDS;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_nsec -= 1000000000;
        deadline.tv_sec++;
    }
    pthread_cond_timedwait(&store->changed, &store->lock, &deadline);
}

sluice_status expert_store_wait(struct expert_store *store, const struct expert_lease *leases, size_t n,
                                const atomic_bool *cancel, size_t *which, sluice_error *err)
{
    sluice_status status = SLUICE_OK;
    bool slept = false;
    double begin = 0.0;
    pthread_mutex_lock(&store->lock);
    for (;;) {
        size_t settled = find_settled(store, leases, n, &status, err);
        if (settled < n) {
            *which = settled;
            break;
        }
        if (cancel != NULL && atomic_load(cancel)) {
            status = error_set(err, SLUICE_CANCELLED, "cancelled while reading experts");
            break;
        }
        if (n == 0 && slept) {
            break;
        }
        if (!slept) {
            begin = clock_seconds();
            slept = true;
        }
        sleep_for_change(store, cancel != NULL || n == 0);
    }
    if (slept) {
        store->stats.wait_seconds += clock_seconds() - begin;
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

void expert_store_wake(struct expert_store *store)
{
    pthread_mutex_lock(&store->lock);
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

sluice_status expert_store_view(const struct expert_store *store, struct expert_lease lease, struct expert_weights *out,
                                sluice_error *err)
{
    pthread_mutex_lock(lock_of(store));
    const struct store_slot *slot = leased_slot(store, lease);
    sluice_status status = slot == NULL ? stale(lease, err) : slot_status(slot, err);
    pthread_mutex_unlock(lock_of(store));
    if (status == SLUICE_OK) {
        expert_layout_view(store_expert(store, slot), &slot->layout, slot->memory, out);
    }
    return status;
}

sluice_status expert_store_release(struct expert_store *store, struct expert_lease lease, sluice_error *err)
{
    sluice_status status = SLUICE_OK;
    pthread_mutex_lock(&store->lock);
    struct store_slot *slot = leased_slot(store, lease);
    if (slot == NULL) {
        status = stale(lease, err);
    } else if (--slot->leases == 0) {
        if (slot->state == SLOT_FAILED) {
            slot->state = SLOT_IDLE;
        }
        publish(slot);
        pthread_cond_broadcast(&store->changed);
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}
