/* The attention sublayer: from the normalised residual to what it adds to the residual (model.md, steps 1 to 5). */
#ifndef SLUICE_MODEL_ATTENTION_H
#define SLUICE_MODEL_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "container/container.h"
#include "model/graph.h"

/* Scratch of one worker for m rows: a head's prepared mix. */
uint64_t attention_worker_bytes(const struct stored_matrix *kv_b_proj, size_t m);

/* Appends the chunk's rows to the layer's cache and writes the sublayer's output to scratch.branch. */
void attention_run(struct chunk *chunk, uint32_t layer);

#endif
