/* Slot layouts: see layout.h for the idea.
 *
 * Resolving goes in two steps: source ranges from the components' places in the files, then a region of the slot for
 * each range. Only the second depends on the alignment of regions, so it is simply done again when the first
 * choice does not fit. Sums cannot overflow: the container has checked that every tensor lies inside its file. */
#include "experts/layout.h"

#include <stdbool.h>

#define WORD 4u               /* alignment that weights and scales need in memory */
#define PART_UNIT (64u << 10) /* parts are multiples of it, so that direct reads stay aligned */

/* Components [first, end) of an expert, back to back in one file. */
struct source {
    uint32_t shard;
    uint64_t begin, end; /* bytes of the file */
    size_t first_component, end_component;
};

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

const struct tensor_ref *expert_component_tensor(const struct stored_mlp *expert, enum expert_component component)
{
    const struct tensor_ref *const tensors[EXPERT_COMPONENTS] = {
        [EXPERT_DOWN] = &expert->down.weights,       [EXPERT_GATE] = &expert->gate.weights,
        [EXPERT_UP] = &expert->up.weights,           [EXPERT_DOWN_SCALES] = &expert->down.scales,
        [EXPERT_GATE_SCALES] = &expert->gate.scales, [EXPERT_UP_SCALES] = &expert->up.scales,
    };
    return tensors[component];
}

/* A component joins the range before it when it follows in the same file, at a distance from the range's start
 * that leaves both aligned alike. */
static bool joins(const struct source *source, const struct tensor_ref *tensor)
{
    return tensor->shard == source->shard && tensor->offset == source->end &&
           (tensor->offset - source->begin) % WORD == 0;
}

static size_t find_sources(const struct stored_mlp *expert, struct source sources[EXPERT_COMPONENTS])
{
    size_t n = 0;
    for (size_t i = 0; i < EXPERT_COMPONENTS; i++) {
        const struct tensor_ref *tensor = expert_component_tensor(expert, (enum expert_component)i);
        if (tensor->bytes == 0) {
            continue;
        }
        if (n == 0 || !joins(&sources[n - 1], tensor)) {
            sources[n++] = (struct source){.shard = tensor->shard, .begin = tensor->offset, .first_component = i};
        }
        sources[n - 1].end = tensor->offset + tensor->bytes;
        sources[n - 1].end_component = i + 1;
    }
    return n;
}

/* Places one range at the first multiple of `align` from `at` on; returns the end of its region. */
static size_t place_source(const struct source *source, const struct stored_mlp *expert, const struct os_file *file,
                           size_t at, size_t align, struct expert_layout *layout)
{
    bool direct = source->begin % WORD == 0;
    uint64_t page = file->block > EXPERT_PAGE ? file->block : EXPERT_PAGE;
    uint64_t unit = direct ? page : 1;
    size_t start = (size_t)round_up(at, align > page ? align : page);
    uint64_t offset = source->begin / unit * unit;
    uint64_t end = round_up(source->end, unit);
    uint64_t file_end = direct ? round_up(file->size, file->block > 0 ? file->block : 1) : end;
    if (file_end < source->end) {
        file_end = source->end;
    }
    layout->ranges[layout->n_ranges++] = (struct expert_range){
        .shard = source->shard,
        .offset = offset,
        .len = (size_t)((end < file_end ? end : file_end) - offset),
        .needed = (size_t)(source->end - offset),
        .at = start,
    };
    for (size_t i = source->first_component; i < source->end_component; i++) {
        const struct tensor_ref *tensor = expert_component_tensor(expert, (enum expert_component)i);
        if (tensor->bytes > 0) {
            layout->at[i] = start + (size_t)(tensor->offset - offset);
        }
    }
    return start + (size_t)(end - offset);
}

static void place_sources(const struct source *sources, size_t n, const struct stored_mlp *expert,
                          const struct os_file *shards, size_t align, struct expert_layout *layout)
{
    size_t end = 0;
    *layout = (struct expert_layout){0};
    for (size_t i = 0; i < n; i++) {
        end = place_source(&sources[i], expert, &shards[sources[i].shard], end, align, layout);
    }
    layout->bytes = (size_t)round_up(end, EXPERT_SLOT_ALIGN);
}

/* Slot bytes with every component on a 16 KiB boundary of its own. */
static size_t canonical_bytes(const struct stored_mlp *expert)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < EXPERT_COMPONENTS; i++) {
        bytes += round_up(expert_component_tensor(expert, (enum expert_component)i)->bytes, EXPERT_SLOT_ALIGN);
    }
    return (size_t)bytes;
}

void expert_layout_resolve(const struct stored_mlp *expert, const struct os_file *shards, struct expert_layout *out)
{
    struct source sources[EXPERT_COMPONENTS];
    size_t n = find_sources(expert, sources);
    place_sources(sources, n, expert, shards, EXPERT_SLOT_ALIGN, out);
    if (out->bytes > canonical_bytes(expert)) {
        place_sources(sources, n, expert, shards, EXPERT_PAGE, out);
    }
}

/* Bytes of every part but the last: equal shares, in whole units. */
static size_t part_bytes(const struct expert_range *range)
{
    size_t n = (range->needed + EXPERT_PART_BYTES - 1) / EXPERT_PART_BYTES;
    return n == 0 ? PART_UNIT : (size_t)round_up((range->needed + n - 1) / n, PART_UNIT);
}

size_t expert_range_parts(const struct expert_range *range)
{
    size_t bytes = part_bytes(range);
    return (range->needed + bytes - 1) / bytes;
}

struct expert_range expert_range_part(const struct expert_range *range, size_t i)
{
    size_t bytes = part_bytes(range), begin = i * bytes;
    bool last = i + 1 == expert_range_parts(range);
    return (struct expert_range){
        .shard = range->shard,
        .offset = range->offset + begin,
        .len = last ? range->len - begin : bytes,
        .needed = last ? range->needed - begin : bytes,
        .at = range->at + begin,
    };
}

static struct quant_matrix view_matrix(const struct stored_matrix *matrix, const char *slot, size_t weights_at,
                                       size_t scales_at)
{
    return (struct quant_matrix){
        .kind = matrix->kind,
        .rows = matrix->rows,
        .cols = matrix->cols,
        .group = matrix->group,
        .weights = slot + weights_at,
        .scales = matrix->scales.bytes > 0 ? (const float *)(const void *)(slot + scales_at) : NULL,
    };
}

void expert_layout_view(const struct stored_mlp *expert, const struct expert_layout *layout, const void *slot,
                        struct expert_weights *out)
{
    const size_t *at = layout->at;
    *out = (struct expert_weights){
        .gate = view_matrix(&expert->gate, slot, at[EXPERT_GATE], at[EXPERT_GATE_SCALES]),
        .up = view_matrix(&expert->up, slot, at[EXPERT_UP], at[EXPERT_UP_SCALES]),
        .down = view_matrix(&expert->down, slot, at[EXPERT_DOWN], at[EXPERT_DOWN_SCALES]),
    };
}
