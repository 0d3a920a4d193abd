/* The regular expressions of tokenizer files, compiled with PCRE2.
 *
 * The files are written for Oniguruma. A pattern is first rewritten so that PCRE2 reads it in the same sense; a
 * construct that the two read differently, or that is not known here, is refused with its position. */
#ifndef SLUICE_TEXT_REGEX_H
#define SLUICE_TEXT_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Longest pattern accepted, in bytes. */
#define REGEX_PATTERN_LIMIT 16384

/* Immutable once compiled; shared by threads. */
struct regex;

/* `source` names the file and field in messages. */
sluice_status regex_compile(struct regex **out, const char *pattern, size_t len, const char *source, sluice_error *err);

/* A pattern without special characters. */
sluice_status regex_compile_literal(struct regex **out, const char *text, size_t len, const char *source,
                                    sluice_error *err);
void regex_free(struct regex *regex); /* safe on NULL */

/* What one thread needs while it searches: match data, limits, stack. */
struct regex_matcher;
sluice_status regex_matcher_open(struct regex_matcher **out, sluice_error *err);
void regex_matcher_close(struct regex_matcher *matcher); /* safe on NULL */

/* First match in valid UTF-8 at or after `from`, a character boundary. *found false: none. SLUICE_LIMIT when the
 * search takes more steps, memory or stack than the matcher allows. */
sluice_status regex_find(struct regex_matcher *matcher, const struct regex *regex, const char *text, size_t len,
                         size_t from, bool *found, size_t *start, size_t *end, sluice_error *err);

#endif
