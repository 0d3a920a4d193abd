/* Filling a slot.
 *
 * A load is a number of positioned reads, submitted together. They complete on the reader's threads in any order; the
 * last one to come in checks that the scales are finite, without the lock, since nobody else looks at a loading slot,
 * and then tells the table. A failed read does not stop its siblings: they drain, and the load fails as a whole. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "experts/store_internal.h"

const struct stored_mlp *store_expert(const struct expert_store *store, const struct store_slot *slot)
{
    return &store->container->layers[slot->layer].experts[slot->expert];
}

/* ---- Scales ---- */

/* Index of the first value that is infinite or NaN; n when all are finite. */
static size_t find_nonfinite(const uint32_t *bits, size_t n)
{
    const uint32_t exponent = 0x7F800000u;
    size_t i = 0;
    while (i < n && (bits[i] & exponent) != exponent) {
        i++;
    }
    return i;
}

static void check_scales(struct store_slot *slot)
{
    const struct stored_mlp *expert = store_expert(slot->store, slot);
    for (int component = EXPERT_DOWN_SCALES; component <= EXPERT_UP_SCALES; component++) {
        const struct tensor_ref *tensor = expert_component_tensor(expert, (enum expert_component)component);
        const void *scales = slot->memory + slot->layout.at[component];
        size_t n = (size_t)(tensor->bytes / sizeof(float));
        size_t bad = find_nonfinite(scales, n);
        if (bad < n) {
            slot->failure =
                (struct slot_failure){.failed = true, .component = (enum expert_component)component, .element = bad};
            return;
        }
    }
}

/* ---- Reads ---- */

/* The first component that has bytes in [begin, end) of the slot. */
static enum expert_component component_at(const struct store_slot *slot, size_t begin, size_t end)
{
    const struct stored_mlp *expert = store_expert(slot->store, slot);
    for (int component = 0; component < EXPERT_COMPONENTS; component++) {
        uint64_t bytes = expert_component_tensor(expert, (enum expert_component)component)->bytes;
        size_t at = slot->layout.at[component];
        if (bytes > 0 && at < end && at + bytes > begin) {
            return (enum expert_component)component;
        }
    }
    return EXPERT_DOWN;
}

static void note_failure(struct store_slot *slot, const struct async_read *read)
{
    if (slot->failure.failed) {
        return;
    }
    size_t begin = (size_t)((const char *)read->dst - slot->memory);
    slot->failure = (struct slot_failure){
        .failed = true,
        .os_errno = read->os_errno,
        .component = component_at(slot, begin + read->got, begin + read->needed),
    };
}

static void part_done(struct async_read *read)
{
    struct store_slot *slot = read->user;
    struct expert_store *store = slot->store;
    pthread_mutex_lock(&store->lock);
    store->stats.bytes_read += read->got;
    if (read->os_errno != 0) {
        note_failure(slot, read);
    }
    bool last = --slot->parts_left == 0;
    pthread_mutex_unlock(&store->lock);
    if (!last) {
        return;
    }
    if (!slot->failure.failed) {
        check_scales(slot);
    }
    store_load_finished(slot);
}

size_t store_load_prepare(struct store_slot *slot)
{
    const struct os_file *shards = slot->store->container->shards;
    size_t n = 0;
    expert_layout_resolve(store_expert(slot->store, slot), shards, &slot->layout);
    for (size_t i = 0; i < slot->layout.n_ranges; i++) {
        const struct expert_range *range = &slot->layout.ranges[i];
        for (size_t j = 0; j < expert_range_parts(range); j++) {
            struct expert_range part = expert_range_part(range, j);
            slot->parts[n++] = (struct async_read){
                .file = &shards[part.shard],
                .dst = slot->memory + part.at,
                .offset = part.offset,
                .len = (uint32_t)part.len,
                .needed = (uint32_t)part.needed,
                .priority = ASYNC_DEMAND,
                .done = part_done,
                .user = slot,
            };
        }
    }
    slot->state = SLOT_LOADING;
    slot->parts_left = n;
    slot->failure = (struct slot_failure){0};
    return n;
}

void store_load_submit(struct store_slot *slot, size_t n_parts)
{
    struct async_reader *reader = slot->store->reader;
    struct async_read *parts = slot->parts;
    for (size_t i = 0; i < n_parts; i++) {
        async_reader_submit(reader, &parts[i]);
    }
}

sluice_status store_load_report(const struct store_slot *slot, sluice_error *err)
{
    const struct slot_failure *failure = &slot->failure;
    const struct tensor_ref *tensor = expert_component_tensor(store_expert(slot->store, slot), failure->component);
    const char *path = slot->store->container->shards[tensor->shard].path;
    if (failure->os_errno == 0) {
        return error_set(err, SLUICE_NUMERIC, "%s: tensor %s: element %" PRIu64 " is not finite", path, tensor->name,
                         failure->element);
    }
    if (failure->os_errno == ENODATA) { /* the reader's code for it: its text would explain nothing */
        error_set(err, SLUICE_IO, "%s: the file ends inside tensor %s (expert %" PRIu32 " of layer %" PRIu32 ")", path,
                  tensor->name, slot->expert, slot->layer);
        if (err != NULL) {
            err->os_errno = ENODATA;
        }
        return SLUICE_IO;
    }
    return error_set_errno(err, SLUICE_IO, failure->os_errno,
                           "%s: cannot read tensor %s (expert %" PRIu32 " of layer %" PRIu32 ")", path, tensor->name,
                           slot->expert, slot->layer);
}
