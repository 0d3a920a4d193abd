/* Reading a prompt: see input.h. Bytes are taken as they are, the newline at the end included. */
#include "input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static sluice_status stream_read(struct buffer *out, FILE *stream, const char *name, sluice_error *err)
{
    char piece[1 << 14];
    size_t n;

    errno = 0;
    while ((n = fread(piece, 1, sizeof piece, stream)) > 0) {
        if (n > out->limit - out->len) {
            return error_set(err, SLUICE_LIMIT, "%s: longer than %zu bytes", name, out->limit);
        }
        TRY(buffer_append(out, piece, n, err));
    }
    if (ferror(stream)) {
        return error_set_errno(err, SLUICE_IO, errno, "%s", name);
    }
    return SLUICE_OK;
}

static const char *input_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

sluice_status input_blame(const char *path, sluice_status status, sluice_error *err)
{
    char what[sizeof err->message];

    if (status != SLUICE_INVALID || path == NULL) {
        return status;
    }
    snprintf(what, sizeof what, "%s", err->message);
    return error_set(err, status, "%s: %s", input_name(path), what);
}

sluice_status input_read(struct buffer *out, const char *text, const char *path, sluice_error *err)
{
    if (text != NULL) {
        return buffer_append_str(out, text, err);
    }
    if (strcmp(path, "-") == 0) {
        return stream_read(out, stdin, input_name(path), err);
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return error_set_errno(err, SLUICE_IO, errno, "%s", path);
    }
    sluice_status status = stream_read(out, file, path, err);
    fclose(file);
    return status;
}
