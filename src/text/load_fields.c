/* Fields of tokenizer.json: the checks that base/json does not have. */
#include <stdio.h>
#include <string.h>

#include "text/tokenizer_internal.h"

void source_join(char *out, const char *source, const char *part)
{
    snprintf(out, SOURCE_CAP, "%s: %s", source, part);
}

void source_join_index(char *out, const char *source, const char *part, size_t index)
{
    snprintf(out, SOURCE_CAP, "%s: %s[%zu]", source, part, index);
}

sluice_status fields_check_known(const json_t *object, const char *source, const char *const *known, sluice_error *err)
{
    if (!json_is_object(object)) {
        return error_set(err, SLUICE_FORMAT, "%s: not an object", source);
    }
    const char *field;
    json_t *value;
    json_object_foreach((json_t *)object, field, value)
    {
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], field) != 0) {
            i++;
        }
        if (known[i] == NULL && !json_is_null(value)) {
            return error_set(err, SLUICE_UNSUPPORTED, "%s: field \"%.64s\" is not known", source, field);
        }
    }
    return SLUICE_OK;
}

sluice_status fields_check_null(const json_t *object, const char *source, const char *field, sluice_error *err)
{
    if (json_has(object, field)) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: field \"%s\" other than null is not supported", source, field);
    }
    return SLUICE_OK;
}

sluice_status fields_get_string(const json_t *object, const char *source, const char *field, const char **out,
                                sluice_error *err)
{
    const json_t *value = json_object_get(object, field);
    if (!json_is_string(value)) {
        return error_set(err, SLUICE_FORMAT, "%s: field \"%s\" %s", source, field,
                         value == NULL ? "is missing" : "must be a string");
    }
    *out = json_string_value(value);
    return SLUICE_OK;
}

sluice_status fields_get_bool(const json_t *object, const char *source, const char *field, bool otherwise, bool *out,
                              sluice_error *err)
{
    if (!json_has(object, field)) {
        *out = otherwise;
        return SLUICE_OK;
    }
    return json_get_bool(object, source, field, out, err);
}
