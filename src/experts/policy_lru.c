/* Least recently used within quotas: see policy.h for the order of victims and its reasons.
 *
 * One pass over the table finds the best slot of every class. A few thousand slots take microseconds, and it is only
 * done before a read that takes milliseconds. */
#include "experts/policy.h"

static void lru_use(struct policy_table *table, uint32_t slot)
{
    table->slots[slot].last_use = ++table->clock;
}

/* True if slot i was used before the best one so far. */
static bool is_older(const struct policy_table *table, size_t i, uint32_t best)
{
    return best == POLICY_NONE || table->slots[i].last_use < table->slots[best].last_use;
}

static uint32_t lru_victim(const struct policy_table *table, uint32_t layer, bool last_resort)
{
    size_t quota = policy_quota(table);
    uint32_t above = POLICY_NONE, own = POLICY_NONE, any = POLICY_NONE;
    for (size_t i = 0; i < table->n_slots; i++) {
        const struct policy_slot *slot = &table->slots[i];
        if (slot->state == POLICY_IDLE) {
            return (uint32_t)i;
        }
        if (slot->state == POLICY_HELD) {
            continue;
        }
        if (table->held[slot->layer] > quota && is_older(table, i, above)) {
            above = (uint32_t)i;
        }
        if (slot->layer == layer && is_older(table, i, own)) {
            own = (uint32_t)i;
        }
        if (is_older(table, i, any)) {
            any = (uint32_t)i;
        }
    }
    if (above != POLICY_NONE) {
        return above;
    }
    if (own != POLICY_NONE) {
        return own;
    }
    return last_resort ? any : POLICY_NONE;
}

const struct expert_policy expert_policy_lru = {.name = "lru", .use = lru_use, .victim = lru_victim};
