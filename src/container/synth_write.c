/* Random values, written as they are made.
 *
 * Each tensor has its own stream, seeded by the seed and the tensor's name, so its values do not depend on how the
 * container is cut into shards. The generator is SplitMix64: a counter and a mixing function, several GB/s. Values
 * pass through one buffer of a few MiB; memory does not grow with the container.
 *
 * Weights have mean 0, or the direction in which all columns agree would grow from matrix to matrix until every
 * token looked and routed alike: nibbles stand for -7..7, zero twice as often (as in a container quantised
 * symmetrically), and the half that random bytes are off is too little to grow. Scales are such that a matrix keeps
 * the size of its input: those nibbles have a root mean square of 4.18, random bytes one of 73.9, and a row adds up
 * `cols` of them. */
#include "container/synth.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/alloc.h"
#include "base/buffer.h"
#include "container/safetensors.h"

#define CHUNK_BYTES ((size_t)4 << 20) /* a multiple of 8 */

/* ---- Generator --------------------------------------------------------------------------------------- */

static uint64_t next_word(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Turns every nibble 0, which stands for -8, into 8, which stands for 0. */
static uint64_t balance_nibbles(uint64_t word)
{
    const uint64_t lowest = 0x1111111111111111u;
    uint64_t used = (word | word >> 1 | word >> 2 | word >> 3) & lowest;
    return word | (used ^ lowest) << 3;
}

static void fill_bytes(uint64_t *state, bool nibbles, unsigned char *dst, size_t len)
{
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = next_word(state);
        word = nibbles ? balance_nibbles(word) : word;
        memcpy(dst + i, &word, len - i < 8 ? len - i : 8);
    }
}

/* Uniform in [center - spread, center + spread). */
struct distribution {
    float center, spread;
};

static void fill_floats(uint64_t *state, const struct distribution *values, float *dst, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float unit = (float)(next_word(state) >> 40) * 0x1p-23f - 1.0f;
        dst[i] = values->center + values->spread * unit;
    }
}

/* ---- What a tensor holds ----------------------------------------------------------------------------- */

static struct distribution plain_values(const struct synth_tensor *tensor)
{
    if (tensor->form == LAYOUT_PLAIN_MATRIX) {
        return (struct distribution){0.0f, 3.0f / sqrtf((float)tensor->cols)}; /* router: logits of about 1.7 */
    }
    bool bias = strstr(tensor->name, "bias") != NULL;
    return bias ? (struct distribution){0.0f, 0.02f} : (struct distribution){1.0f, 0.1f};
}

static struct distribution scale_values(const struct synth_tensor *tensor)
{
    float rms = tensor->kind == QUANT_INT8_ROW ? 73.9f : 4.18f;
    /* an embedding row is no sum over columns: its elements have size 1 themselves */
    float sum = tensor->role == ROLE_EMBEDDING ? 1.0f : sqrtf((float)tensor->cols);
    float gain = tensor->role == ROLE_LM_HEAD ? 3.0f : 1.0f; /* logits that tell tokens apart */
    float center = gain / (sum * rms);
    return (struct distribution){center, 0.25f * center};
}

/* ---- Output ------------------------------------------------------------------------------------------ */

struct output {
    int fd;
    const char *path;
    unsigned char *chunk; /* [CHUNK_BYTES] */
    size_t used;
    uint64_t *done; /* data bytes over all shards */
    uint64_t total;
    const struct log *log;
};

static sluice_status write_all(const struct output *out, const void *data, size_t len, sluice_error *err)
{
    const unsigned char *bytes = data;
    while (len > 0) {
        ssize_t n = write(out->fd, bytes, len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return error_set_errno(err, SLUICE_IO, n < 0 ? errno : ENOSPC, "%s: cannot write", out->path);
        }
        bytes += n;
        len -= (size_t)n;
    }
    return SLUICE_OK;
}

static sluice_status flush(struct output *out, sluice_error *err)
{
    TRY(write_all(out, out->chunk, out->used, err));
    *out->done += out->used;
    out->used = 0;
    log_progress(out->log, "writing", *out->done, out->total);
    return log_cancelled(out->log) ? error_set(err, SLUICE_CANCELLED, "%s: cancelled", out->path) : SLUICE_OK;
}

static sluice_status put_bytes(struct output *out, uint64_t *state, bool nibbles, uint64_t len, sluice_error *err)
{
    while (len > 0) {
        size_t room = (CHUNK_BYTES - out->used) & ~(size_t)7; /* whole words, or the stream would depend on the chunk */
        if (room == 0) {
            TRY(flush(out, err));
            continue;
        }
        size_t n = len < room ? (size_t)len : room;
        fill_bytes(state, nibbles, out->chunk + out->used, n);
        out->used += n;
        len -= n;
    }
    return SLUICE_OK;
}

static sluice_status put_floats(struct output *out, uint64_t *state, const struct distribution *values, uint64_t n,
                                sluice_error *err)
{
    float block[256];
    while (n > 0) {
        size_t count = n < 256 ? (size_t)n : 256;
        if (CHUNK_BYTES - out->used < sizeof(block)) {
            TRY(flush(out, err));
        }
        fill_floats(state, values, block, count);
        memcpy(out->chunk + out->used, block, count * sizeof(*block));
        out->used += count * sizeof(*block);
        n -= count;
    }
    return SLUICE_OK;
}

/* ---- Pieces ------------------------------------------------------------------------------------------ */

/* One tensor of the file: a weight, or the scales of one. */
struct piece {
    const struct synth_tensor *tensor;
    bool scales;
};

static bool is_f32(const struct piece *piece)
{
    return piece->scales || piece->tensor->kind == QUANT_F32;
}

static uint64_t piece_bytes(const struct piece *piece)
{
    return piece->scales ? synth_scale_bytes(piece->tensor) : synth_weight_bytes(piece->tensor);
}

/* All F32 first, then all U8, each in name order: as public files are. */
static int compare_piece(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    int order = is_f32(y) - is_f32(x);
    return order != 0 ? order : strcmp(x->tensor->name, y->tensor->name);
}

static sluice_status header_append(struct buffer *header, const struct piece *piece, uint64_t offset, sluice_error *err)
{
    const struct synth_tensor *tensor = piece->tensor;
    uint64_t bytes = piece_bytes(piece);
    char shape[64];
    if (!piece->scales && tensor->form == LAYOUT_PLAIN_MATRIX) {
        snprintf(shape, sizeof(shape), "%" PRIu32 ",%" PRIu32, tensor->rows, tensor->cols);
    } else {
        snprintf(shape, sizeof(shape), "%" PRIu64, is_f32(piece) ? bytes / sizeof(float) : bytes);
    }
    return buffer_printf(
        header, err, ",\"%s%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
        tensor->name, piece->scales ? ".qs" : "", is_f32(piece) ? "F32" : "U8", shape, offset, offset + bytes);
}

static sluice_status write_header(const struct output *out, const struct piece *pieces, size_t n, sluice_error *err)
{
    struct buffer header;
    buffer_init(&header, SAFETENSORS_HEADER_MAX);
    uint64_t offset = 0;
    sluice_status status = buffer_append_str(&header, "{\"__metadata__\":{\"format\":\"pt\"}", err);
    for (size_t i = 0; i < n && status == SLUICE_OK; i++) {
        status = header_append(&header, &pieces[i], offset, err);
        offset += piece_bytes(&pieces[i]);
    }
    if (status == SLUICE_OK) {
        status = buffer_append_str(&header, "}", err);
    }
    while (status == SLUICE_OK && header.len % 8 != 0) {
        status = buffer_append_str(&header, " ", err);
    }
    if (status == SLUICE_OK) {
        unsigned char prefix[8];
        for (size_t i = 0; i < sizeof(prefix); i++) {
            prefix[i] = (unsigned char)((uint64_t)header.len >> (8 * i));
        }
        status = write_all(out, prefix, sizeof(prefix), err);
    }
    if (status == SLUICE_OK) {
        status = write_all(out, header.data, header.len, err);
    }
    buffer_free(&header);
    return status;
}

static sluice_status write_piece(struct output *out, const struct piece *piece, uint64_t seed, sluice_error *err)
{
    const struct synth_tensor *tensor = piece->tensor;
    uint64_t state = XXH3_64bits_withSeed(tensor->name, strlen(tensor->name), 2 * seed + piece->scales);
    if (!is_f32(piece)) {
        return put_bytes(out, &state, tensor->kind != QUANT_INT8_ROW, piece_bytes(piece), err);
    }
    struct distribution values = piece->scales ? scale_values(tensor) : plain_values(tensor);
    return put_floats(out, &state, &values, piece_bytes(piece) / sizeof(float), err);
}

/* ---- Shards ------------------------------------------------------------------------------------------ */

static size_t list_pieces(const struct synth_plan *plan, const struct synth_shard *shard, struct piece *pieces)
{
    size_t n = 0;
    for (size_t i = shard->first; i < shard->first + shard->n; i++) {
        pieces[n++] = (struct piece){&plan->tensors[i], false};
        if (plan->tensors[i].kind != QUANT_F32) {
            pieces[n++] = (struct piece){&plan->tensors[i], true};
        }
    }
    qsort(pieces, n, sizeof(*pieces), compare_piece);
    return n;
}

static sluice_status write_pieces(struct output *out, const struct piece *pieces, size_t n, uint64_t seed,
                                  sluice_error *err)
{
    TRY(write_header(out, pieces, n, err));
    for (size_t i = 0; i < n; i++) {
        TRY(write_piece(out, &pieces[i], seed, err));
    }
    return flush(out, err);
}

static sluice_status output_create(struct output *out, sluice_error *err)
{
    out->fd = open(out->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return out->fd >= 0 ? SLUICE_OK : error_set_errno(err, SLUICE_IO, errno, "%s: cannot create", out->path);
}

/* Closes the file; a failure to do so counts unless `status` is one already. */
static sluice_status output_close(struct output *out, sluice_status status, sluice_error *err)
{
    if (close(out->fd) != 0 && status == SLUICE_OK) {
        return error_set_errno(err, SLUICE_IO, errno, "%s: cannot write", out->path);
    }
    return status;
}

static sluice_status write_file(struct output *out, const struct piece *pieces, size_t n, uint64_t seed,
                                sluice_error *err)
{
    TRY(output_create(out, err));
    return output_close(out, write_pieces(out, pieces, n, seed, err), err);
}

sluice_status synth_write_shard(const char *path, const struct synth_plan *plan, const struct synth_shard *shard,
                                uint64_t seed, uint64_t *done, const struct log *log, sluice_error *err)
{
    struct output out = {.path = path, .done = done, .total = plan->total_bytes, .log = log};
    struct piece *pieces = mem_zalloc(2 * shard->n, sizeof(*pieces));
    out.chunk = mem_alloc_aligned(CHUNK_BYTES, 1);
    sluice_status status;
    if (pieces == NULL || out.chunk == NULL) {
        status = error_set(err, SLUICE_NO_MEMORY, "%s: no memory to write it", path);
    } else {
        status = write_file(&out, pieces, list_pieces(plan, shard, pieces), seed, err);
    }
    free(out.chunk);
    free(pieces);
    return status;
}

sluice_status synth_write_bytes(const char *path, const void *data, size_t len, sluice_error *err)
{
    struct output out = {.path = path};
    TRY(output_create(&out, err));
    return output_close(&out, write_all(&out, data, len, err), err);
}
