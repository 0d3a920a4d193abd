/* The router of a sparse layer: which experts a row visits, and with what weights. */
#ifndef SLUICE_MODEL_ROUTER_H
#define SLUICE_MODEL_ROUTER_H

#include <stdint.h>

#include "model/graph.h"

/* From scratch.h to scratch.route_ids and route_weights [m][num_experts_per_tok], rank by decreasing score + bias. */
void router_run(const struct chunk *chunk, uint32_t layer);

#endif
