/* The DSA indexer: which cached positions a row attends to.
 *
 * Full layers keep one key per position and score every visible position once more of them are visible than
 * index_topk; the best index_topk stay, ties to the lower position. Layers without an indexer of their own use
 * the choice of the nearest full layer below, which scratch.selected still holds. */
#ifndef SLUICE_MODEL_INDEXER_H
#define SLUICE_MODEL_INDEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "container/config.h"
#include "model/graph.h"

/* Scratch of one worker. */
uint64_t indexer_worker_bytes(const struct model_config *config);

/* True if some row of the chunk sees more than index_topk positions, so that queries are needed. */
bool indexer_must_choose(const struct chunk *chunk);

/* Normalises and rotates scratch.index_key and appends it to the cache. */
void indexer_append_keys(const struct chunk *chunk, uint32_t layer);

/* Chooses positions for every row that needs it, from scratch.index_query (not yet rotated) and index_weights. */
void indexer_choose(struct chunk *chunk, uint32_t layer);

/* [index_topk] positions chosen for row i, ascending; NULL: the row attends to all that it sees. */
const uint32_t *indexer_selection(const struct chunk *chunk, size_t i);

/* Tells chunk->trace, if it wants to know, what each row attends to. */
void indexer_trace(const struct chunk *chunk, uint32_t layer);

#endif
