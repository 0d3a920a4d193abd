/* The table under every policy. Invariant: held[l] is the number of slots of layer l that are not idle. */
#include "experts/policy.h"

size_t policy_quota(const struct policy_table *table)
{
    if (table->n_slots <= table->transit || table->n_layers == 0) {
        return 0;
    }
    return (table->n_slots - table->transit) / table->n_layers;
}

void policy_clear(struct policy_table *table, uint32_t slot)
{
    struct policy_slot *entry = &table->slots[slot];
    if (entry->state != POLICY_IDLE) {
        table->held[entry->layer]--;
        entry->state = POLICY_IDLE;
    }
}

void policy_assign(struct policy_table *table, uint32_t slot, uint32_t layer)
{
    policy_clear(table, slot);
    table->slots[slot].layer = layer;
    table->slots[slot].state = POLICY_HELD;
    table->held[layer]++;
}
