/* Byte-pair encoding of one word.
 *
 * The word starts as its single bytes, in a doubly linked list. As long as neighbours merge, the pair with the lowest
 * rank does, the leftmost among equals. A heap holds the candidates; an entry is stale, and skipped, when the pair at
 * its place has changed, which shows by another rank. Each merge adds at most two candidates, so a word of n bytes
 * costs n log n steps, whatever it is made of. */
#include <stdlib.h>

#include "base/alloc.h"
#include "text/tokenizer_internal.h"

#define CAPACITY_MIN 256u

void bpe_workspace_free(struct bpe_workspace *work)
{
    free(work->symbols);
    free(work->heap);
    *work = (struct bpe_workspace){0};
}

static sluice_status reserve(struct bpe_workspace *work, size_t len, sluice_error *err)
{
    if (work->symbols != NULL && len <= work->cap) {
        return SLUICE_OK;
    }
    size_t cap = len < CAPACITY_MIN ? CAPACITY_MIN : len + len / 2;
    bpe_workspace_free(work);
    work->symbols = mem_zalloc(cap, sizeof *work->symbols);
    work->heap = mem_zalloc(cap, 3 * sizeof *work->heap);
    if (work->symbols == NULL || work->heap == NULL) {
        bpe_workspace_free(work);
        error_set(err, SLUICE_NO_MEMORY, "out of memory for a word of %zu bytes", len);
        return SLUICE_NO_MEMORY;
    }
    work->cap = cap;
    return SLUICE_OK;
}

/* ---- Heap ------------------------------------------------------------------------------------------ */

static void heap_push(struct bpe_workspace *work, uint64_t key)
{
    size_t i = work->n_heap++;
    while (i > 0 && work->heap[(i - 1) / 2] > key) {
        work->heap[i] = work->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    work->heap[i] = key;
}

static uint64_t heap_pop(struct bpe_workspace *work)
{
    uint64_t top = work->heap[0], last = work->heap[--work->n_heap];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < work->n_heap) {
        if (child + 1 < work->n_heap && work->heap[child + 1] < work->heap[child]) {
            child++;
        }
        if (work->heap[child] >= last) {
            break;
        }
        work->heap[i] = work->heap[child];
        i = child;
    }
    work->heap[i] = last;
    return top;
}

/* ---- Merging --------------------------------------------------------------------------------------- */

/* Notes how piece i merges with the next one and makes it a candidate. */
static void look_at_pair(struct encoder *encoder, uint32_t i)
{
    struct bpe_symbol *symbol = &encoder->bpe.symbols[i];
    const struct merge_slot *merge = NULL;
    if (symbol->next != NO_TOKEN) {
        merge =
            vocabulary_find_merge(&encoder->tokenizer->vocabulary, symbol->id, encoder->bpe.symbols[symbol->next].id);
    }
    if (merge == NULL) {
        symbol->rank = NO_TOKEN;
        return;
    }
    symbol->rank = merge->rank;
    symbol->merged = merge->id;
    heap_push(&encoder->bpe, (uint64_t)merge->rank << 32 | i);
}

static void split_into_bytes(struct encoder *encoder, const char *word, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        encoder->bpe.symbols[i] = (struct bpe_symbol){
            .id = encoder->tokenizer->vocabulary.byte_ids[(unsigned char)word[i]],
            .previous = i > 0 ? (uint32_t)i - 1 : NO_TOKEN,
            .next = i + 1 < len ? (uint32_t)i + 1 : NO_TOKEN,
            .rank = NO_TOKEN,
        };
    }
    encoder->bpe.n_heap = 0;
    for (size_t i = 0; i + 1 < len; i++) {
        look_at_pair(encoder, (uint32_t)i);
    }
}

/* Joins piece i and the next one. */
static void merge_pair(struct encoder *encoder, uint32_t i)
{
    struct bpe_symbol *symbols = encoder->bpe.symbols;
    struct bpe_symbol *left = &symbols[i], *right = &symbols[left->next];
    left->id = left->merged;
    left->next = right->next;
    right->id = NO_TOKEN;
    right->rank = NO_TOKEN;
    if (left->next != NO_TOKEN) {
        symbols[left->next].previous = i;
    }
    look_at_pair(encoder, i);
    if (left->previous != NO_TOKEN) {
        look_at_pair(encoder, left->previous);
    }
}

sluice_status bpe_encode_word(struct encoder *encoder, const char *word, size_t len, sluice_error *err)
{
    const struct tokenizer *tokenizer = encoder->tokenizer;
    if (tokenizer->ignore_merges) {
        uint32_t id = vocabulary_find(&tokenizer->vocabulary, word, len);
        if (id != NO_TOKEN) {
            return token_list_push(encoder->out, id, err);
        }
    }
    TRY(reserve(&encoder->bpe, len, err));
    split_into_bytes(encoder, word, len);
    while (encoder->bpe.n_heap > 0) {
        uint64_t key = heap_pop(&encoder->bpe);
        uint32_t i = (uint32_t)key;
        if (encoder->bpe.symbols[i].rank == (uint32_t)(key >> 32)) {
            merge_pair(encoder, i);
        }
    }
    for (uint32_t i = 0; i != NO_TOKEN; i = encoder->bpe.symbols[i].next) {
        TRY(token_list_push(encoder->out, encoder->bpe.symbols[i].id, err));
    }
    return SLUICE_OK;
}
