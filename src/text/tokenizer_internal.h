/* The parts of a tokenizer and how the files of this module share them. Private to src/text and its tests.
 *
 * Encoding runs through four parts, each in its own file and each immutable after loading:
 *   added tokens  cut the text at the spelling of added tokens            (added_tokens.c)
 *   normalizer    NFC or nothing                                          (normalize.c)
 *   pre-tokenizer cuts what is left into words                            (pretokenize.c)
 *   BPE           merges the bytes of one word into tokens                (vocabulary.c, bpe.c)
 * encode.c leads a text through them; what changes meanwhile lives in a struct encoder, one for each call. */
#ifndef SLUICE_TEXT_TOKENIZER_INTERNAL_H
#define SLUICE_TEXT_TOKENIZER_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "text/regex.h"
#include "text/tokenizer.h"

/* Bounds on an untrusted file. */
#define TOKENIZER_FILE_LIMIT ((size_t)64 << 20) /* bytes */
#define TOKENIZER_ID_LIMIT (1u << 24)           /* ids lie below */
#define ADDED_TOKEN_BYTES 1024u                 /* longest spelling; keeps searching linear */
#define PRETOKENIZER_STAGES 16u
/* Longest text of one encoding, in bytes: offsets within a word fit 32 bits. */
#define ENCODE_LIMIT ((size_t)1 << 30)

#define NO_TOKEN UINT32_MAX

/* ---- Vocabulary and merges (vocabulary.c) ---------------------------------------------------------- */

struct token_entry {
    uint32_t offset; /* into vocabulary.bytes */
    uint32_t len : 29;
    uint32_t present : 1;
    uint32_t added : 1; /* stands in added_tokens */
    uint32_t special : 1;
};

struct merge_slot {
    uint32_t left, right; /* the pair */
    uint32_t rank;        /* place in the file, lower merges first; NO_TOKEN: the slot is empty */
    uint32_t id;          /* what the pair becomes */
};

struct vocabulary {
    char *bytes; /* what the tokens stand for, one after another */
    size_t n_bytes;
    struct token_entry *entries; /* [n_ids] */
    uint32_t n_ids;              /* highest id + 1, added tokens included */
    uint32_t longest;            /* bytes of the longest token */
    uint32_t byte_ids[256];      /* the tokens of the single bytes */

    /* Open addressing with linear probing; sizes are powers of two, mask = size - 1. */
    uint32_t *words; /* bytes to id: id + 1, 0 for an empty slot. Entries of the model's vocabulary only */
    uint32_t words_mask;
    struct merge_slot *merges;
    uint32_t merges_mask;
};

struct added_tokens;

/* Reads model.vocab, then enters the added tokens; `model` is the JSON object, whose "vocab" is dropped from it as soon
 * as it is read. `source` names file and object. */
sluice_status vocabulary_load(struct vocabulary *vocabulary, json_t *model, const struct added_tokens *added,
                              const char *source, sluice_error *err);
sluice_status vocabulary_load_merges(struct vocabulary *vocabulary, const json_t *model, const char *source,
                                     sluice_error *err);
void vocabulary_free(struct vocabulary *vocabulary);

/* The id of a token of the model's vocabulary that stands for these bytes; NO_TOKEN if there is none. */
uint32_t vocabulary_find(const struct vocabulary *vocabulary, const char *bytes, size_t len);

/* The merge of two neighbours; NULL if they do not merge. */
const struct merge_slot *vocabulary_find_merge(const struct vocabulary *vocabulary, uint32_t left, uint32_t right);

/* ---- Added tokens (added_tokens.c) ----------------------------------------------------------------- */

struct added_token {
    const char *content; /* as the file spells it */
    uint32_t len;
    const char *text; /* what it stands for: the spelling it is found by, the content in NFC if normalized */
    uint32_t text_len;
    uint32_t id;
    bool lstrip, rstrip; /* the white space before, after belongs to it */
    bool single_word;    /* not within a word */
    bool normalized;     /* looked for in the normalised text */
    bool special;
};

/* One spelling to look for. */
struct added_spelling {
    const char *text;
    uint32_t len;
    uint32_t token; /* index into added_tokens.tokens */
};

/* Spellings in the order of their bytes; those that begin with byte b are [first[b], first[b + 1]). */
struct added_matcher {
    struct added_spelling *spellings;
    size_t n;
    uint32_t first[257];
};

struct added_tokens {
    struct arena arena;
    struct added_token *tokens; /* [n] as in the file */
    size_t n;
    struct added_matcher all;        /* every token by its content */
    struct added_matcher raw;        /* those looked for in the text as it is */
    struct added_matcher normalized; /* those looked for in the normalised text, spelled normalised */
};

/* Reads the array `list` (NULL: none). nfc: the normalizer is NFC. */
sluice_status added_tokens_load(struct added_tokens *added, const json_t *list, bool nfc, const char *source,
                                sluice_error *err);
void added_tokens_free(struct added_tokens *added);

/* The token with this content; NULL if there is none. */
const struct added_token *added_tokens_find(const struct added_tokens *added, const char *content, size_t len);

/* Cuts a text into added tokens and what lies between: added_cursor_next until it returns false. */
struct added_cursor {
    const struct added_tokens *added;
    const struct added_matcher *matcher;
    const char *text;
    size_t len;
    size_t scan;                      /* where the next search starts */
    size_t done;                      /* what lies before has been handed out */
    const struct added_token *queued; /* found, to be handed out next */
};
struct added_piece {
    const char *text; /* between tokens; NULL for a token */
    size_t len;
    const struct added_token *token;
};
void added_cursor_init(struct added_cursor *cursor, const struct added_tokens *added,
                       const struct added_matcher *matcher, const char *text, size_t len);
bool added_cursor_next(struct added_cursor *cursor, struct added_piece *piece);

/* ---- Normalizer (normalize.c) ---------------------------------------------------------------------- */

/* Appends the NFC form of valid UTF-8. Time grows as n log n whatever the text. */
sluice_status normalize_nfc(const char *text, size_t len, struct buffer *out, sluice_error *err);

/* ---- Pre-tokenizer (pretokenize.c) ----------------------------------------------------------------- */

struct pretokenizer_stage {
    struct regex *pattern; /* matches and what lies between become pieces; NULL: put a space before the piece */
};

struct pretokenizer {
    struct pretokenizer_stage stages[PRETOKENIZER_STAGES];
    size_t n;
    bool has_bytelevel; /* nothing may follow it */
};

sluice_status pretokenizer_load(struct pretokenizer *pretokenizer, const json_t *object, const char *source,
                                sluice_error *err);
void pretokenizer_free(struct pretokenizer *pretokenizer);

/* ---- One encoding (encode.c, bpe.c) ---------------------------------------------------------------- */

/* A piece of a word: list of the pieces still apart, by index of their first byte. */
struct bpe_symbol {
    uint32_t id; /* NO_TOKEN once it is part of the piece before it */
    uint32_t previous, next;
    uint32_t rank;   /* of merging with the next piece, NO_TOKEN if they do not merge */
    uint32_t merged; /* the id that would give */
};

/* Space for the longest word so far. */
struct bpe_workspace {
    struct bpe_symbol *symbols; /* [cap] */
    uint64_t *heap;             /* [3 cap] rank << 32 | index of the left piece; least on top */
    size_t cap;
    size_t n_heap;
};
void bpe_workspace_free(struct bpe_workspace *work);

struct encoder {
    const struct tokenizer *tokenizer;
    struct regex_matcher *matcher;
    struct bpe_workspace bpe;
    struct buffer prefixed;   /* a piece with a space before it */
    struct buffer normalized; /* a stretch of text in NFC */
    struct token_list *out;
};

/* Appends the tokens of one word of len >= 1 bytes. */
sluice_status bpe_encode_word(struct encoder *encoder, const char *word, size_t len, sluice_error *err);

/* Cuts a text without added tokens into words and appends the tokens of each. */
sluice_status pretokenize_text(struct encoder *encoder, const char *text, size_t len, sluice_error *err);

/* ---- The tokenizer --------------------------------------------------------------------------------- */

struct tokenizer {
    struct vocabulary vocabulary;
    struct added_tokens added;
    struct pretokenizer pretokenizer;
    bool normalize_nfc;
    bool ignore_merges; /* a word that is itself a token is not merged from its bytes */
};

/* Fills a zeroed tokenizer from parsed JSON, which it takes apart as it goes (tokenizer_load.c). On failure the
 * caller frees what is there. */
sluice_status tokenizer_load(struct tokenizer *tokenizer, json_t *root, const char *path, sluice_error *err);

/* ---- Reading JSON fields (load_fields.c) ----------------------------------------------------------- */

/* Room for "file: object" in messages; longer names are cut, as the message itself would be. */
#define SOURCE_CAP 480
void source_join(char *out, const char *source, const char *part);
void source_join_index(char *out, const char *source, const char *part, size_t index);

/* Every field of the object that is not null must be in the NULL-ended list of names. */
sluice_status fields_check_known(const json_t *object, const char *source, const char *const *known, sluice_error *err);
/* The field must be missing or null. */
sluice_status fields_check_null(const json_t *object, const char *source, const char *field, sluice_error *err);
/* The field must be a string, which stays owned by the object. */
sluice_status fields_get_string(const json_t *object, const char *source, const char *field, const char **out,
                                sluice_error *err);
/* A boolean that may be missing or null. */
sluice_status fields_get_bool(const json_t *object, const char *source, const char *field, bool otherwise, bool *out,
                              sluice_error *err);

#endif
