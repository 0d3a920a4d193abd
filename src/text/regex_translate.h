/* From Oniguruma's syntax to PCRE2's (private to regex.c and its tests). */
#ifndef SLUICE_TEXT_REGEX_TRANSLATE_H
#define SLUICE_TEXT_REGEX_TRANSLATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

struct regex_translation {
    struct buffer text;    /* the pattern for PCRE2 */
    struct buffer origins; /* uint32_t for each byte of text: the offset in the original it stems from */
};

/* SLUICE_UNSUPPORTED naming the construct and its byte offset. The caller frees *out in either case. */
sluice_status regex_translate(struct regex_translation *out, const char *pattern, size_t len, const char *source,
                              sluice_error *err);
void regex_translation_free(struct regex_translation *translation);

/* Offset in the original pattern for an offset in the translated one. */
size_t regex_translation_origin(const struct regex_translation *translation, size_t offset);

#endif
