/* Reading a safetensors header.
 *
 * Before jansson sees the text, one scan bounds its nesting and the number of its values, so that a header made
 * to be expensive ("[[[[…", or ten million empty lists) costs one pass and no memory. Then each tensor is checked by
 * itself, and last the tensors together, sorted by offset: overlaps, and the end of the file.
 *
 * A file that ends early is the common accident – an interrupted download – and gets its own status and words. */
#include "container/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"

#define PREFIX_BYTES 8
#define NESTING_MAX 8                        /* a header needs three levels */
#define VALUES_MAX ((size_t)4 << 20)         /* a tensor needs about six; bounds jansson's memory */
#define TENSOR_BYTES_MAX ((uint64_t)1 << 50) /* keeps sums of a few offsets far from 2^64 */
#define NAME_LEN_MAX 512

/* ---- Dtypes ------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [DTYPE_U8] = {"U8", 1},
    [DTYPE_F32] = {"F32", 4},
    [DTYPE_BF16] = {"BF16", 2},
    [DTYPE_F16] = {"F16", 2},
};

#define N_DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

size_t safetensors_dtype_size(enum tensor_dtype dtype)
{
    return dtypes[dtype].size;
}

const char *safetensors_dtype_name(enum tensor_dtype dtype)
{
    return dtypes[dtype].name;
}

const char *safetensors_shape_text(const struct safetensors_entry *entry, char text[SAFETENSORS_SHAPE_TEXT])
{
    size_t len = (size_t)snprintf(text, SAFETENSORS_SHAPE_TEXT, "[");
    for (uint32_t i = 0; i < entry->rank; i++) {
        len += (size_t)snprintf(text + len, SAFETENSORS_SHAPE_TEXT - len, "%s%" PRIu64, i == 0 ? "" : ", ",
                                entry->shape[i]);
    }
    snprintf(text + len, SAFETENSORS_SHAPE_TEXT - len, "]");
    return text;
}

/* ---- Header text ------------------------------------------------------------------------------------- */

static sluice_status read_length(const struct os_file *file, uint64_t *out, sluice_error *err)
{
    if (file->size < PREFIX_BYTES) {
        return error_set(err, SLUICE_INCOMPLETE,
                         "%s: the file has %" PRIu64 " bytes, not even a header length (incomplete download?)",
                         file->path, file->size);
    }
    unsigned char prefix[PREFIX_BYTES];
    TRY(os_file_read_at(file, prefix, sizeof(prefix), 0, err));
    uint64_t len = 0;
    for (size_t i = PREFIX_BYTES; i-- > 0;) {
        len = len << 8 | prefix[i];
    }
    if (len > SAFETENSORS_HEADER_MAX) {
        return error_set(err, SLUICE_FORMAT, "%s: header length %" PRIu64 " exceeds the %" PRIu64 " bytes allowed",
                         file->path, len, SAFETENSORS_HEADER_MAX);
    }
    if (len > file->size - PREFIX_BYTES) {
        return error_set(err, SLUICE_INCOMPLETE,
                         "%s: the file ends inside its header: %" PRIu64 " bytes are missing (incomplete download?)",
                         file->path, len - (file->size - PREFIX_BYTES));
    }
    *out = len;
    return SLUICE_OK;
}

sluice_status safetensors_read_header(const struct os_file *file, char **text, size_t *len, sluice_error *err)
{
    uint64_t header_len = 0;
    TRY(read_length(file, &header_len, err));
    char *buf = malloc((size_t)header_len + 1);
    if (buf == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "%s: no memory for a header of %" PRIu64 " bytes", file->path,
                         header_len);
    }
    sluice_status status = os_file_read_at(file, buf, (size_t)header_len, PREFIX_BYTES, err);
    if (status != SLUICE_OK) {
        free(buf);
        return status;
    }
    buf[header_len] = '\0';
    *text = buf;
    *len = (size_t)header_len;
    return SLUICE_OK;
}

/* Bounds nesting and number of values. Text that is not JSON may pass; the parser refuses it. */
static sluice_status scan_header(const char *text, size_t len, const char *path, sluice_error *err)
{
    size_t depth = 0, values = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string) {
            i += c == '\\'; /* whatever is escaped, it ends no string */
            in_string = c != '"';
            continue;
        }
        in_string = c == '"';
        if (c == '{' || c == '[') {
            depth++;
            values++;
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        } else if (c == ',') {
            values++;
        }
        if (depth > NESTING_MAX) {
            return error_set(err, SLUICE_FORMAT, "%s: the header is nested more than %d levels deep", path,
                             NESTING_MAX);
        }
        if (values > VALUES_MAX) {
            return error_set(err, SLUICE_FORMAT, "%s: the header holds more than %zu values", path, VALUES_MAX);
        }
    }
    return SLUICE_OK;
}

/* ---- One tensor -------------------------------------------------------------------------------------- */

/* What the checks of one header need to know. */
struct header {
    const char *path;
    uint64_t data_start; /* of the data section in the file */
    uint64_t file_size;
};

static sluice_status parse_dtype(const struct header *header, const json_t *tensor, struct safetensors_entry *entry,
                                 sluice_error *err)
{
    const char *text = json_string_value(json_object_get(tensor, "dtype"));
    for (size_t i = 0; text != NULL && i < N_DTYPES; i++) {
        if (strcmp(text, dtypes[i].name) == 0) {
            entry->dtype = (enum tensor_dtype)i;
            return SLUICE_OK;
        }
    }
    char shape[SAFETENSORS_SHAPE_TEXT];
    return error_set(err, SLUICE_FORMAT,
                     "%s: tensor %s has dtype %s and shape %s, expected a dtype of U8, F32, BF16, F16", header->path,
                     entry->name, text != NULL ? text : "(none)", safetensors_shape_text(entry, shape));
}

static sluice_status parse_shape(const struct header *header, const json_t *tensor, struct safetensors_entry *entry,
                                 sluice_error *err)
{
    const json_t *shape = json_object_get(tensor, "shape");
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape) || rank > SAFETENSORS_RANK_MAX) {
        return error_set(err, SLUICE_FORMAT, "%s: tensor %s: shape must be a list of at most %d numbers", header->path,
                         entry->name, SAFETENSORS_RANK_MAX);
    }
    for (size_t i = 0; i < rank; i++) {
        const json_t *value = json_array_get(shape, i);
        json_int_t n = json_integer_value(value);
        if (!json_is_integer(value) || n < 0 || (uint64_t)n > TENSOR_BYTES_MAX) {
            return error_set(err, SLUICE_FORMAT, "%s: tensor %s: dimension %zu of its shape is no size", header->path,
                             entry->name, i);
        }
        entry->shape[i] = (uint64_t)n;
    }
    entry->rank = (uint32_t)rank;
    return SLUICE_OK;
}

/* Bytes by dtype and shape. */
static sluice_status shape_bytes(const struct header *header, struct safetensors_entry *entry, sluice_error *err)
{
    uint64_t bytes = dtypes[entry->dtype].size;
    for (uint32_t i = 0; i < entry->rank; i++) {
        if (__builtin_mul_overflow(bytes, entry->shape[i], &bytes) || bytes > TENSOR_BYTES_MAX) {
            char shape[SAFETENSORS_SHAPE_TEXT];
            return error_set(err, SLUICE_FORMAT, "%s: tensor %s: shape %s is too large", header->path, entry->name,
                             safetensors_shape_text(entry, shape));
        }
    }
    entry->bytes = bytes;
    return SLUICE_OK;
}

/* Offsets are relative to the data section; entry->offset becomes absolute. */
static sluice_status parse_offsets(const struct header *header, const json_t *tensor, struct safetensors_entry *entry,
                                   sluice_error *err)
{
    const json_t *offsets = json_object_get(tensor, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last) || begin < 0 ||
        end < begin) {
        return error_set(err, SLUICE_FORMAT, "%s: tensor %s: data_offsets must be two ascending offsets", header->path,
                         entry->name);
    }
    if ((uint64_t)(end - begin) != entry->bytes) {
        char shape[SAFETENSORS_SHAPE_TEXT];
        return error_set(err, SLUICE_FORMAT,
                         "%s: tensor %s: data_offsets span %" PRIu64 " bytes, but %s of shape %s has %" PRIu64,
                         header->path, entry->name, (uint64_t)(end - begin), dtypes[entry->dtype].name,
                         safetensors_shape_text(entry, shape), entry->bytes);
    }
    entry->offset = header->data_start + (uint64_t)begin;
    return SLUICE_OK;
}

static sluice_status parse_name(const struct header *header, const char *name, struct arena *arena,
                                struct safetensors_entry *entry, sluice_error *err)
{
    size_t len = strlen(name);
    bool printable = len > 0 && len <= NAME_LEN_MAX;
    for (size_t i = 0; printable && i < len; i++) {
        printable = name[i] > 0x20 && name[i] < 0x7F;
    }
    if (!printable) {
        return error_set(err, SLUICE_FORMAT, "%s: \"%.100s\" is no tensor name: expected 1 to %d printable characters",
                         header->path, name, NAME_LEN_MAX);
    }
    entry->name = arena_strndup(arena, name, len);
    if (entry->name == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "%s: no memory for tensor names", header->path);
    }
    return SLUICE_OK;
}

static sluice_status parse_tensor(const struct header *header, const char *name, const json_t *tensor,
                                  struct arena *arena, struct safetensors_entry *entry, sluice_error *err)
{
    TRY(parse_name(header, name, arena, entry, err));
    if (!json_is_object(tensor)) {
        return error_set(err, SLUICE_FORMAT, "%s: tensor %s: not described by an object", header->path, name);
    }
    TRY(parse_shape(header, tensor, entry, err));
    TRY(parse_dtype(header, tensor, entry, err));
    TRY(shape_bytes(header, entry, err));
    return parse_offsets(header, tensor, entry, err);
}

/* ---- All tensors of a file --------------------------------------------------------------------------- */

static int compare_offset(const void *a, const void *b)
{
    const struct safetensors_entry *x = a, *y = b;
    if (x->offset != y->offset) {
        return x->offset < y->offset ? -1 : 1;
    }
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static sluice_status check_overlaps(const struct header *header, const struct safetensors_entry *entries, size_t n,
                                    sluice_error *err)
{
    for (size_t i = 1; i < n; i++) {
        const struct safetensors_entry *previous = &entries[i - 1];
        if (entries[i].offset < previous->offset + previous->bytes) {
            return error_set(err, SLUICE_FORMAT, "%s: tensors %s and %s overlap", header->path, previous->name,
                             entries[i].name);
        }
    }
    return SLUICE_OK;
}

/* Beyond the end: an offset that is wrong if the bytes of all tensors would fit, else a file cut short. */
static sluice_status check_end(const struct header *header, const struct safetensors_entry *entries, size_t n,
                               sluice_error *err)
{
    const struct safetensors_entry *last = &entries[n - 1];
    uint64_t end = last->offset + last->bytes;
    if (end <= header->file_size) {
        return SLUICE_OK;
    }
    uint64_t needed = header->data_start;
    for (size_t i = 0; i < n; i++) {
        needed += entries[i].bytes;
    }
    if (needed <= header->file_size) {
        return error_set(err, SLUICE_FORMAT,
                         "%s: tensor %s ends at byte %" PRIu64 ", outside the file of %" PRIu64 " bytes", header->path,
                         last->name, end, header->file_size);
    }
    return error_set(err, SLUICE_INCOMPLETE,
                     "%s: the file has %" PRIu64 " bytes, its header describes %" PRIu64 ": %" PRIu64
                     " bytes are missing (incomplete download?)",
                     header->path, header->file_size, end, end - header->file_size);
}

static sluice_status parse_all(const struct header *header, json_t *root, struct arena *arena,
                               struct safetensors_entry *entries, size_t *n_out, sluice_error *err)
{
    size_t n = 0;
    const char *name;
    json_t *tensor;
    json_object_foreach(root, name, tensor)
    {
        if (strcmp(name, "__metadata__") != 0) {
            TRY(parse_tensor(header, name, tensor, arena, &entries[n], err));
            n++;
        }
    }
    if (n > 0) {
        qsort(entries, n, sizeof(*entries), compare_offset);
        TRY(check_overlaps(header, entries, n, err));
        TRY(check_end(header, entries, n, err));
    }
    *n_out = n;
    return SLUICE_OK;
}

sluice_status safetensors_parse(const char *text, size_t len, uint64_t file_size, const char *path, struct arena *arena,
                                struct safetensors_entry **entries, size_t *n, sluice_error *err)
{
    TRY(scan_header(text, len, path, err));
    char source[512];
    snprintf(source, sizeof(source), "%s: header", path);
    json_t *root;
    TRY(json_parse(text, len, source, &root, err));

    const struct header header = {path, PREFIX_BYTES + len, file_size};
    struct safetensors_entry *list = NULL;
    sluice_status status;
    if (!json_is_object(root)) {
        status = error_set(err, SLUICE_FORMAT, "%s: the header is no JSON object", path);
        goto done;
    }
    list = mem_zalloc(json_object_size(root) + 1, sizeof(*list));
    if (list == NULL) {
        status = error_set(err, SLUICE_NO_MEMORY, "%s: no memory for %zu tensors", path, json_object_size(root));
        goto done;
    }
    status = parse_all(&header, root, arena, list, n, err);
    if (status == SLUICE_OK) {
        *entries = list;
        list = NULL;
    }
done:
    free(list);
    json_decref(root);
    return status;
}
