/* What a container keeps for itself. Private to the module. */
#ifndef SLUICE_CONTAINER_STATE_H
#define SLUICE_CONTAINER_STATE_H

#include "base/arena.h"
#include "container/layout.h"

/* How much of a part of the container is there. */
struct completeness {
    uint32_t required, missing;          /* tensors, scales counted with their weights */
    char first_missing[LAYOUT_NAME_MAX]; /* "" if none is */
};

struct container_memory {
    struct arena arena;               /* names, layers, experts */
    struct completeness mtp, indexer; /* as found at open */
    uint64_t n_unknown;               /* tensors that no part of the graph uses */
};

#endif
