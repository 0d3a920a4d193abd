/* The vocabulary and the merges.
 *
 * Tokens are kept as the bytes they stand for, in one block, found by id through a table of offsets and by content
 * through a hash table of ids. Merges live in a hash table keyed by the pair. A vocabulary entry that is also an added
 * token keeps one entry; a spelling outside the byte alphabet is only allowed there, since no merging can
 * reach it. Everything read here is untrusted: ids, counts and names are checked before they index anything. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "text/bytelevel.h"
#include "text/tokenizer_internal.h"

void vocabulary_free(struct vocabulary *vocabulary)
{
    free(vocabulary->bytes);
    free(vocabulary->entries);
    free(vocabulary->words);
    free(vocabulary->merges);
    *vocabulary = (struct vocabulary){0};
}

static sluice_status out_of_memory(const char *source, sluice_error *err)
{
    return error_set(err, SLUICE_NO_MEMORY, "%s: out of memory for the vocabulary", source);
}

/* ---- Hash tables ----------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
}

static uint32_t hash_bytes(const char *bytes, size_t len)
{
    uint64_t hash = len;
    for (; len >= 8; bytes += 8, len -= 8) {
        uint64_t block;
        memcpy(&block, bytes, 8);
        hash = mix(hash ^ block);
    }
    uint64_t rest = 0;
    memcpy(&rest, bytes, len);
    return (uint32_t)mix(hash ^ rest);
}

static uint32_t hash_pair(uint32_t left, uint32_t right)
{
    return (uint32_t)mix((uint64_t)left << 32 | right);
}

/* Smallest power of two that keeps n items under two thirds of the table. */
static size_t table_size(size_t n)
{
    size_t size = 16;
    while (size / 3 * 2 <= n) {
        size *= 2;
    }
    return size;
}

/* The slot that holds these bytes, or the empty one where they belong. */
static uint32_t *find_word(const struct vocabulary *vocabulary, const char *bytes, size_t len)
{
    for (uint32_t i = hash_bytes(bytes, len);; i++) {
        uint32_t *slot = &vocabulary->words[i & vocabulary->words_mask];
        if (*slot == 0) {
            return slot;
        }
        const struct token_entry *entry = &vocabulary->entries[*slot - 1];
        if (entry->len == len && memcmp(vocabulary->bytes + entry->offset, bytes, len) == 0) {
            return slot;
        }
    }
}

uint32_t vocabulary_find(const struct vocabulary *vocabulary, const char *bytes, size_t len)
{
    uint32_t slot = *find_word(vocabulary, bytes, len);
    return slot != 0 ? slot - 1 : NO_TOKEN;
}

static struct merge_slot *find_pair(const struct vocabulary *vocabulary, uint32_t left, uint32_t right)
{
    for (uint32_t i = hash_pair(left, right);; i++) {
        struct merge_slot *slot = &vocabulary->merges[i & vocabulary->merges_mask];
        if (slot->rank == NO_TOKEN || (slot->left == left && slot->right == right)) {
            return slot;
        }
    }
}

const struct merge_slot *vocabulary_find_merge(const struct vocabulary *vocabulary, uint32_t left, uint32_t right)
{
    const struct merge_slot *slot = find_pair(vocabulary, left, right);
    return slot->rank != NO_TOKEN ? slot : NULL;
}

/* ---- Vocabulary ------------------------------------------------------------------------------------ */

static sluice_status get_id(const char *word, const json_t *value, const char *source, uint32_t *id, sluice_error *err)
{
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || number >= (json_int_t)TOKENIZER_ID_LIMIT) {
        return error_set(err, SLUICE_FORMAT, "%s: vocab: id of \"%.64s\" must be an integer from 0 to %u", source, word,
                         TOKENIZER_ID_LIMIT - 1);
    }
    *id = (uint32_t)number;
    return SLUICE_OK;
}

/* First pass: allocates everything for the ids and spellings that will be entered. */
static sluice_status reserve(struct vocabulary *vocabulary, json_t *words, const struct added_tokens *added,
                             const char *source, sluice_error *err)
{
    size_t n_ids = 0, n_bytes = 0;
    const char *word;
    json_t *value;
    json_object_foreach(words, word, value)
    {
        uint32_t id = 0;
        TRY(get_id(word, value, source, &id, err));
        n_bytes += bytelevel_count(word, strlen(word));
        n_ids = id >= n_ids ? id + (size_t)1 : n_ids;
    }
    for (size_t i = 0; i < added->n; i++) {
        n_bytes += added->tokens[i].text_len;
        n_ids = added->tokens[i].id >= n_ids ? added->tokens[i].id + (size_t)1 : n_ids;
    }
    size_t n_words = table_size(json_object_size(words));
    vocabulary->bytes = mem_zalloc(n_bytes + 1, 1);
    vocabulary->entries = mem_zalloc(n_ids + 1, sizeof *vocabulary->entries);
    vocabulary->words = mem_zalloc(n_words, sizeof *vocabulary->words);
    if (vocabulary->bytes == NULL || vocabulary->entries == NULL || vocabulary->words == NULL) {
        return out_of_memory(source, err);
    }
    vocabulary->n_ids = (uint32_t)n_ids;
    vocabulary->words_mask = (uint32_t)(n_words - 1);
    return SLUICE_OK;
}

/* Gives the id the `len` bytes that stand behind those of the tokens so far. */
static struct token_entry *enter(struct vocabulary *vocabulary, uint32_t id, size_t len)
{
    struct token_entry *entry = &vocabulary->entries[id];
    *entry =
        (struct token_entry){.offset = (uint32_t)vocabulary->n_bytes, .len = (uint32_t)len & 0x1FFFFFFFu, .present = 1};
    vocabulary->n_bytes += len;
    vocabulary->longest = len > vocabulary->longest ? (uint32_t)len : vocabulary->longest;
    return entry;
}

static sluice_status enter_word(struct vocabulary *vocabulary, const char *word, uint32_t id,
                                const struct added_tokens *added, const char *source, sluice_error *err)
{
    size_t word_len = strlen(word), len;
    const struct added_token *token = added_tokens_find(added, word, word_len);
    if (token != NULL && token->id != id) {
        return error_set(err, SLUICE_FORMAT,
                         "%s: \"%.64s\" has id %" PRIu32 " in vocab and %" PRIu32 " in added_tokens", source, word, id,
                         token->id);
    }
    if (vocabulary->entries[id].present) {
        return error_set(err, SLUICE_FORMAT, "%s: vocab: id %" PRIu32 " is given twice, the second time to \"%.64s\"",
                         source, id, word);
    }
    char *bytes = vocabulary->bytes + vocabulary->n_bytes;
    if (!bytelevel_decode(word, word_len, bytes, &len)) {
        if (token == NULL) {
            return error_set(err, SLUICE_UNSUPPORTED, "%s: vocab: \"%.64s\" is not spelled in the byte alphabet",
                             source, word);
        }
        return SLUICE_OK; /* entered with the added tokens */
    }
    if (len == 0) {
        return error_set(err, SLUICE_FORMAT, "%s: vocab: id %" PRIu32 " is an empty token", source, id);
    }
    *find_word(vocabulary, bytes, len) = id + 1;
    enter(vocabulary, id, len);
    return SLUICE_OK;
}

static sluice_status enter_added(struct vocabulary *vocabulary, const struct added_token *token, const char *source,
                                 sluice_error *err)
{
    struct token_entry *entry = &vocabulary->entries[token->id];
    if (entry->present) {
        char bytes[ADDED_TOKEN_BYTES];
        size_t len;
        bool same = !entry->added && bytelevel_decode(token->content, token->len, bytes, &len) && len == entry->len &&
                    memcmp(vocabulary->bytes + entry->offset, bytes, len) == 0;
        if (!same) {
            return error_set(err, SLUICE_FORMAT, "%s: id %" PRIu32 " of added token \"%.64s\" belongs to another token",
                             source, token->id, token->content);
        }
    } else {
        memcpy(vocabulary->bytes + vocabulary->n_bytes, token->text, token->text_len);
        entry = enter(vocabulary, token->id, token->text_len);
    }
    entry->added = 1;
    entry->special = token->special;
    return SLUICE_OK;
}

static sluice_status find_byte_tokens(struct vocabulary *vocabulary, const char *source, sluice_error *err)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        vocabulary->byte_ids[byte] = vocabulary_find(vocabulary, &text, 1);
        if (vocabulary->byte_ids[byte] == NO_TOKEN) {
            return error_set(err, SLUICE_UNSUPPORTED, "%s: vocab: no token for the byte 0x%02X", source, byte);
        }
    }
    return SLUICE_OK;
}

sluice_status vocabulary_load(struct vocabulary *vocabulary, json_t *model, const struct added_tokens *added,
                              const char *source, sluice_error *err)
{
    json_t *words = json_object_get(model, "vocab");
    if (!json_is_object(words)) {
        return error_set(err, SLUICE_FORMAT, "%s: field \"vocab\" %s", source,
                         words == NULL ? "is missing" : "must be an object");
    }
    TRY(reserve(vocabulary, words, added, source, err));
    const char *word;
    json_t *value;
    json_object_foreach(words, word, value)
    {
        TRY(enter_word(vocabulary, word, (uint32_t)json_integer_value(value), added, source, err));
    }
    json_object_del(model, "vocab");
    for (size_t i = 0; i < added->n; i++) {
        TRY(enter_added(vocabulary, &added->tokens[i], source, err));
    }
    return find_byte_tokens(vocabulary, source, err);
}

/* ---- Merges ---------------------------------------------------------------------------------------- */

/* The two names of a merge: "a b", or ["a", "b"]. */
static bool split_merge(const json_t *merge, const char **left, size_t *left_len, const char **right, size_t *right_len)
{
    if (json_is_array(merge)) {
        const json_t *a = json_array_get(merge, 0), *b = json_array_get(merge, 1);
        if (json_array_size(merge) != 2 || !json_is_string(a) || !json_is_string(b)) {
            return false;
        }
        *left = json_string_value(a);
        *left_len = strlen(*left);
        *right = json_string_value(b);
        *right_len = strlen(*right);
        return true;
    }
    if (!json_is_string(merge)) {
        return false;
    }
    const char *text = json_string_value(merge), *space = strchr(text, ' ');
    if (space == NULL || strchr(space + 1, ' ') != NULL) {
        return false;
    }
    *left = text;
    *left_len = (size_t)(space - text);
    *right = space + 1;
    *right_len = strlen(space + 1);
    return true;
}

/* The id of a token by its spelling; the bytes go to the end of `scratch`. */
static sluice_status find_spelling(const struct vocabulary *vocabulary, const char *word, size_t word_len, size_t rank,
                                   const char *source, struct buffer *scratch, uint32_t *id, sluice_error *err)
{
    size_t len;
    TRY(buffer_reserve(scratch, word_len, err));
    char *bytes = scratch->data + scratch->len;
    *id = bytelevel_decode(word, word_len, bytes, &len) ? vocabulary_find(vocabulary, bytes, len) : NO_TOKEN;
    if (*id == NO_TOKEN) {
        return error_set(err, SLUICE_FORMAT, "%s: merges[%zu]: unknown token \"%.*s\"", source, rank,
                         word_len < 64 ? (int)word_len : 64, word);
    }
    scratch->len += len;
    return SLUICE_OK;
}

static sluice_status enter_merge(struct vocabulary *vocabulary, const json_t *merge, size_t rank, const char *source,
                                 struct buffer *scratch, sluice_error *err)
{
    const char *left, *right;
    size_t left_len, right_len;
    uint32_t left_id, right_id;
    if (!split_merge(merge, &left, &left_len, &right, &right_len)) {
        return error_set(err, SLUICE_FORMAT, "%s: merges[%zu]: must be \"a b\" or [\"a\", \"b\"]", source, rank);
    }
    scratch->len = 0;
    TRY(find_spelling(vocabulary, left, left_len, rank, source, scratch, &left_id, err));
    TRY(find_spelling(vocabulary, right, right_len, rank, source, scratch, &right_id, err));
    uint32_t id = vocabulary_find(vocabulary, scratch->data, scratch->len);
    if (id == NO_TOKEN) {
        return error_set(err, SLUICE_FORMAT, "%s: merges[%zu]: \"%.64s\" + \"%.64s\" is not a token", source, rank,
                         left, right);
    }
    *find_pair(vocabulary, left_id, right_id) =
        (struct merge_slot){.left = left_id, .right = right_id, .rank = (uint32_t)rank, .id = id};
    return SLUICE_OK;
}

sluice_status vocabulary_load_merges(struct vocabulary *vocabulary, const json_t *model, const char *source,
                                     sluice_error *err)
{
    const json_t *merges = json_object_get(model, "merges");
    if (!json_is_array(merges)) {
        return error_set(err, SLUICE_FORMAT, "%s: field \"merges\" %s", source,
                         merges == NULL ? "is missing" : "must be an array");
    }
    size_t n = json_array_size(merges), n_slots = table_size(n);
    vocabulary->merges = mem_zalloc(n_slots, sizeof *vocabulary->merges);
    if (vocabulary->merges == NULL) {
        return out_of_memory(source, err);
    }
    vocabulary->merges_mask = (uint32_t)(n_slots - 1);
    for (size_t i = 0; i < n_slots; i++) {
        vocabulary->merges[i].rank = NO_TOKEN;
    }
    struct buffer scratch;
    buffer_init(&scratch, 2 * TOKENIZER_FILE_LIMIT);
    sluice_status status = SLUICE_OK;
    for (size_t rank = 0; rank < n && status == SLUICE_OK; rank++) {
        status = enter_merge(vocabulary, json_array_get(merges, rank), rank, source, &scratch, err);
    }
    buffer_free(&scratch);
    return status;
}
