/* Where an expert's bytes lie in its files, and where they land in a slot.
 *
 * An expert is up to six components: down, gate, up weights, then their scales. Components that follow one another in
 * one file form a range and are read together. A range is read in whole pages, from the one that holds its first
 * byte, into a page-aligned region of the slot: a component then sits at the region's start plus its remainder
 * within the page, where a direct read put it; nothing is copied. A range whose components would not be
 * aligned to four bytes that way is read byte for byte into an aligned place instead (the reader takes the buffered
 * descriptor for it). Regions start at 16 KiB; where many ranges would thereby outgrow the canonical slot (every
 * component rounded up to 16 KiB), at the next page.
 *
 * Pure functions over checked descriptors: no file is touched. */
#ifndef SLUICE_EXPERTS_LAYOUT_H
#define SLUICE_EXPERTS_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "container/container.h"
#include "os/file.h"
#include "quant/matrix.h"

#define EXPERT_SLOT_ALIGN 16384u
#define EXPERT_PAGE 4096u                   /* unit of reading; a file's own block if that is larger */
#define EXPERT_PART_BYTES ((size_t)4 << 20) /* largest single read of a range, but for a last page */

/* In canonical order. */
enum expert_component {
    EXPERT_DOWN,
    EXPERT_GATE,
    EXPERT_UP,
    EXPERT_DOWN_SCALES,
    EXPERT_GATE_SCALES,
    EXPERT_UP_SCALES,
    EXPERT_COMPONENTS,
};

/* One stretch of one file. */
struct expert_range {
    uint32_t shard;
    uint64_t offset; /* of the first byte read */
    size_t len;      /* bytes to ask for; may end past the end of the file, in its last block */
    size_t needed;   /* of those, bytes up to the end of the last component */
    size_t at;       /* where in the slot the first byte lands */
};

struct expert_layout {
    size_t at[EXPERT_COMPONENTS]; /* of each component in the slot; 0 for scales that an f32 matrix has not */
    struct expert_range ranges[EXPERT_COMPONENTS];
    size_t n_ranges;
    size_t bytes; /* of the slot, a multiple of EXPERT_SLOT_ALIGN */
};

/* shards [container.n_shards]: block and size are used. */
void expert_layout_resolve(const struct stored_mlp *expert, const struct os_file *shards, struct expert_layout *out);

/* The stored tensor behind a component; bytes 0 for scales that do not exist. */
const struct tensor_ref *expert_component_tensor(const struct stored_mlp *expert, enum expert_component component);

/* A range is read in parts of at most EXPERT_PART_BYTES, so that several threads work on one expert and a demand read
 * never waits long behind another. i < expert_range_parts(range). */
size_t expert_range_parts(const struct expert_range *range);
struct expert_range expert_range_part(const struct expert_range *range, size_t i);

/* Views of the matrices of an expert whose slot lies at `slot`. */
void expert_layout_view(const struct stored_mlp *expert, const struct expert_layout *layout, const void *slot,
                        struct expert_weights *out);

#endif
