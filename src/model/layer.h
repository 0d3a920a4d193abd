/* One decoder layer, dense or sparse. */
#ifndef SLUICE_MODEL_LAYER_H
#define SLUICE_MODEL_LAYER_H

#include <stdint.h>

#include "base/error.h"
#include "model/graph.h"

/* Advances scratch.x by one layer and appends the chunk to that layer's cache. Only the experts can fail. */
sluice_status layer_forward(struct chunk *chunk, uint32_t layer, sluice_error *err);

#endif
