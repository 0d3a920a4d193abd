/* A growable byte buffer with a hard limit.
 *
 * Invariants: len <= cap <= limit; data[len] is 0 whenever data is not NULL. Growing past the limit
 * fails (SLUICE_LIMIT, or SLUICE_NO_MEMORY) and leaves the contents as they were. After a success data is not
 * NULL. What is appended must not lie in the buffer itself. */
#ifndef SLUICE_BASE_BUFFER_H
#define SLUICE_BASE_BUFFER_H

#include <stddef.h>

#include "base/error.h"

struct buffer {
    char *data;
    size_t len;
    size_t cap;
    size_t limit; /* most bytes it may ever hold */
};

void buffer_init(struct buffer *buffer, size_t limit);
void buffer_free(struct buffer *buffer); /* safe on a zeroed one; leaves it empty and usable */
sluice_status buffer_reserve(struct buffer *buffer, size_t extra, sluice_error *err);
sluice_status buffer_append(struct buffer *buffer, const void *data, size_t len, sluice_error *err);
sluice_status buffer_append_str(struct buffer *buffer, const char *text, sluice_error *err);
sluice_status buffer_printf(struct buffer *buffer, sluice_error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void buffer_clear(struct buffer *buffer); /* len = 0, keeps the memory */

#endif
