/* The policy as a pure function: order of victims, quotas, and whole access patterns replayed over bare counters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/reference.h"
#include "experts/policy.h"

#define SLOTS_MAX 512
#define LAYERS_MAX 80
#define EXPERTS 64

/* A table, and what each slot holds: enough to replay a trace. */
struct replay {
    struct policy_table table;
    struct policy_slot slots[SLOTS_MAX];
    uint32_t held[LAYERS_MAX];
    uint32_t expert[SLOTS_MAX];
    size_t hits, misses;
};

static void replay_init(struct replay *replay, size_t n_slots, size_t n_layers, size_t transit)
{
    memset(replay, 0, sizeof *replay);
    replay->table = (struct policy_table){
        .slots = replay->slots, .n_slots = n_slots, .held = replay->held, .n_layers = n_layers, .transit = transit};
}

/* Gives a slot to a layer, used now, ready. */
static void fill(struct replay *replay, uint32_t slot, uint32_t layer)
{
    policy_assign(&replay->table, slot, layer);
    expert_policy_lru.use(&replay->table, slot);
    replay->slots[slot].state = POLICY_READY;
}

static uint32_t victim(const struct replay *replay, uint32_t layer)
{
    return expert_policy_lru.victim(&replay->table, layer, false);
}

static void test_idle_first(void **state)
{
    (void)state;
    struct replay replay;
    replay_init(&replay, 4, 2, 1);
    assert_int_equal(victim(&replay, 0), 0);
    fill(&replay, 0, 0);
    fill(&replay, 1, 0);
    fill(&replay, 3, 1);
    assert_int_equal(victim(&replay, 1), 2);
}

static void test_quota(void **state)
{
    (void)state;
    struct replay replay;
    replay_init(&replay, 83, 75, 8);
    assert_int_equal(policy_quota(&replay.table), 1);
    replay_init(&replay, 82, 75, 8);
    assert_int_equal(policy_quota(&replay.table), 0);
    replay_init(&replay, 8, 75, 8);
    assert_int_equal(policy_quota(&replay.table), 0);
    replay_init(&replay, 5, 75, 8);
    assert_int_equal(policy_quota(&replay.table), 0);
    replay_init(&replay, 5, 0, 0);
    assert_int_equal(policy_quota(&replay.table), 0);
}

static void test_bookkeeping(void **state)
{
    (void)state;
    struct replay replay;
    replay_init(&replay, 3, 2, 1);
    policy_assign(&replay.table, 0, 0);
    policy_assign(&replay.table, 1, 0);
    assert_int_equal(replay.held[0], 2);
    policy_assign(&replay.table, 1, 1);
    assert_int_equal(replay.held[0], 1);
    assert_int_equal(replay.held[1], 1);
    policy_clear(&replay.table, 1);
    policy_clear(&replay.table, 1);
    assert_int_equal(replay.held[1], 0);
    assert_int_equal(replay.slots[1].state, POLICY_IDLE);
}

/* Two layers, quota 2, one slot in transit. */
static void test_order_of_victims(void **state)
{
    (void)state;
    struct replay replay;
    replay_init(&replay, 5, 2, 1);
    fill(&replay, 0, 1);
    fill(&replay, 1, 1);
    fill(&replay, 2, 0);
    fill(&replay, 3, 0);
    fill(&replay, 4, 0);
    /* layer 0 is above its quota: its oldest goes, though those of layer 1 are older */
    assert_int_equal(victim(&replay, 1), 2);
    assert_int_equal(victim(&replay, 0), 2);
    replay.slots[2].state = POLICY_HELD;
    assert_int_equal(victim(&replay, 1), 3);
    expert_policy_lru.use(&replay.table, 3);
    assert_int_equal(victim(&replay, 1), 4);
    /* nothing above quota can go: the layer's own oldest */
    replay.slots[3].state = replay.slots[4].state = POLICY_HELD;
    assert_int_equal(victim(&replay, 1), 0);
    replay.slots[0].state = POLICY_HELD;
    assert_int_equal(victim(&replay, 1), 1);
    /* layer 0 is above its quota and all its slots are held: it waits for them */
    assert_int_equal(victim(&replay, 0), POLICY_NONE);
    replay.slots[1].state = POLICY_HELD;
    assert_int_equal(victim(&replay, 1), POLICY_NONE);
}

/* Any slot, the oldest first, when no other rule finds one and there is nothing to wait for. */
static void test_last_resort(void **state)
{
    (void)state;
    struct replay replay;
    replay_init(&replay, 6, 3, 0);
    for (uint32_t i = 0; i < 6; i++) {
        fill(&replay, i, i / 2);
        replay.slots[i].state = i / 2 == 1 ? POLICY_READY : POLICY_HELD;
    }
    assert_int_equal(victim(&replay, 0), POLICY_NONE);
    assert_int_equal(expert_policy_lru.victim(&replay.table, 0, true), 2);
    replay.slots[2].state = POLICY_HELD;
    assert_int_equal(expert_policy_lru.victim(&replay.table, 0, true), 3);
    replay.slots[3].state = POLICY_HELD;
    assert_int_equal(expert_policy_lru.victim(&replay.table, 0, true), POLICY_NONE);
}

static uint32_t find_resident(const struct replay *replay, uint32_t layer, uint32_t expert)
{
    for (uint32_t i = 0; i < replay->table.n_slots; i++) {
        const struct policy_slot *slot = &replay->slots[i];
        if (slot->state != POLICY_IDLE && slot->layer == layer && replay->expert[i] == expert) {
            return i;
        }
    }
    return POLICY_NONE;
}

static void hold(struct replay *replay, uint32_t slot)
{
    expert_policy_lru.use(&replay->table, slot);
    replay->slots[slot].state = POLICY_HELD;
}

/* The experts that one token needs of a layer, as the executor asks: what is resident first, then the others, all
 * leases kept to the end. */
static void replay_access(struct replay *replay, uint32_t layer, const uint32_t *ids, size_t k)
{
    uint32_t leased[16];
    for (size_t i = 0; i < k; i++) {
        leased[i] = find_resident(replay, layer, ids[i]);
        if (leased[i] != POLICY_NONE) {
            replay->hits++;
            hold(replay, leased[i]);
        }
    }
    for (size_t i = 0; i < k; i++) {
        if (leased[i] != POLICY_NONE) {
            continue;
        }
        uint32_t slot = victim(replay, layer);
        assert_int_not_equal(slot, POLICY_NONE);
        assert_int_not_equal(replay->slots[slot].state, POLICY_HELD);
        replay->misses++;
        replay->expert[slot] = ids[i];
        policy_assign(&replay->table, slot, layer);
        hold(replay, slot);
        leased[i] = slot;
    }
    for (size_t i = 0; i < k; i++) {
        replay->slots[leased[i]].state = POLICY_READY;
    }
}

/* With the fewest slots there may be, every layer keeps one expert from token to token. One order over all layers
 * would keep none: 75 layers ask for 600 others in between. */
static void test_small_store_still_hits(void **state)
{
    (void)state;
    struct replay replay;
    replay_init(&replay, 75 + 8, 75, 8);
    static const uint32_t ids[8] = {3, 1, 4, 15, 9, 2, 6, 5};
    for (size_t token = 0; token < 5; token++) {
        for (uint32_t layer = 0; layer < 75; layer++) {
            replay_access(&replay, layer, ids, 8);
        }
    }
    assert_int_equal(replay.hits, 4 * 75);
    assert_int_equal(replay.misses, 5 * 75 * 8 - 4 * 75);
}

/* Random routes on any number of slots: a victim is always found for a token's experts, and counts stay right. */
static void test_random_routes(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (size_t n_slots = 4; n_slots <= 60; n_slots += 7) {
        struct replay replay;
        replay_init(&replay, n_slots, 6, 4);
        for (size_t step = 0; step < 600; step++) {
            uint32_t ids[4], first = reference_random(&seed) % EXPERTS;
            for (uint32_t i = 0; i < 4; i++) {
                ids[i] = (first + i * (1 + step % 5)) % EXPERTS;
            }
            replay_access(&replay, (uint32_t)step % 6, ids, 4);
        }
        size_t held = 0;
        for (size_t i = 0; i < 6; i++) {
            held += replay.held[i];
        }
        assert_int_equal(held, n_slots);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_first),    cmocka_unit_test(test_quota),
        cmocka_unit_test(test_bookkeeping),   cmocka_unit_test(test_order_of_victims),
        cmocka_unit_test(test_last_resort),   cmocka_unit_test(test_small_store_still_hits),
        cmocka_unit_test(test_random_routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
