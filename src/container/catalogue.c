/* The catalogue: one array of entries and a hash table of indices into it.
 *
 * The table is a power of two, at least twice the number of entries, probed linearly. It grows before a shard is
 * added, so insertion never fails half way. A real container has 117,000 tensors: about 10 MB while it is open. */
#include "container/catalogue.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/alloc.h"

void catalogue_init(struct catalogue *catalogue, const struct os_file *shards, struct arena *arena)
{
    *catalogue = (struct catalogue){.shards = shards, .arena = arena};
}

void catalogue_free(struct catalogue *catalogue)
{
    free(catalogue->entries);
    free(catalogue->table);
    *catalogue = (struct catalogue){0};
}

/* The slot that holds the name, or the empty slot where it belongs. */
static uint32_t *find_slot(const struct catalogue *catalogue, const char *name)
{
    size_t mask = catalogue->table_size - 1;
    size_t slot = (size_t)XXH3_64bits(name, strlen(name)) & mask;
    while (catalogue->table[slot] != 0 && strcmp(catalogue->entries[catalogue->table[slot] - 1].name, name) != 0) {
        slot = (slot + 1) & mask;
    }
    return &catalogue->table[slot];
}

struct safetensors_entry *catalogue_find(const struct catalogue *catalogue, const char *name)
{
    if (catalogue->table_size == 0) {
        return NULL;
    }
    uint32_t index = *find_slot(catalogue, name);
    return index == 0 ? NULL : &catalogue->entries[index - 1];
}

static bool grow_entries(struct catalogue *catalogue, size_t needed)
{
    if (needed <= catalogue->cap) {
        return true;
    }
    size_t cap = catalogue->cap == 0 ? 256 : catalogue->cap;
    while (cap < needed) {
        cap *= 2;
    }
    struct safetensors_entry *entries = realloc(catalogue->entries, cap * sizeof(*entries));
    if (entries == NULL) {
        return false;
    }
    catalogue->entries = entries;
    catalogue->cap = cap;
    return true;
}

static bool grow_table(struct catalogue *catalogue, size_t needed)
{
    size_t size = catalogue->table_size == 0 ? 512 : catalogue->table_size;
    while (size < 2 * needed) {
        size *= 2;
    }
    if (size == catalogue->table_size) {
        return true;
    }
    uint32_t *table = mem_zalloc(size, sizeof(*table));
    if (table == NULL) {
        return false;
    }
    free(catalogue->table);
    catalogue->table = table;
    catalogue->table_size = size;
    for (size_t i = 0; i < catalogue->n; i++) {
        *find_slot(catalogue, catalogue->entries[i].name) = (uint32_t)i + 1;
    }
    return true;
}

static sluice_status reserve(struct catalogue *catalogue, size_t extra, const char *path, sluice_error *err)
{
    if (extra > CATALOGUE_TENSORS_MAX - catalogue->n) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: more than %zu tensors up to this file", path,
                         CATALOGUE_TENSORS_MAX);
    }
    size_t needed = catalogue->n + extra;
    if (!grow_entries(catalogue, needed) || !grow_table(catalogue, needed)) {
        return error_set(err, SLUICE_NO_MEMORY, "%s: no memory for a catalogue of %zu tensors", path, needed);
    }
    return SLUICE_OK;
}

static sluice_status insert(struct catalogue *catalogue, const struct safetensors_entry *entry, sluice_error *err)
{
    uint32_t *slot = find_slot(catalogue, entry->name);
    if (*slot != 0) {
        uint32_t other = catalogue->entries[*slot - 1].shard;
        return error_set(err, SLUICE_FORMAT, "%s: tensor %s is also in %s", catalogue->shards[entry->shard].path,
                         entry->name, catalogue->shards[other].path);
    }
    catalogue->entries[catalogue->n] = *entry;
    catalogue->n++;
    *slot = (uint32_t)catalogue->n;
    return SLUICE_OK;
}

sluice_status catalogue_add_shard(struct catalogue *catalogue, uint32_t shard, const char *text, size_t len,
                                  sluice_error *err)
{
    const struct os_file *file = &catalogue->shards[shard];
    struct safetensors_entry *entries;
    size_t n;
    TRY(safetensors_parse(text, len, file->size, file->path, catalogue->arena, &entries, &n, err));
    sluice_status status = reserve(catalogue, n, file->path, err);
    for (size_t i = 0; i < n && status == SLUICE_OK; i++) {
        entries[i].shard = shard;
        status = insert(catalogue, &entries[i], err);
    }
    free(entries);
    return status;
}
