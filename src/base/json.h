/* Reading untrusted JSON through jansson: bounded depth, duplicate keys refused, typed access with
 * messages that name the file and the field. */
#ifndef SLUICE_BASE_JSON_H
#define SLUICE_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Parses `len` bytes that hold one object or array. `source` names the text in messages. The caller json_decref()s
 * *out. Strings never hold a zero character. */
sluice_status json_parse(const char *text, size_t len, const char *source, json_t **out, sluice_error *err);

/* Reads and parses a whole regular file of at most `limit` bytes. SLUICE_IO, with errno, when it cannot be read or is
 * missing (ENOENT); SLUICE_FORMAT when it is larger or not JSON. */
sluice_status json_parse_file(const char *path, size_t limit, json_t **out, sluice_error *err);

/* Field access. The field must exist and have the type, else SLUICE_FORMAT naming source and field.
 * Integers must lie in [min, max]; a real with an integral value is taken as an integer.
 * Booleans may be written as numbers 0 and 1. */
sluice_status json_get_int(const json_t *object, const char *source, const char *field, int64_t min, int64_t max,
                           int64_t *out, sluice_error *err);
sluice_status json_get_real(const json_t *object, const char *source, const char *field, double *out,
                            sluice_error *err);
sluice_status json_get_bool(const json_t *object, const char *source, const char *field, bool *out, sluice_error *err);
/* True when the field is present and not null. */
bool json_has(const json_t *object, const char *field);

#endif
