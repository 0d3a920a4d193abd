/* Choosing the next token from logits.
 *
 * Temperature 0 takes the largest logit, the lower id among equals, and uses no randomness. Otherwise the
 * steps are, in this order:
 *   temperature  p = exp((logit - largest) / temperature), the contract's exp (numerics.md)
 *   top_k        the top_k likeliest stay
 *   top_p        of those, the likeliest whose probabilities (rescaled to sum 1) reach top_p stay, the one that
 *                crosses the line included
 *   min_p        of those, the ones at least min_p times as likely as the likeliest stay
 *   draw         one of those that stayed, by their probabilities
 * "Likelier" means the larger logit, the lower id among equals, so whatever stays is a prefix of one order.
 *
 * The same seed and logits give the same ids on every machine: f32 and binary64 arithmetic without contraction,
 * sums in a fixed order, an own random stream. A pick allocates nothing. */
#ifndef SLUICE_ENGINE_SAMPLER_H
#define SLUICE_ENGINE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sluice/sluice.h"

struct sampler_entry {
    float logit;
    uint32_t id;
};

struct sampler {
    sluice_sampling settings;
    uint64_t draws;                /* random numbers used since the seed was set; the stream's whole state */
    uint32_t n;                    /* vocabulary */
    struct sampler_entry *entries; /* [n], the heap of a pick */
};

size_t sampler_bytes(uint32_t vocab_size); /* memory that sampler_open takes */

/* Greedy until sampler_set. */
sluice_status sampler_open(struct sampler *out, uint32_t vocab_size, sluice_error *err);
void sampler_close(struct sampler *sampler); /* safe on a zeroed one */

/* SLUICE_INVALID for a value out of range, and nothing changes. Restarts the random stream. */
sluice_status sampler_set(struct sampler *sampler, const sluice_sampling *settings, sluice_error *err);

/* logits [n], all finite. */
uint32_t sampler_pick(struct sampler *sampler, const float *logits);

#endif
