/* The bounded store of expert slots.
 *
 * One fixed arena of equal slots. A slot is idle, loading, ready or leased; its generation counts
 * what it has held, and a lease names (slot, generation) so that a stale one is refused. A leased slot
 * never moves and is never reused. A failed read leaves an idle slot. Which ready slot makes room is
 * the policy's word (policy.h). All functions may be called from any thread; one lock guards the table. */
#ifndef SLUICE_EXPERTS_STORE_H
#define SLUICE_EXPERTS_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "container/container.h"
#include "os/async_read.h"
#include "quant/matrix.h"

struct expert_store;

struct expert_lease {
    uint32_t slot;
    uint32_t generation;
};

struct expert_store_stats {
    uint64_t hits, misses; /* acquisitions that found the expert ready, or had to read it */
    uint64_t bytes_read;   /* from disk, alignment included */
    double wait_seconds;   /* time callers were blocked in expert_store_wait */
};

/* Bytes of one slot: every expert of the container's sparse layers fits. A multiple of 16 KiB. */
size_t expert_store_slot_bytes(const struct container *container);

/* Fewest slots a store may have: one a sparse layer, plus what one token can need at once. */
size_t expert_store_min_slots(const struct container *container);

/* Memory of a store of n_slots: arena and tables, exact. */
uint64_t expert_store_bytes(const struct container *container, size_t n_slots);

/* container and reader are borrowed. n_slots beyond the number of experts are not allocated. */
sluice_status expert_store_open(struct expert_store **out, const struct container *container,
                                struct async_reader *reader, size_t n_slots, sluice_error *err);
sluice_status expert_store_close(struct expert_store **store, sluice_error *err); /* SLUICE_BUSY with leases out */
size_t expert_store_slots(const struct expert_store *store);
void expert_store_get_stats(const struct expert_store *store, struct expert_store_stats *out);

/* Asks for expert `expert` of layer `layer`. Takes a lease at once: the slot cannot be reused until it is
 * released, whatever becomes of the read. *ready tells whether the weights are already there; if not, a
 * read has been started or joined. SLUICE_BUSY: no slot that the policy grants this layer is free of leases and reads;
 * release one and ask again. */
sluice_status expert_store_acquire(struct expert_store *store, uint32_t layer, uint32_t expert,
                                   struct expert_lease *lease, bool *ready, sluice_error *err);

/* The same for a caller that holds no lease it could release: takes any slot that is free of leases and reads, whatever
 * the policy would rather keep. */
sluice_status expert_store_acquire_any(struct expert_store *store, uint32_t layer, uint32_t expert,
                                       struct expert_lease *lease, bool *ready, sluice_error *err);

/* Takes a lease only if the weights are already there, which counts as a hit. Never reads, never evicts: a batch leases
 * what it finds before its misses make room. */
bool expert_store_acquire_ready(struct expert_store *store, uint32_t layer, uint32_t expert,
                                struct expert_lease *lease);

/* Blocks until at least one of the n leases is ready or failed, and returns its index in *which.
 * A failed one: SLUICE_IO (or SLUICE_NUMERIC for a non-finite scale) naming file and tensor, with *which set.
 * cancel may be NULL; when it becomes true (expert_store_wake helps) SLUICE_CANCELLED. With n = 0 it returns
 * SLUICE_OK after the next change of any slot, or a moment: for a caller who was told SLUICE_BUSY and holds nothing. */
sluice_status expert_store_wait(struct expert_store *store, const struct expert_lease *leases, size_t n,
                                const atomic_bool *cancel, size_t *which, sluice_error *err);
void expert_store_wake(struct expert_store *store);

/* The weights of a ready slot, in place; valid until release. SLUICE_STALE for another generation or a lease that is
 * no longer out, SLUICE_BUSY while the slot is loading, the error of expert_store_wait if its read failed. */
sluice_status expert_store_view(const struct expert_store *store, struct expert_lease lease, struct expert_weights *out,
                                sluice_error *err);

/* Gives a lease back. A lease on a loading slot may be released: the read is drained in the background. */
sluice_status expert_store_release(struct expert_store *store, struct expert_lease lease, sluice_error *err);

#endif
