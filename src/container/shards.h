/* The *.safetensors files of a container directory, in name order, and gaps in their numbering. */
#ifndef SLUICE_CONTAINER_SHARDS_H
#define SLUICE_CONTAINER_SHARDS_H

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

#define SHARDS_MAX 4096

/* Lists the file names (without directory), sorted bytewise, in the arena. No file: SLUICE_INCOMPLETE. A number
 * missing from a series such as out-00000, out-00001, … or model-00001-of-00005: SLUICE_INCOMPLETE naming it. */
sluice_status shards_list(const char *dir, struct arena *arena, const char *const **names, uint32_t *n,
                          sluice_error *err);

/* The numbering check alone, for names sorted bytewise. */
sluice_status shards_check_numbering(const char *dir, const char *const *names, uint32_t n, sluice_error *err);

#endif
