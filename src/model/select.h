/* Choosing the best k of n: positions of an indexer's row, experts of a router's row.
 *
 * Pure functions. Equal scores go to the lower number, -0 equals +0, and the result depends on nothing but the
 * scores. */
#ifndef SLUICE_MODEL_SELECT_H
#define SLUICE_MODEL_SELECT_H

#include <stddef.h>
#include <stdint.h>

/* The k highest of scores [n], k <= n, in ascending order of position. */
void select_positions(const float *scores, size_t n, size_t k, uint32_t *positions);

/* The k highest of scores[i] + bias[i], k <= n, in decreasing order of that sum; ids[rank]. */
void select_ranked(const float *scores, const float *bias, size_t n, size_t k, uint32_t *ids);

#endif
