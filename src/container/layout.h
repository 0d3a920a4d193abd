/* What tensors a glm_moe_dsa container consists of: names, shapes, roles and places in struct container.
 *
 * The architecture is one table of lines (layout.c); everything that has to walk over all tensors – the check that
 * none is missing, resolving, describing, writing a random container – walks over this table, so that
 * no two of them can disagree. */
#ifndef SLUICE_CONTAINER_LAYOUT_H
#define SLUICE_CONTAINER_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "container/config.h"
#include "container/container.h"

#define LAYOUT_NAME_MAX 128 /* longest tensor name with ".qs" and the terminating zero */

enum layout_form {
    LAYOUT_VECTOR,       /* stored_vector, plain */
    LAYOUT_MATRIX,       /* stored_matrix, quantised or plain */
    LAYOUT_PLAIN_MATRIX, /* stored_matrix, never quantised (the router) */
};

enum layout_role {
    ROLE_EMBEDDING,
    ROLE_LM_HEAD,
    ROLE_ATTENTION,
    ROLE_INDEXER,
    ROLE_DENSE_MLP,
    ROLE_SHARED_EXPERTS,
    ROLE_NORMS, /* norms, routers and their biases */
    ROLE_ROUTED_EXPERTS,
    ROLE_MTP, /* everything of the MTP layer */
    ROLE_COUNT,
};

/* Parts of a container that may be walked over; parts other than the main one may be absent. */
enum layout_part {
    LAYOUT_MAIN = 1,
    LAYOUT_INDEXER = 2, /* the indexers of all full layers */
    LAYOUT_MTP = 4,
};

struct layout_tensor;

/* One tensor of one container. */
struct layout_place {
    const struct layout_tensor *tensor;
    enum layout_form form;
    enum layout_role role;
    uint32_t layer;             /* 0 for the tensors outside layers */
    uint32_t expert;            /* 0 for tensors that are no routed expert's */
    uint32_t rows, cols;        /* a vector has cols elements and one row */
    char name[LAYOUT_NAME_MAX]; /* without ".qs" */
};

typedef sluice_status layout_visitor(void *user, const struct layout_place *place, sluice_error *err);

/* Calls visit for every tensor of the given parts, in the order model, layers ascending, experts ascending.
 * Stops at the first failure. */
sluice_status layout_visit(const struct model_config *config, unsigned parts, layout_visitor *visit, void *user,
                           sluice_error *err);

/* The stored_vector or stored_matrix of the place. Layers, experts and MTP layer must have been allocated. */
const void *layout_stored(const struct container *container, const struct layout_place *place);

/* True for a name suffix (after "model.layers.L.") that only an MTP layer has; and for an indexer's. */
bool layout_is_mtp_suffix(const char *suffix);
bool layout_is_indexer_suffix(const char *suffix);

const char *layout_role_name(enum layout_role role); /* "routed experts" */

#endif
