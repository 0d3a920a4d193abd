/* Which slot makes room: pure functions over counters.
 *
 * The store keeps a table of its slots and of how many each layer holds, tells the policy when a slot is used, and asks
 * it for a victim. A policy does no I/O, takes no lock, and knows neither weights nor files, so that a recorded trace
 * of routes can be replayed through it at any size. Layers are counted over the sparse ones, from 0.
 *
 * Quotas: a layer is entitled to quota = (slots - transit) / layers, where transit, what one token needs of one layer,
 * is set aside for whichever layer is computing. What a single least-recently-used order over all layers would do with
 * a store smaller than one token's experts, evict everything just before it is needed again, cannot happen. */
#ifndef SLUICE_EXPERTS_POLICY_H
#define SLUICE_EXPERTS_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POLICY_NONE UINT32_MAX

enum policy_slot_state {
    POLICY_IDLE,  /* holds nothing */
    POLICY_HELD,  /* leased or being read: untouchable */
    POLICY_READY, /* holds an expert that nobody leases */
};

struct policy_slot {
    uint64_t last_use; /* the table's clock then */
    uint32_t layer;    /* meaningless while idle */
    enum policy_slot_state state;
};

struct policy_table {
    struct policy_slot *slots; /* [n_slots] */
    size_t n_slots;
    uint32_t *held; /* [n_layers] slots that are not idle, by layer */
    size_t n_layers;
    size_t transit;
    uint64_t clock; /* counts uses */
};

struct expert_policy {
    const char *name;
    /* The slot's expert was asked for just now: found, or about to be read. */
    void (*use)(struct policy_table *table, uint32_t slot);
    /* The slot that an expert of this layer shall take: an idle or a ready one. POLICY_NONE: the layer has to wait for
     * one that is held. last_resort: it holds none that it could wait for, so any ready slot will do. */
    uint32_t (*victim)(const struct policy_table *table, uint32_t layer, bool last_resort);
};

/* Least recently used, within quotas. Victims in order: an idle slot; the least recently used among layers above their
 * quota; the least recently used of the layer itself; as a last resort, the least recently used of all. A layer that
 * finds only held slots among these waits for its own instead of robbing the others: a long prompt needs most
 * experts of every layer, and would evict each just before its turn. */
extern const struct expert_policy expert_policy_lru;

/* Slots that a layer is entitled to. */
size_t policy_quota(const struct policy_table *table);

/* Bookkeeping of the table: a slot is given to a layer (state POLICY_HELD), or emptied. */
void policy_assign(struct policy_table *table, uint32_t slot, uint32_t layer);
void policy_clear(struct policy_table *table, uint32_t slot);

#endif
