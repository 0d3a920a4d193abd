/* Selection by exact rank (select.h).
 *
 * Positions: n runs to the length of a context and k to thousands, so the k-th highest score is found by radix
 * selection over order-preserving integer keys, three counting passes, and one more pass in ascending order
 * takes what lies above it and as many equals as are still missing: the lower positions, and sorted at no cost.
 * Experts: n is hundreds and k about eight, so a short insertion list does, and it has the rank order. */
#include "model/select.h"

#include <string.h>

#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)

/* Unsigned integers in the order of the floats; adding +0 makes -0 the key of +0. */
static uint32_t order_key(float score)
{
    float value = score + 0.0f;
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* Counts, by their digit at `shift`, the keys whose bits above that digit equal those of `known`. */
static void count_digits(const float *scores, size_t n, unsigned shift, uint32_t known, size_t counts[DIGITS])
{
    memset(counts, 0, DIGITS * sizeof(counts[0]));
    for (size_t i = 0; i < n; i++) {
        uint32_t digit = (order_key(scores[i]) ^ known) >> shift; /* known is zero there */
        if (digit < DIGITS) {
            counts[digit]++;
        }
    }
}

/* The key of the k-th highest score; *equals: how many scores of that key belong to the k. */
static uint32_t kth_key(const float *scores, size_t n, size_t k, size_t *equals)
{
    size_t counts[DIGITS];
    uint32_t known = 0;
    size_t missing = k;
    for (int shift = 3 * DIGIT_BITS; shift > 0;) {
        shift -= DIGIT_BITS;
        count_digits(scores, n, (unsigned)shift, known, counts);
        uint32_t digit = DIGITS - 1;
        while (counts[digit] < missing) {
            missing -= counts[digit--];
        }
        known |= digit << shift;
    }
    *equals = missing;
    return known;
}

void select_positions(const float *scores, size_t n, size_t k, uint32_t *positions)
{
    if (k == 0) {
        return;
    }
    size_t equals;
    uint32_t threshold = kth_key(scores, n, k, &equals);
    size_t taken = 0;
    for (size_t i = 0; taken < k; i++) {
        uint32_t key = order_key(scores[i]);
        if (key > threshold) {
            positions[taken++] = (uint32_t)i;
        } else if (key == threshold && equals > 0) {
            positions[taken++] = (uint32_t)i;
            equals--;
        }
    }
}

void select_ranked(const float *scores, const float *bias, size_t n, size_t k, uint32_t *ids)
{
    size_t len = 0;
    for (uint32_t i = 0; i < n; i++) {
        float sum = scores[i] + bias[i];
        size_t rank = len;
        while (rank > 0 && sum > scores[ids[rank - 1]] + bias[ids[rank - 1]]) {
            rank--;
        }
        if (rank == k) {
            continue;
        }
        size_t last = len < k ? len++ : k - 1;
        memmove(ids + rank + 1, ids + rank, (last - rank) * sizeof(*ids));
        ids[rank] = i;
    }
}
