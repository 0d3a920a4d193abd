/* Added tokens: reading them, and finding them in a text.
 *
 * A search goes leftmost first and takes the longest spelling there, then continues after it. Spellings lie sorted by
 * their bytes, so those that begin with what has been read so far are always one range, which each further byte
 * narrows; no other structure is needed. What a found token does to the text around it (single_word, lstrip, rstrip)
 * follows the reference implementation, except that a token which lies wholly in white space already taken by rstrip
 * is dropped instead of handing out that white space twice. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "text/tokenizer_internal.h"
#include "text/utf8.h"

/* ---- Sets of spellings ----------------------------------------------------------------------------- */

static int compare_bytes(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static int compare_spellings(const void *a, const void *b)
{
    const struct added_spelling *x = a, *y = b;
    int order = compare_bytes(x->text, x->len, y->text, y->len);
    return order != 0 ? order : (x->token > y->token) - (x->token < y->token);
}

/* Sorts the spellings, keeps the first token of equal ones, and fills the index by first byte. */
static void matcher_finish(struct added_matcher *matcher)
{
    size_t kept = 0;
    if (matcher->n > 0) {
        qsort(matcher->spellings, matcher->n, sizeof *matcher->spellings, compare_spellings);
    }
    for (size_t i = 0; i < matcher->n; i++) {
        struct added_spelling spelling = matcher->spellings[i];
        if (kept == 0 || compare_bytes(matcher->spellings[kept - 1].text, matcher->spellings[kept - 1].len,
                                       spelling.text, spelling.len) != 0) {
            matcher->spellings[kept++] = spelling;
        }
    }
    matcher->n = kept;
    uint32_t i = 0;
    for (unsigned byte = 0; byte <= 256; byte++) {
        while (i < kept && (unsigned char)matcher->spellings[i].text[0] < byte) {
            i++;
        }
        matcher->first[byte] = i;
    }
}

/* First spelling of [low, high) whose byte at `depth` is at least `byte`; one that ends before counts as less. */
static uint32_t lower_bound(const struct added_matcher *matcher, uint32_t low, uint32_t high, uint32_t depth,
                            unsigned byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct added_spelling *spelling = &matcher->spellings[middle];
        if (spelling->len <= depth || (unsigned char)spelling->text[depth] < byte) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The longest spelling that stands at the start of the text; NULL if none does. */
static const struct added_spelling *match_here(const struct added_matcher *matcher, const char *text, size_t len)
{
    const struct added_spelling *longest = NULL;
    uint32_t low = matcher->first[(unsigned char)text[0]], high = matcher->first[(unsigned char)text[0] + 1];
    for (uint32_t depth = 1; low < high; depth++) {
        if (matcher->spellings[low].len == depth) {
            longest = &matcher->spellings[low++];
        }
        if (depth == len) {
            break;
        }
        unsigned byte = (unsigned char)text[depth];
        low = lower_bound(matcher, low, high, depth, byte);
        high = lower_bound(matcher, low, high, depth, byte + 1);
    }
    return longest;
}

const struct added_token *added_tokens_find(const struct added_tokens *added, const char *content, size_t len)
{
    size_t low = 0, high = added->all.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct added_spelling *spelling = &added->all.spellings[middle];
        int order = compare_bytes(spelling->text, spelling->len, content, len);
        if (order == 0) {
            return &added->tokens[spelling->token];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

/* ---- Loading --------------------------------------------------------------------------------------- */

static sluice_status out_of_memory(const char *source, sluice_error *err)
{
    return error_set(err, SLUICE_NO_MEMORY, "%s: out of memory for added tokens", source);
}

static sluice_status load_token(struct added_tokens *added, const json_t *object, const char *source, sluice_error *err)
{
    static const char *const known[] = {"id",     "content",    "single_word", "lstrip",
                                        "rstrip", "normalized", "special",     NULL};
    struct added_token token = {0};
    const char *content;
    int64_t id;
    TRY(fields_check_known(object, source, known, err));
    TRY(json_get_int(object, source, "id", 0, TOKENIZER_ID_LIMIT - 1, &id, err));
    TRY(fields_get_string(object, source, "content", &content, err));
    TRY(fields_get_bool(object, source, "single_word", false, &token.single_word, err));
    TRY(fields_get_bool(object, source, "lstrip", false, &token.lstrip, err));
    TRY(fields_get_bool(object, source, "rstrip", false, &token.rstrip, err));
    TRY(fields_get_bool(object, source, "special", false, &token.special, err));
    TRY(fields_get_bool(object, source, "normalized", !token.special, &token.normalized, err));
    size_t len = strlen(content);
    if (len == 0 || len > ADDED_TOKEN_BYTES) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: content of %zu bytes, must be from 1 to %u", source, len,
                         ADDED_TOKEN_BYTES);
    }
    token.content = arena_strndup(&added->arena, content, len);
    if (token.content == NULL) {
        return out_of_memory(source, err);
    }
    token.text = token.content;
    token.len = token.text_len = (uint32_t)len;
    token.id = (uint32_t)id;
    added->tokens[added->n++] = token;
    return SLUICE_OK;
}

/* Brings the text that a normalised token stands for into NFC. */
static sluice_status normalize_token(struct added_tokens *added, struct added_token *token, const char *source,
                                     sluice_error *err)
{
    struct buffer text;
    buffer_init(&text, SIZE_MAX / 4);
    sluice_status status = normalize_nfc(token->content, token->len, &text, err);
    if (status == SLUICE_OK) {
        token->text = arena_strndup(&added->arena, text.data, text.len);
        token->text_len = (uint32_t)text.len;
        if (token->text == NULL) {
            status = out_of_memory(source, err);
        }
    }
    buffer_free(&text);
    return status;
}

/* Enters token i into the sets it is looked for in. */
static void add_spellings(struct added_tokens *added, size_t i)
{
    const struct added_token *token = &added->tokens[i];
    struct added_matcher *matcher = token->normalized ? &added->normalized : &added->raw;
    added->all.spellings[added->all.n++] =
        (struct added_spelling){.text = token->content, .len = token->len, .token = (uint32_t)i};
    matcher->spellings[matcher->n++] =
        (struct added_spelling){.text = token->text, .len = token->text_len, .token = (uint32_t)i};
}

static sluice_status reserve(struct added_tokens *added, size_t n, const char *source, sluice_error *err)
{
    added->tokens = arena_alloc(&added->arena, n, sizeof *added->tokens);
    added->all.spellings = arena_alloc(&added->arena, n, sizeof *added->all.spellings);
    added->raw.spellings = arena_alloc(&added->arena, n, sizeof *added->raw.spellings);
    added->normalized.spellings = arena_alloc(&added->arena, n, sizeof *added->normalized.spellings);
    if (added->tokens == NULL || added->all.spellings == NULL || added->raw.spellings == NULL ||
        added->normalized.spellings == NULL) {
        return out_of_memory(source, err);
    }
    return SLUICE_OK;
}

sluice_status added_tokens_load(struct added_tokens *added, const json_t *list, bool nfc, const char *source,
                                sluice_error *err)
{
    size_t n = json_array_size(list);
    arena_init(&added->arena);
    if (n > 0) {
        TRY(reserve(added, n, source, err));
    }
    for (size_t i = 0; i < n; i++) {
        char place[SOURCE_CAP];
        source_join_index(place, source, "added_tokens", i);
        TRY(load_token(added, json_array_get(list, i), place, err));
        if (nfc && added->tokens[i].normalized) {
            TRY(normalize_token(added, &added->tokens[i], place, err));
        }
        add_spellings(added, i);
    }
    matcher_finish(&added->all);
    if (added->all.n < n) {
        return error_set(err, SLUICE_FORMAT, "%s: added_tokens holds the same content twice", source);
    }
    matcher_finish(&added->raw);
    matcher_finish(&added->normalized);
    return SLUICE_OK;
}

void added_tokens_free(struct added_tokens *added)
{
    arena_free(&added->arena);
}

/* ---- Cutting a text -------------------------------------------------------------------------------- */

void added_cursor_init(struct added_cursor *cursor, const struct added_tokens *added,
                       const struct added_matcher *matcher, const char *text, size_t len)
{
    *cursor = (struct added_cursor){.added = added, .matcher = matcher, .text = text, .len = len};
}

/* False when the match [start, end) has a word character next to it. */
static bool stands_alone(const struct added_cursor *cursor, size_t start, size_t end)
{
    size_t used;
    if (start > 0 && utf8_is_word(utf8_decode(cursor->text + utf8_previous(cursor->text, start), &used))) {
        return false;
    }
    return end == cursor->len || !utf8_is_word(utf8_decode(cursor->text + end, &used));
}

/* The next token that counts, with the stretch of text that it takes. */
static const struct added_token *find_token(struct added_cursor *cursor, size_t *start, size_t *end)
{
    while (cursor->scan < cursor->len) {
        size_t at = cursor->scan;
        const struct added_spelling *spelling = match_here(cursor->matcher, cursor->text + at, cursor->len - at);
        if (spelling == NULL) {
            cursor->scan++;
            continue;
        }
        const struct added_token *token = &cursor->added->tokens[spelling->token];
        *start = at;
        *end = cursor->scan = at + spelling->len;
        if (token->single_word && !stands_alone(cursor, *start, *end)) {
            continue;
        }
        if (*end <= cursor->done) {
            continue;
        }
        if (token->lstrip && *start > cursor->done) {
            *start -= utf8_space_suffix(cursor->text + cursor->done, *start - cursor->done);
        }
        if (token->rstrip) {
            *end += utf8_space_prefix(cursor->text + *end, cursor->len - *end);
        }
        return token;
    }
    return NULL;
}

bool added_cursor_next(struct added_cursor *cursor, struct added_piece *piece)
{
    if (cursor->queued != NULL) {
        *piece = (struct added_piece){.token = cursor->queued};
        cursor->queued = NULL;
        return true;
    }
    size_t start = cursor->len, end = cursor->len, before = cursor->done;
    const struct added_token *token = find_token(cursor, &start, &end);
    if (token == NULL) {
        start = end = cursor->len;
    }
    cursor->done = end;
    if (start > before) {
        *piece = (struct added_piece){.text = cursor->text + before, .len = start - before};
        cursor->queued = token;
        return true;
    }
    *piece = (struct added_piece){.token = token};
    return token != NULL;
}
