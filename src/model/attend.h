/* Softmax attention of absorbed queries over cached positions, the numerics contract's order of operations.
 *
 * An item is one row and a group of heads: scores of all allowed positions block by block, the exact maximum,
 * then per block the sum of exponentials and the mix of latents, each from +0, added up in ascending order of
 * blocks; the division comes last. Items share nothing, so any split over threads gives the same bits. */
#ifndef SLUICE_MODEL_ATTEND_H
#define SLUICE_MODEL_ATTEND_H

#include <stddef.h>
#include <stdint.h>

#include "container/config.h"
#include "model/graph.h"

/* Scratch of one worker for score_stride positions. */
uint64_t attend_worker_bytes(const struct model_config *config, size_t score_stride);

/* Replaces, in scratch.query [m][heads][kv_lora_rank + rope], the first kv_lora_rank values of each row and head
 * by the mix of latents. The rest is left unspecified. */
void attend_run(const struct chunk *chunk, uint32_t layer);

#endif
