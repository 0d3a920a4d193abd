/* Reading values.
 *
 * F32 goes straight into the caller's memory; BF16 and F16 pass through a small buffer and are widened, which is
 * exact. Nothing that is read here may be infinite or NaN: one such scale or norm would make every later token
 * the same nonsense, so it is named instead. */
#include "container/read.h"

#include <inttypes.h>
#include <string.h>

#include "container/safetensors.h"

#define CHUNK_ELEMENTS 4096

/* ---- Conversion -------------------------------------------------------------------------------------- */

static float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* IEEE binary16: 5 exponent bits with bias 15, 10 fraction bits. Every value is a binary32 value. */
static float float_from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 0x1F;
    uint32_t fraction = half & 0x3FF;
    if (exponent == 0) {
        float magnitude = (float)fraction * 0x1p-24f; /* zero and subnormals */
        return sign ? -magnitude : magnitude;
    }
    uint32_t wide = exponent == 0x1F ? 0xFF : exponent + 112; /* 127 - 15 */
    return float_from_bits(sign | wide << 23 | fraction << 13);
}

static void widen(enum tensor_dtype dtype, const uint16_t *src, size_t n, float *dst)
{
    for (size_t i = 0; i < n; i++) {
        dst[i] = dtype == DTYPE_BF16 ? float_from_bits((uint32_t)src[i] << 16) : float_from_f16(src[i]);
    }
}

/* ---- Reading ----------------------------------------------------------------------------------------- */

/* All exponent bits set: infinity or NaN. By bits, so that no floating-point option can optimise it away. */
static bool is_finite(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return (bits & 0x7F800000) != 0x7F800000;
}

static sluice_status read_16bit(const struct os_file *file, enum tensor_dtype dtype, uint64_t offset, size_t n,
                                float *dst, sluice_error *err)
{
    uint16_t chunk[CHUNK_ELEMENTS];
    for (size_t done = 0; done < n;) {
        size_t count = n - done < CHUNK_ELEMENTS ? n - done : CHUNK_ELEMENTS;
        TRY(os_file_read_at(file, chunk, count * sizeof(*chunk), offset + done * sizeof(*chunk), err));
        widen(dtype, chunk, count, dst + done);
        done += count;
    }
    return SLUICE_OK;
}

sluice_status read_f32_range(const struct container *container, const struct tensor_ref *ref, uint64_t first, size_t n,
                             float *dst, sluice_error *err)
{
    const struct os_file *file = &container->shards[ref->shard];
    uint64_t offset = ref->offset + first * safetensors_dtype_size(ref->dtype);
    if (ref->dtype == DTYPE_F32) {
        TRY(os_file_read_at(file, dst, n * sizeof(float), offset, err));
    } else {
        TRY(read_16bit(file, ref->dtype, offset, n, dst, err));
    }
    for (size_t i = 0; i < n; i++) {
        if (!is_finite(dst[i])) {
            return error_set(err, SLUICE_NUMERIC, "%s: tensor %s: element %" PRIu64 " is not finite", file->path,
                             ref->name, first + i);
        }
    }
    return SLUICE_OK;
}

sluice_status container_read_f32(const struct container *container, const struct tensor_ref *ref, uint64_t n,
                                 float *dst, sluice_error *err)
{
    if (ref->dtype == DTYPE_U8 || ref->bytes != n * safetensors_dtype_size(ref->dtype)) {
        return error_set(err, SLUICE_INVALID, "%s: tensor %s does not hold %" PRIu64 " floating-point values",
                         container->shards[ref->shard].path, ref->name, n);
    }
    return read_f32_range(container, ref, 0, (size_t)n, dst, err);
}

/* ---- Matrices ---------------------------------------------------------------------------------------- */

uint64_t stored_matrix_bytes(const struct stored_matrix *matrix)
{
    uint64_t row = quant_row_bytes(matrix->kind, matrix->cols) +
                   sizeof(float) * quant_row_scales(matrix->kind, matrix->cols, matrix->group);
    return matrix->rows * row;
}

sluice_status container_read_matrix(const struct container *container, const struct stored_matrix *matrix,
                                    void *weights, float *scales, struct quant_matrix *out, sluice_error *err)
{
    struct quant_matrix view = {
        .kind = matrix->kind, .rows = matrix->rows, .cols = matrix->cols, .group = matrix->group, .weights = weights};
    if (matrix->kind == QUANT_F32) {
        TRY(container_read_f32(container, &matrix->weights, (uint64_t)matrix->rows * matrix->cols, weights, err));
    } else {
        const struct tensor_ref *ref = &matrix->weights;
        TRY(os_file_read_at(&container->shards[ref->shard], weights, (size_t)ref->bytes, ref->offset, err));
        uint64_t n = (uint64_t)matrix->rows * quant_row_scales(matrix->kind, matrix->cols, matrix->group);
        TRY(container_read_f32(container, &matrix->scales, n, scales, err));
        view.scales = scales;
    }
    *out = view;
    return SLUICE_OK;
}
