/* One safetensors shard: u64 little-endian header length, JSON header, data.
 *
 * The header is the most hostile input of all: every number in it is an offset or a size. What
 * safetensors_parse returns is checked: dtypes are known, bytes equal dtype times shape, every tensor lies inside
 * the file and after the header, no two overlap, names are printable and not repeated. Memory stays in proportion
 * to the file: nothing is allocated by a number that the file merely claims. */
#ifndef SLUICE_CONTAINER_SAFETENSORS_H
#define SLUICE_CONTAINER_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "container/container.h"
#include "os/file.h"

#define SAFETENSORS_HEADER_MAX ((uint64_t)100 << 20) /* bytes of JSON */
#define SAFETENSORS_RANK_MAX 4

struct safetensors_entry {
    const char *name;                     /* in the arena */
    uint64_t offset;                      /* absolute, in the file */
    uint64_t bytes;                       /* = dtype size times shape */
    uint64_t shape[SAFETENSORS_RANK_MAX]; /* [rank] */
    uint32_t rank;
    uint32_t shard; /* left 0; the catalogue's */
    enum tensor_dtype dtype;
    bool used; /* left false; the catalogue's */
};

/* Reads the header's JSON text. SLUICE_INCOMPLETE if the file ends inside it. free() releases *text. */
sluice_status safetensors_read_header(const struct os_file *file, char **text, size_t *len, sluice_error *err);

/* Parses the text of a header in a file of file_size bytes; `path` names the file in messages. *entries is in order of
 * offset; free() releases it, the names live in the arena. Works on any text without a file behind it. */
sluice_status safetensors_parse(const char *text, size_t len, uint64_t file_size, const char *path, struct arena *arena,
                                struct safetensors_entry **entries, size_t *n, sluice_error *err);

size_t safetensors_dtype_size(enum tensor_dtype dtype);
const char *safetensors_dtype_name(enum tensor_dtype dtype); /* "BF16" */

/* Writes "[12, 192]" and returns text. */
#define SAFETENSORS_SHAPE_TEXT 96
const char *safetensors_shape_text(const struct safetensors_entry *entry, char text[SAFETENSORS_SHAPE_TEXT]);

#endif
