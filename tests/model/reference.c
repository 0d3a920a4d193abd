/* Reading reference outputs (reference.h). */
#include "model/reference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static unsigned char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

void reference_open(struct reference *out, const char *dir)
{
    char path[4096];
    size_t size;
    uint64_t header_size;
    snprintf(path, sizeof(path), "%s/reference.json", dir);
    out->json = json_load_file(path, 0, NULL);
    assert_non_null(out->json);
    snprintf(path, sizeof(path), "%s/reference.st", dir);
    out->bytes = read_file(path, &size);
    memcpy(&header_size, out->bytes, sizeof(header_size));
    assert_true(header_size + sizeof(header_size) <= size);
    out->header = json_loadb((const char *)out->bytes + sizeof(header_size), header_size, 0, NULL);
    assert_non_null(out->header);
    out->data = out->bytes + sizeof(header_size) + header_size;
}

void reference_close(struct reference *reference)
{
    json_decref(reference->json);
    json_decref(reference->header);
    free(reference->bytes);
}

const void *reference_tensor(const struct reference *reference, const char *name, const char *dtype, size_t n)
{
    const json_t *entry = json_object_get(reference->header, name);
    if (!entry) {
        return NULL;
    }
    assert_string_equal(json_string_value(json_object_get(entry, "dtype")), dtype);
    const json_t *offsets = json_object_get(entry, "data_offsets");
    size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0));
    size_t end = (size_t)json_integer_value(json_array_get(offsets, 1));
    assert_int_equal(end - begin, n * (strcmp(dtype, "U8") == 0 ? 1 : 4));
    return reference->data + begin;
}

void reference_ids(const json_t *object, const char *field, uint32_t **ids, size_t *n)
{
    const json_t *list = json_object_get(object, field);
    assert_true(json_is_array(list));
    *n = json_array_size(list);
    *ids = calloc(*n + 1, sizeof(**ids));
    assert_non_null(*ids);
    for (size_t i = 0; i < *n; i++) {
        (*ids)[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    }
}
