/* Growable bytes with a hard limit.
 *
 * The capacity doubles, so that appending is linear in the total, but never passes the limit; one byte more than
 * the capacity is allocated for the terminating zero. */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define CAPACITY_MIN 64

void buffer_init(struct buffer *buffer, size_t limit)
{
    *buffer = (struct buffer){.limit = limit};
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    buffer_init(buffer, buffer->limit);
}

void buffer_clear(struct buffer *buffer)
{
    buffer->len = 0;
    if (buffer->data != NULL) {
        buffer->data[0] = '\0';
    }
}

/* Capacity to grow to for `needed` bytes: double, within the limit. */
static size_t grown_capacity(const struct buffer *buffer, size_t needed)
{
    size_t cap = buffer->cap > buffer->limit / 2 ? buffer->limit : buffer->cap * 2;
    if (cap < CAPACITY_MIN) {
        cap = buffer->limit < CAPACITY_MIN ? buffer->limit : CAPACITY_MIN;
    }
    return cap < needed ? needed : cap;
}

sluice_status buffer_reserve(struct buffer *buffer, size_t extra, sluice_error *err)
{
    if (extra > buffer->limit - buffer->len) {
        return error_set(err, SLUICE_LIMIT, "%zu bytes more than the %zu at hand would pass the limit of %zu", extra,
                         buffer->len, buffer->limit);
    }
    size_t needed = buffer->len + extra;
    if (buffer->data != NULL && needed <= buffer->cap) {
        return SLUICE_OK;
    }
    size_t cap = grown_capacity(buffer, needed);
    size_t size;
    char *data = size_add(cap, 1, &size) ? realloc(buffer->data, size) : NULL;
    if (data == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "out of memory for a buffer of %zu bytes", cap);
    }
    data[buffer->len] = '\0';
    buffer->data = data;
    buffer->cap = cap;
    return SLUICE_OK;
}

sluice_status buffer_append(struct buffer *buffer, const void *data, size_t len, sluice_error *err)
{
    TRY(buffer_reserve(buffer, len, err));
    if (len > 0) {
        memcpy(buffer->data + buffer->len, data, len);
        buffer->len += len;
        buffer->data[buffer->len] = '\0';
    }
    return SLUICE_OK;
}

sluice_status buffer_append_str(struct buffer *buffer, const char *text, sluice_error *err)
{
    return buffer_append(buffer, text, strlen(text), err);
}

static sluice_status buffer_vprintf(struct buffer *buffer, sluice_error *err, int len, const char *fmt, va_list args)
    __attribute__((format(printf, 4, 0)));

/* Appends text whose length the caller has measured; -1 when it cannot be formatted. */
static sluice_status buffer_vprintf(struct buffer *buffer, sluice_error *err, int len, const char *fmt, va_list args)
{
    if (len < 0) {
        return error_set(err, SLUICE_INVALID, "text that cannot be formatted");
    }
    TRY(buffer_reserve(buffer, (size_t)len, err));
    vsnprintf(buffer->data + buffer->len, (size_t)len + 1, fmt, args);
    buffer->len += (size_t)len;
    return SLUICE_OK;
}

sluice_status buffer_printf(struct buffer *buffer, sluice_error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);

    va_start(args, fmt);
    sluice_status status = buffer_vprintf(buffer, err, len, fmt, args);
    va_end(args);
    return status;
}
