/* All tensors of all shards, by name. Built once at open, thrown away when every tensor is resolved. */
#ifndef SLUICE_CONTAINER_CATALOGUE_H
#define SLUICE_CONTAINER_CATALOGUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "container/safetensors.h"
#include "os/file.h"

#define CATALOGUE_TENSORS_MAX ((size_t)1 << 21)

struct catalogue {
    struct safetensors_entry *entries; /* [n], shard by shard, in order of offset */
    size_t n, cap;
    uint32_t *table; /* [table_size], entry index + 1 or 0; open addressing */
    size_t table_size;
    const struct os_file *shards; /* borrowed, for messages */
    struct arena *arena;          /* borrowed, holds the names */
};

void catalogue_init(struct catalogue *catalogue, const struct os_file *shards, struct arena *arena);
void catalogue_free(struct catalogue *catalogue); /* safe on a zeroed one; the names stay in the arena */

/* Adds the tensors of shard `shard`, whose header text is given. A name that is there already names both files. */
sluice_status catalogue_add_shard(struct catalogue *catalogue, uint32_t shard, const char *text, size_t len,
                                  sluice_error *err);

/* NULL if there is no such tensor. Valid until the next catalogue_add_shard. */
struct safetensors_entry *catalogue_find(const struct catalogue *catalogue, const char *name);

#endif
