/* Resolving one tensor.
 *
 * A plain tensor must have the exact shape. A quantised one is U8, flat or with its rows as first dimension, and its
 * kind follows from two counts: bytes of weights and number of scales. With one scale a row, "int4 row" and a group as
 * wide as the row would mean the same weights; it is taken as int4 row, which is what the file holds: one scale
 * a row. Among group sizes with equal counts the first of the list is meant, by definition of the format. */
#include "container/resolve.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "container/layout.h"

static const uint32_t group_sizes[] = {16, 32, 48, 64, 96, 128, 192, 256};

/* ---- Kinds ------------------------------------------------------------------------------------------- */

/* The first group size that gives this many scales with at least two groups a row; 0 if none does. */
static uint32_t find_group(uint32_t rows, uint32_t cols, uint64_t scales)
{
    for (size_t i = 0; i < sizeof(group_sizes) / sizeof(group_sizes[0]); i++) {
        uint64_t groups = ((uint64_t)cols + group_sizes[i] - 1) / group_sizes[i];
        if (groups > 1 && scales == rows * groups) {
            return group_sizes[i];
        }
    }
    return 0;
}

enum quant_match resolve_kind(uint32_t rows, uint32_t cols, uint64_t bytes, uint64_t scales, struct quant_guess *out)
{
    bool is_int8 = bytes == (uint64_t)rows * cols && scales == rows;
    bool has_int4_bytes = bytes == (uint64_t)rows * (((uint64_t)cols + 1) / 2);
    bool is_int4_row = has_int4_bytes && scales == rows;
    uint32_t group = has_int4_bytes && !is_int4_row ? find_group(rows, cols, scales) : 0;
    int n = is_int8 + is_int4_row + (group != 0);
    if (n != 1) {
        return n == 0 ? QUANT_MATCH_NONE : QUANT_MATCH_AMBIGUOUS;
    }
    out->kind = is_int8 ? QUANT_INT8_ROW : is_int4_row ? QUANT_INT4_ROW : QUANT_INT4_GROUP;
    out->group = group;
    return QUANT_MATCH_ONE;
}

/* ---- Entries ----------------------------------------------------------------------------------------- */

static const char *path_of(const struct catalogue *catalogue, const struct safetensors_entry *entry)
{
    return catalogue->shards[entry->shard].path;
}

static struct tensor_ref make_ref(const struct safetensors_entry *entry)
{
    return (struct tensor_ref){.name = entry->name,
                               .shard = entry->shard,
                               .dtype = entry->dtype,
                               .offset = entry->offset,
                               .bytes = entry->bytes};
}

static bool has_shape(const struct safetensors_entry *entry, uint64_t first, uint64_t second)
{
    return entry->rank == 2 && entry->shape[0] == first && entry->shape[1] == second;
}

/* Flat, or two dimensions of which the first is the rows. The counts are checked elsewhere. */
static bool is_flat_or_rows(const struct safetensors_entry *entry, uint32_t rows)
{
    return entry->rank == 1 || (entry->rank == 2 && entry->shape[0] == rows);
}

/* "PATH: tensor NAME is DTYPE of shape S, expected WHAT" */
static sluice_status wrong_tensor(const struct catalogue *catalogue, const struct safetensors_entry *entry,
                                  const char *expected, sluice_error *err)
{
    char shape[SAFETENSORS_SHAPE_TEXT];
    return error_set(err, SLUICE_FORMAT, "%s: tensor %s is %s of shape %s, expected %s", path_of(catalogue, entry),
                     entry->name, safetensors_dtype_name(entry->dtype), safetensors_shape_text(entry, shape), expected);
}

static struct safetensors_entry *find_scales(const struct catalogue *catalogue, const char *name)
{
    char scales[LAYOUT_NAME_MAX + 4];
    snprintf(scales, sizeof(scales), "%s.qs", name);
    return catalogue_find(catalogue, scales);
}

bool resolve_is_present(const struct catalogue *catalogue, const char *name, bool may_be_quantised,
                        const char **missing_suffix)
{
    struct safetensors_entry *entry = catalogue_find(catalogue, name);
    struct safetensors_entry *scales = may_be_quantised ? find_scales(catalogue, name) : NULL;
    if (entry != NULL) {
        entry->used = true;
    }
    if (scales != NULL) {
        scales->used = true;
    }
    *missing_suffix = entry == NULL ? "" : ".qs";
    return entry != NULL && (entry->dtype != DTYPE_U8 || !may_be_quantised || scales != NULL);
}

/* ---- Vectors ----------------------------------------------------------------------------------------- */

sluice_status resolve_vector(const struct catalogue *catalogue, const char *name, uint32_t n, struct stored_vector *out,
                             sluice_error *err)
{
    const struct safetensors_entry *entry = catalogue_find(catalogue, name);
    assert(entry != NULL);
    if (entry->dtype == DTYPE_U8 || entry->rank != 1 || entry->shape[0] != n) {
        char expected[64];
        snprintf(expected, sizeof(expected), "F32, BF16 or F16 of shape [%" PRIu32 "]", n);
        return wrong_tensor(catalogue, entry, expected, err);
    }
    out->data = make_ref(entry);
    out->n = n;
    return SLUICE_OK;
}

/* ---- Matrices ---------------------------------------------------------------------------------------- */

static sluice_status resolve_plain(const struct catalogue *catalogue, const struct safetensors_entry *entry,
                                   uint32_t rows, uint32_t cols, struct stored_matrix *out, sluice_error *err)
{
    if (entry->dtype == DTYPE_U8 || !has_shape(entry, rows, cols)) {
        char expected[80];
        snprintf(expected, sizeof(expected), "F32, BF16 or F16 of shape [%" PRIu32 ", %" PRIu32 "]", rows, cols);
        return wrong_tensor(catalogue, entry, expected, err);
    }
    *out = (struct stored_matrix){.kind = QUANT_F32, .rows = rows, .cols = cols, .weights = make_ref(entry)};
    return SLUICE_OK;
}

static sluice_status wrong_counts(const struct catalogue *catalogue, const struct safetensors_entry *weights,
                                  const struct safetensors_entry *scales, uint32_t rows, uint32_t cols,
                                  enum quant_match match, sluice_error *err)
{
    char shape[SAFETENSORS_SHAPE_TEXT], scales_shape[SAFETENSORS_SHAPE_TEXT];
    return error_set(err, SLUICE_FORMAT,
                     "%s: tensor %s is U8 of shape %s and %s of shape %s: %s [%u, %u] (int8: %" PRIu64
                     " bytes, int4: %" PRIu64 ", scales: %u or one a group)",
                     path_of(catalogue, weights), weights->name, safetensors_shape_text(weights, shape), scales->name,
                     safetensors_shape_text(scales, scales_shape),
                     match == QUANT_MATCH_NONE ? "not the counts of a matrix"
                                               : "both int8 and int4 have the counts of a matrix",
                     rows, cols, (uint64_t)rows * cols, (uint64_t)rows * (((uint64_t)cols + 1) / 2), rows);
}

static sluice_status resolve_quantised(const struct catalogue *catalogue, const struct safetensors_entry *weights,
                                       uint32_t rows, uint32_t cols, struct stored_matrix *out, sluice_error *err)
{
    const struct safetensors_entry *scales = find_scales(catalogue, weights->name);
    assert(scales != NULL);
    if (scales->dtype != DTYPE_F32 || !is_flat_or_rows(scales, rows)) {
        return wrong_tensor(catalogue, scales, "flat F32 scales", err);
    }
    if (!is_flat_or_rows(weights, rows)) {
        return wrong_tensor(catalogue, weights, "flat U8, or U8 with one row a matrix row", err);
    }
    struct quant_guess guess;
    enum quant_match match = resolve_kind(rows, cols, weights->bytes, scales->bytes / sizeof(float), &guess);
    if (match != QUANT_MATCH_ONE) {
        return wrong_counts(catalogue, weights, scales, rows, cols, match, err);
    }
    if (guess.kind != QUANT_INT8_ROW && cols % 8 != 0) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: tensor %s is int4 with %u columns, which must be divisible by 8",
                         path_of(catalogue, weights), weights->name, cols);
    }
    *out = (struct stored_matrix){.kind = guess.kind,
                                  .rows = rows,
                                  .cols = cols,
                                  .group = guess.group,
                                  .weights = make_ref(weights),
                                  .scales = make_ref(scales)};
    return SLUICE_OK;
}

sluice_status resolve_matrix(const struct catalogue *catalogue, const char *name, uint32_t rows, uint32_t cols,
                             bool plain_only, struct stored_matrix *out, sluice_error *err)
{
    const struct safetensors_entry *entry = catalogue_find(catalogue, name);
    assert(entry != NULL);
    if (entry->dtype == DTYPE_U8 && !plain_only) {
        return resolve_quantised(catalogue, entry, rows, cols, out, err);
    }
    return resolve_plain(catalogue, entry, rows, cols, out, err);
}
