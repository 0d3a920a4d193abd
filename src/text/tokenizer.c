/* The tokenizer as a whole: opening, closing, and looking up single tokens. The idea and the parts are described
 * in tokenizer_internal.h; a tokenizer never changes once it is open, so any number of threads may use it. */
#include "text/tokenizer.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "text/tokenizer_internal.h"

/* ---- Lists of ids ---------------------------------------------------------------------------------- */

void token_list_free(struct token_list *list)
{
    free(list->ids);
    *list = (struct token_list){0};
}

sluice_status token_list_push(struct token_list *list, uint32_t id, sluice_error *err)
{
    if (list->n == list->cap) {
        size_t cap = list->cap < 64 ? 64 : list->cap, size;
        uint32_t *ids = NULL;
        if (size_mul(cap, 2 * sizeof *ids, &size)) {
            ids = realloc(list->ids, size);
        }
        if (ids == NULL) {
            return error_set(err, SLUICE_NO_MEMORY, "out of memory for %zu tokens", cap);
        }
        list->ids = ids;
        list->cap = 2 * cap;
    }
    list->ids[list->n++] = id;
    return SLUICE_OK;
}

/* ---- Opening --------------------------------------------------------------------------------------- */

sluice_status tokenizer_open(struct tokenizer **out, const char *path, sluice_error *err)
{
    json_t *root;
    TRY(json_parse_file(path, TOKENIZER_FILE_LIMIT, &root, err));
    struct tokenizer *tokenizer = mem_zalloc(1, sizeof *tokenizer);
    sluice_status status = SLUICE_OK;
    if (tokenizer == NULL) {
        status = error_set(err, SLUICE_NO_MEMORY, "%s: out of memory", path);
    } else {
        status = tokenizer_load(tokenizer, root, path, err);
    }
    json_decref(root);
    malloc_trim(0); /* the JSON took several times the file's size, in small pieces that would stay with the process */
    if (status != SLUICE_OK) {
        tokenizer_close(&tokenizer);
        return status;
    }
    *out = tokenizer;
    return SLUICE_OK;
}

void tokenizer_close(struct tokenizer **tokenizer)
{
    struct tokenizer *old = *tokenizer;
    if (old != NULL) {
        vocabulary_free(&old->vocabulary);
        pretokenizer_free(&old->pretokenizer);
        added_tokens_free(&old->added);
        free(old);
        *tokenizer = NULL;
    }
}

/* ---- Single tokens --------------------------------------------------------------------------------- */

size_t tokenizer_vocab_size(const struct tokenizer *tokenizer)
{
    return tokenizer->vocabulary.n_ids;
}

bool tokenizer_find(const struct tokenizer *tokenizer, const char *token, uint32_t *id)
{
    size_t len = strlen(token);
    const struct added_token *added = added_tokens_find(&tokenizer->added, token, len);
    uint32_t found = added != NULL ? added->id : vocabulary_find(&tokenizer->vocabulary, token, len);
    if (found == NO_TOKEN) {
        return false;
    }
    *id = found;
    return true;
}

static const struct token_entry *find_entry(const struct tokenizer *tokenizer, uint32_t id)
{
    if (id >= tokenizer->vocabulary.n_ids || !tokenizer->vocabulary.entries[id].present) {
        return NULL;
    }
    return &tokenizer->vocabulary.entries[id];
}

const char *tokenizer_bytes(const struct tokenizer *tokenizer, uint32_t id, size_t *len)
{
    const struct token_entry *entry = find_entry(tokenizer, id);
    if (entry == NULL) {
        return NULL;
    }
    *len = entry->len;
    return tokenizer->vocabulary.bytes + entry->offset;
}

bool tokenizer_is_special(const struct tokenizer *tokenizer, uint32_t id)
{
    const struct token_entry *entry = find_entry(tokenizer, id);
    return entry != NULL && entry->special;
}
