/* tokenizer.json: byte-level BPE, read once, immutable, shared by all threads.
 *
 * Handles pre-tokenizers Split (isolated, regex), Sequence, ByteLevel, Digits, normalizer NFC (or none,
 * or a Sequence of them), added tokens with lstrip, rstrip, single_word, normalized and special, both forms
 * of the merges list, ignore_merges. Anything else is refused by name.
 *
 * Memory: about as much as the file is long stays in use; while it is read, up to seven times that. Encoding takes
 * about 70 bytes for each byte of the longest word, for the time of the call. */
#ifndef SLUICE_TEXT_TOKENIZER_H
#define SLUICE_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct tokenizer;

struct token_list {
    uint32_t *ids;
    size_t n, cap;
};
void token_list_free(struct token_list *list); /* safe on a zeroed one */
sluice_status token_list_push(struct token_list *list, uint32_t id, sluice_error *err);

/* Reads a file of at most 64 MiB with ids below 2^24. */
sluice_status tokenizer_open(struct tokenizer **out, const char *path, sluice_error *err);
void tokenizer_close(struct tokenizer **tokenizer);             /* sets it to NULL; safe on NULL */
size_t tokenizer_vocab_size(const struct tokenizer *tokenizer); /* highest id + 1 */

/* Appends the ids of `len` bytes of UTF-8. added_tokens: recognise added tokens inside the text; otherwise
 * their spelling is ordinary text. Nothing is put before or behind the text. Text that is not UTF-8: SLUICE_INVALID
 * naming the byte offset; more than 1 GiB, or text on which the file's regular expression runs away: SLUICE_LIMIT.
 * On failure the list is as it was. Any number of threads may encode with one tokenizer. */
sluice_status tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t len, bool added_tokens,
                               struct token_list *out, sluice_error *err);

/* The id of the added token with this content, or else of the vocabulary entry that stands for these bytes (" a", not
 * the file's spelling of the space); false if there is none. */
bool tokenizer_find(const struct tokenizer *tokenizer, const char *token, uint32_t *id);

/* The bytes a token stands for (added tokens: their content, normalised if they are looked for in normalised text);
 * NULL for an id that is not in the vocabulary. Owned by the tokenizer. */
const char *tokenizer_bytes(const struct tokenizer *tokenizer, uint32_t id, size_t *len);
bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id);

/* Streams ids into text: holds back the bytes of an unfinished UTF-8 character, turns bytes that can never
 * become one into U+FFFD. */
#define DETOKENIZER_PENDING 8
struct detokenizer {
    const struct tokenizer *tokenizer;
    bool skip_special;
    unsigned char pending[DETOKENIZER_PENDING];
    size_t n_pending;
};
void detokenizer_init(struct detokenizer *d, const struct tokenizer *tokenizer, bool skip_special);
/* Most bytes one push can write. */
size_t detokenizer_max_bytes(const struct tokenizer *tokenizer);
/* Writes whole characters into out and returns their byte count; an unknown id writes nothing. */
size_t detokenizer_push(struct detokenizer *d, uint32_t id, char *out);
/* Ends the stream: an unfinished character becomes U+FFFD. Returns bytes written (at most detokenizer_max_bytes). */
size_t detokenizer_finish(struct detokenizer *d, char *out);

#endif
