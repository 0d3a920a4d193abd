/* Reference outputs for tests: reference.json and reference.st (safetensors) of an oracle set or the demo model.
 * A missing tensor or field fails the test. The files are the project's own; nothing here is hardened. */
#ifndef SLUICE_TESTS_MODEL_REFERENCE_H
#define SLUICE_TESTS_MODEL_REFERENCE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct reference {
    json_t *json;   /* reference.json */
    json_t *header; /* of reference.st */
    unsigned char *bytes;
    const unsigned char *data; /* behind the header */
};

void reference_open(struct reference *out, const char *dir);
void reference_close(struct reference *reference);

/* The tensor's elements, of this dtype ("F32", "I32", "U8") and count; NULL if there is no such tensor. */
const void *reference_tensor(const struct reference *reference, const char *name, const char *dtype, size_t n);

/* A JSON list of numbers as ids; the caller frees *ids. */
void reference_ids(const json_t *object, const char *field, uint32_t **ids, size_t *n);

#endif
