/* Tokenizers and texts that the tests of src/text share. */
#ifndef SLUICE_TESTS_TEXT_FIXTURE_H
#define SLUICE_TESTS_TEXT_FIXTURE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "text/tokenizer.h"

#define DEMO_TOKENIZER SLUICE_MODELS_DIR "/demo/tokenizer.json"

/* Reads JSON that may hold U+0000. Aborts when it cannot. */
json_t *fixture_read_json(const char *path);

/* The demo model's tokenizer, opened by the first call; fixture_close ends it. */
const struct tokenizer *fixture_demo(void);
void fixture_close(void);

/* A new tokenizer.json as an object: all 256 bytes, merges for "ab", "abc" and " a", one special added token. */
json_t *fixture_small_json(void);

/* Opens a tokenizer from JSON, through a file whose path begins with FIXTURE_PATH. Takes the reference. */
#define FIXTURE_PATH "/proc/self/fd/"
sluice_status fixture_open(struct tokenizer **out, json_t *root, sluice_error *err);
/* The same from any bytes. */
sluice_status fixture_open_bytes(struct tokenizer **out, const char *bytes, size_t len, sluice_error *err);

/* Applies a variant of tests/data/text/cases.json to a copy of tokenizer.json. */
json_t *fixture_vary(const json_t *base, const json_t *variant);

/* True if the text gives exactly these ids; says what it gives otherwise. */
bool fixture_encodes_to(const struct tokenizer *tokenizer, const char *text, size_t len, bool added,
                        const uint32_t *ids, size_t n);

/* The text of ids, all special tokens included, zero-terminated; free() releases it. */
char *fixture_decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n, size_t *len);

/* A message of one printable line, not empty, and long enough to say something. */
bool fixture_is_one_line(const sluice_error *err);

#endif
