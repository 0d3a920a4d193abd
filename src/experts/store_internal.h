/* What the store's two files share: the table (store.c) and the reads that fill a slot (store_load.c). */
#ifndef SLUICE_EXPERTS_STORE_INTERNAL_H
#define SLUICE_EXPERTS_STORE_INTERNAL_H

#include <pthread.h>

#include "experts/layout.h"
#include "experts/policy.h"
#include "experts/store.h"
#include "os/pages.h"

#define SLOT_NONE UINT32_MAX

enum slot_state {
    SLOT_IDLE,
    SLOT_LOADING,
    SLOT_READY,
    SLOT_FAILED, /* the read failed and leases are still out; idle when the last one comes back */
};

/* Why a load failed; turned into words only when someone asks. */
struct slot_failure {
    bool failed;
    int os_errno; /* 0: a scale is not finite */
    enum expert_component component;
    uint64_t element; /* of the scales */
};

/* Guarded by the store's lock, except where a line says otherwise. */
struct store_slot {
    struct expert_store *store; /* constant */
    char *memory; /* constant; contents belong to the reads while loading, to the lease holders while ready */
    struct async_read *parts;    /* [store.max_parts]; the reader's while loading */
    struct expert_layout layout; /* constant while leased or loading */
    uint32_t layer, expert;      /* of the model; constant while leased or loading */
    uint32_t generation;
    uint32_t leases;
    enum slot_state state;
    size_t parts_left;
    struct slot_failure failure;
};

struct expert_store {
    const struct container *container;
    struct async_reader *reader;
    const struct expert_policy *policy;
    struct os_pages arena;
    struct store_slot *slots; /* [table.n_slots] */
    struct async_read *parts; /* [n_slots][max_parts] */
    size_t max_parts;
    uint32_t *sparse_of; /* [num_hidden_layers] index among the sparse layers, or SLOT_NONE */

    pthread_mutex_t lock;   /* guards what follows, and the slots */
    pthread_cond_t changed; /* a load ended, a slot's last lease came back, or wake */
    uint32_t *slot_of;      /* [sparse layers][experts] slot that holds or loads the expert, or SLOT_NONE */
    size_t n_loading;
    struct policy_table table;
    struct expert_store_stats stats;
};

const struct stored_mlp *store_expert(const struct expert_store *store, const struct store_slot *slot);

/* Under the lock: prepares the reads of slot.layer/expert and sets the slot loading. Returns their number, to be
 * passed to store_load_submit without the lock. */
size_t store_load_prepare(struct store_slot *slot);
void store_load_submit(struct store_slot *slot, size_t n_parts);

/* The load of this slot is over: implemented by the table, called without the lock. */
void store_load_finished(struct store_slot *slot);

/* Sets err to the slot's failure and returns its status. */
sluice_status store_load_report(const struct store_slot *slot, sluice_error *err);

#endif
