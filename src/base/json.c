/* Untrusted JSON.
 *
 * jansson parses; it bounds the nesting (2048 levels, so hostile input cannot exhaust the stack), refuses broken
 * UTF-8, numbers out of range and, asked to, duplicate keys. This file turns its errors into ours, reads files
 * under a size limit, and checks type and range of single fields. */
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"

#define KEY_SHOWN 200 /* bytes of a key in a message */

/* ---- Parsing -------------------------------------------------------------------------------------- */

/* The key whose closing quote is the last byte that jansson read; empty if that is not where it stands. */
static size_t last_key(const char *text, size_t len, const json_error_t *failure, const char **key)
{
    size_t end = failure->position > 0 ? (size_t)failure->position : 0;
    *key = "";
    if (end < 2 || end > len || text[end - 1] != '"') {
        return 0;
    }
    size_t start = end - 1;
    while (start > 0 && text[start - 1] != '"') {
        start--;
    }
    *key = text + start;
    return end - 1 - start < KEY_SHOWN ? end - 1 - start : KEY_SHOWN;
}

/* jansson leaves the text empty, and the code unset, when memory is out. */
static sluice_status parse_failed(const char *text, size_t len, const json_error_t *failure, const char *source,
                                  sluice_error *err)
{
    if (failure->text[0] == '\0') {
        return error_set(err, SLUICE_NO_MEMORY, "%s: out of memory for its JSON", source);
    }
    if (json_error_code(failure) == json_error_stack_overflow) {
        return error_set(err, SLUICE_FORMAT, "%s: line %d, column %d: JSON nested too deeply", source, failure->line,
                         failure->column);
    }
    if (json_error_code(failure) == json_error_duplicate_key) {
        const char *key;
        int shown = (int)last_key(text, len, failure, &key);
        return error_set(err, SLUICE_FORMAT, "%s: line %d, column %d: duplicate key \"%.*s\"", source, failure->line,
                         failure->column, shown, key);
    }
    return error_set(err, SLUICE_FORMAT, "%s: line %d, column %d: not valid JSON: %s", source, failure->line,
                     failure->column, failure->text);
}

sluice_status json_parse(const char *text, size_t len, const char *source, json_t **out, sluice_error *err)
{
    json_error_t failure;
    json_t *root = json_loadb(len > 0 ? text : "", len, JSON_REJECT_DUPLICATES, &failure);
    if (root == NULL) {
        return parse_failed(text, len, &failure, source, err);
    }
    *out = root;
    return SLUICE_OK;
}

/* ---- Files ---------------------------------------------------------------------------------------- */

static sluice_status too_large(const char *path, size_t limit, sluice_error *err)
{
    return error_set(err, SLUICE_FORMAT, "%s: larger than the %zu bytes allowed for it", path, limit);
}

/* Opens a regular file whose size is within the limit. O_NONBLOCK: a named pipe must not block the open. */
static sluice_status open_regular(const char *path, size_t limit, int *out, size_t *size, sluice_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return error_set_errno(err, SLUICE_IO, errno, "%s: cannot open", path);
    }
    struct stat info;
    sluice_status status = SLUICE_OK;
    if (fstat(fd, &info) != 0) {
        status = error_set_errno(err, SLUICE_IO, errno, "%s: cannot be examined", path);
    } else if (S_ISDIR(info.st_mode)) {
        status = error_set(err, SLUICE_IO, "%s: is a directory, not a file", path);
    } else if (!S_ISREG(info.st_mode)) {
        status = error_set(err, SLUICE_IO, "%s: not a regular file", path);
    } else if ((uint64_t)info.st_size > limit) {
        status = too_large(path, limit, err);
    }
    if (status != SLUICE_OK) {
        close(fd);
        return status;
    }
    *out = fd;
    *size = (size_t)info.st_size;
    return SLUICE_OK;
}

/* Reads to the end of the file, which may have grown since it was measured: the buffer's own limit is one byte
 * above the file's, so a file that is too large shows. */
static sluice_status read_whole(int fd, const char *path, size_t limit, struct buffer *text, sluice_error *err)
{
    for (;;) {
        TRY(buffer_reserve(text, 1, err));
        ssize_t n = read(fd, text->data + text->len, text->cap - text->len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return error_set_errno(err, SLUICE_IO, errno, "%s: cannot read at offset %zu", path, text->len);
        }
        text->len += (size_t)n;
        text->data[text->len] = '\0';
        if (text->len > limit) {
            return too_large(path, limit, err);
        }
        if (n == 0) {
            return SLUICE_OK;
        }
    }
}

sluice_status json_parse_file(const char *path, size_t limit, json_t **out, sluice_error *err)
{
    int fd = -1;
    size_t size = 0;
    TRY(open_regular(path, limit, &fd, &size, err));

    struct buffer text;
    buffer_init(&text, limit < SIZE_MAX ? limit + 1 : SIZE_MAX);
    sluice_status status = buffer_reserve(&text, size < SIZE_MAX ? size + 1 : size, NULL);
    if (status == SLUICE_OK) {
        status = read_whole(fd, path, limit, &text, err);
    } else {
        error_set(err, status, "%s: out of memory for its %zu bytes", path, size);
    }
    close(fd);
    if (status == SLUICE_OK) {
        status = json_parse(text.data, text.len, path, out, err);
    }
    buffer_free(&text);
    return status;
}

/* ---- Fields --------------------------------------------------------------------------------------- */

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    case JSON_NULL:
        return "null";
    }
    return "of an unknown type";
}

static sluice_status wrong_type(const json_t *value, const char *source, const char *field, const char *wanted,
                                sluice_error *err)
{
    return error_set(err, SLUICE_FORMAT, "%s: field \"%s\" must be %s, is %s", source, field, wanted, type_name(value));
}

/* The field's value; NULL, with err filled for SLUICE_FORMAT, where there is none. */
static const json_t *find_field(const json_t *object, const char *source, const char *field, sluice_error *err)
{
    if (!json_is_object(object)) {
        error_set(err, SLUICE_FORMAT, "%s: no field \"%s\": not an object", source, field);
        return NULL;
    }
    const json_t *value = json_object_get(object, field);
    if (value == NULL) {
        error_set(err, SLUICE_FORMAT, "%s: field \"%s\" is missing", source, field);
    }
    return value;
}

sluice_status json_get_int(const json_t *object, const char *source, const char *field, int64_t min, int64_t max,
                           int64_t *out, sluice_error *err)
{
    const json_t *value = find_field(object, source, field, err);
    if (value == NULL) {
        return SLUICE_FORMAT;
    }
    if (!json_is_number(value)) {
        return wrong_type(value, source, field, "an integer", err);
    }
    int64_t number = json_integer_value(value);
    if (json_is_real(value)) {
        double real = json_real_value(value);
        /* 2^63 is the first double that no int64_t holds; its negative is held */
        if (real < -0x1p63 || real >= 0x1p63) {
            return error_set(err, SLUICE_FORMAT, "%s: field \"%s\" is %.17g, must be from %" PRId64 " to %" PRId64,
                             source, field, real, min, max);
        }
        if (real != (double)(int64_t)real) {
            return error_set(err, SLUICE_FORMAT, "%s: field \"%s\" must be an integer, is %.17g", source, field, real);
        }
        number = (int64_t)real;
    }
    if (number < min || number > max) {
        return error_set(err, SLUICE_FORMAT, "%s: field \"%s\" is %" PRId64 ", must be from %" PRId64 " to %" PRId64,
                         source, field, number, min, max);
    }
    *out = number;
    return SLUICE_OK;
}

sluice_status json_get_real(const json_t *object, const char *source, const char *field, double *out, sluice_error *err)
{
    const json_t *value = find_field(object, source, field, err);
    if (value == NULL) {
        return SLUICE_FORMAT;
    }
    if (!json_is_number(value)) {
        return wrong_type(value, source, field, "a number", err);
    }
    *out = json_number_value(value);
    return SLUICE_OK;
}

sluice_status json_get_bool(const json_t *object, const char *source, const char *field, bool *out, sluice_error *err)
{
    const json_t *value = find_field(object, source, field, err);
    if (value == NULL) {
        return SLUICE_FORMAT;
    }
    if (json_is_boolean(value)) {
        *out = json_is_true(value);
        return SLUICE_OK;
    }
    double number = json_number_value(value);
    if (!json_is_number(value) || (number != 0.0 && number != 1.0)) {
        return wrong_type(value, source, field, "true or false", err);
    }
    *out = number != 0.0;
    return SLUICE_OK;
}

bool json_has(const json_t *object, const char *field)
{
    const json_t *value = json_object_get(object, field);
    return value != NULL && !json_is_null(value);
}
