/* Slot layouts: where ranges are cut, where components land, how large a slot is, how ranges are read in parts.
 *
 * Each layout is also carried out by a reader of imaginary files, to see that every component arrives whole,
 * aligned, inside the slot and apart from the others, and that direct reads are aligned throughout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/reference.h"
#include "experts/layout.h"

#define SHARDS 4
#define GLM_HIDDEN 6144
#define GLM_MIDDLE 2048
#define GLM_SLOT 18939904u

static struct os_file shards[SHARDS];

static void set_shards(uint32_t block, uint64_t size)
{
    for (size_t i = 0; i < SHARDS; i++) {
        shards[i] = (struct os_file){.block = block, .size = size};
    }
}

static int setup(void **state)
{
    (void)state;
    set_shards(4096, (uint64_t)1 << 40);
    return 0;
}

static struct stored_matrix describe(enum quant_kind kind, uint32_t rows, uint32_t cols, uint32_t group)
{
    struct stored_matrix matrix = {.kind = kind, .rows = rows, .cols = cols, .group = group};
    matrix.weights.bytes = rows * quant_row_bytes(kind, cols);
    matrix.scales.bytes = rows * quant_row_scales(kind, cols, group) * sizeof(float);
    return matrix;
}

static struct stored_mlp describe_expert(enum quant_kind kind, uint32_t hidden, uint32_t middle, uint32_t group)
{
    return (struct stored_mlp){.gate = describe(kind, middle, hidden, group),
                               .up = describe(kind, middle, hidden, group),
                               .down = describe(kind, hidden, middle, group)};
}

static struct tensor_ref *tensor_of(struct stored_mlp *expert, int component)
{
    return (struct tensor_ref *)expert_component_tensor(expert, (enum expert_component)component);
}

/* Components [first, end) back to back from `offset` of a shard on. */
static void place(struct stored_mlp *expert, int first, int end, uint32_t shard, uint64_t offset)
{
    for (int i = first; i < end; i++) {
        struct tensor_ref *tensor = tensor_of(expert, i);
        tensor->shard = shard;
        tensor->offset = offset;
        offset += tensor->bytes;
    }
}

/* Which byte of its file each byte of the slot holds is known from the ranges: component bytes must be their own. */
static bool range_covers(const struct expert_range *range, const struct tensor_ref *tensor, size_t at)
{
    return range->shard == tensor->shard && range->at <= at && range->at + range->needed >= at + tensor->bytes &&
           range->offset + (at - range->at) == tensor->offset;
}

static void check_parts(const struct expert_range *range, bool direct)
{
    uint64_t offset = range->offset;
    size_t at = range->at, len = 0, needed = 0, n = expert_range_parts(range);
    for (size_t i = 0; i < n; i++) {
        struct expert_range part = expert_range_part(range, i);
        assert_int_equal(part.shard, range->shard);
        assert_int_equal(part.offset, offset + len);
        assert_int_equal(part.at, at + len);
        assert_true(part.needed > 0 && part.needed <= part.len);
        assert_true(part.len <= EXPERT_PART_BYTES + shards[range->shard].block + EXPERT_PAGE);
        if (direct) {
            uint32_t block = shards[range->shard].block;
            assert_int_equal(part.offset % block, 0);
            assert_int_equal(part.len % block, 0);
            assert_int_equal(part.at % block, 0);
        }
        len += part.len;
        needed += part.needed;
    }
    assert_int_equal(len, range->len);
    assert_int_equal(needed, range->needed);
}

/* Every rule that any layout must keep. */
static void check_layout(const struct stored_mlp *expert, const struct expert_layout *layout)
{
    assert_int_equal(layout->bytes % EXPERT_SLOT_ALIGN, 0);
    for (size_t i = 0; i < layout->n_ranges; i++) {
        const struct expert_range *range = &layout->ranges[i];
        uint32_t block = shards[range->shard].block;
        assert_true(range->at + range->len <= layout->bytes);
        assert_true(range->needed > 0 && range->needed <= range->len);
        assert_true(range->offset + range->needed <= shards[range->shard].size);
        assert_true(range->offset + range->len < shards[range->shard].size + block);
        for (size_t j = 0; j < i; j++) {
            const struct expert_range *other = &layout->ranges[j];
            assert_true(other->at + other->len <= range->at || range->at + range->len <= other->at);
        }
        check_parts(range, range->offset % block == 0 && range->at % block == 0 && range->len % block == 0);
    }
    for (int i = 0; i < EXPERT_COMPONENTS; i++) {
        const struct tensor_ref *tensor = expert_component_tensor(expert, (enum expert_component)i);
        bool covered = tensor->bytes == 0;
        for (size_t j = 0; j < layout->n_ranges; j++) {
            covered = covered || range_covers(&layout->ranges[j], tensor, layout->at[i]);
        }
        assert_true(covered);
        assert_int_equal(layout->at[i] % 4, 0);
    }
}

static struct expert_layout resolve(const struct stored_mlp *expert)
{
    struct expert_layout layout;
    expert_layout_resolve(expert, shards, &layout);
    check_layout(expert, &layout);
    return layout;
}

static void test_public_form(void **state)
{
    (void)state;
    struct stored_mlp expert = describe_expert(QUANT_INT4_ROW, GLM_HIDDEN, GLM_MIDDLE, 0);
    place(&expert, EXPERT_DOWN, EXPERT_DOWN_SCALES, 1, 5000000104);
    place(&expert, EXPERT_DOWN_SCALES, EXPERT_COMPONENTS, 1, 123456);
    struct expert_layout layout = resolve(&expert);
    assert_int_equal(layout.n_ranges, 2);
    assert_int_equal(layout.bytes, GLM_SLOT);
    assert_int_equal(layout.ranges[0].at, 0);
    assert_int_equal(layout.ranges[1].at, 18874368 + 16384);
    assert_int_equal(layout.bytes - layout.ranges[1].at, 49152);
    assert_int_equal(layout.at[EXPERT_DOWN], 5000000104 % 4096);
    assert_int_equal(layout.at[EXPERT_GATE], layout.at[EXPERT_DOWN] + 6291456);
    assert_int_equal(layout.at[EXPERT_UP], layout.at[EXPERT_GATE] + 6291456);
    assert_int_equal(layout.at[EXPERT_DOWN_SCALES], layout.ranges[1].at + 123456 % 4096);
    assert_int_equal(layout.at[EXPERT_GATE_SCALES], layout.at[EXPERT_DOWN_SCALES] + 24576);
    assert_int_equal(layout.at[EXPERT_UP_SCALES], layout.at[EXPERT_GATE_SCALES] + 8192);
    assert_int_equal(expert_range_parts(&layout.ranges[0]), 5);
    assert_int_equal(expert_range_parts(&layout.ranges[1]), 1);
}

/* Wherever an expert is cut over shards, its slot is not larger than the canonical one. */
static void test_every_cut_fits_the_canonical_slot(void **state)
{
    (void)state;
    for (int cuts = 0; cuts < 32; cuts++) {
        struct stored_mlp expert = describe_expert(QUANT_INT4_ROW, GLM_HIDDEN, GLM_MIDDLE, 0);
        uint64_t offset = 4092 * 4;
        uint32_t shard = 0;
        size_t n = 1;
        for (int i = 0; i < EXPERT_COMPONENTS; i++) {
            if (i > 0 && (cuts >> (i - 1) & 1) != 0) {
                shard = (shard + 1) % SHARDS;
                offset += 4000;
                n++;
            }
            place(&expert, i, i + 1, shard, offset);
            offset += tensor_of(&expert, i)->bytes;
        }
        struct expert_layout layout = resolve(&expert);
        assert_int_equal(layout.n_ranges, n);
        assert_true(layout.bytes <= GLM_SLOT);
    }
}

static void test_everything_back_to_back(void **state)
{
    (void)state;
    struct stored_mlp expert = describe_expert(QUANT_INT8_ROW, 64, 48, 0);
    place(&expert, 0, EXPERT_COMPONENTS, 2, 8);
    struct expert_layout layout = resolve(&expert);
    assert_int_equal(layout.n_ranges, 1);
    assert_int_equal(layout.ranges[0].offset, 0);
    assert_int_equal(layout.ranges[0].len, 12288);
    assert_int_equal(layout.ranges[0].needed, 8 + 3 * 64 * 48 + 4 * (64 + 48 + 48));
    assert_int_equal(layout.at[EXPERT_DOWN], 8);
}

static void test_order_in_file_is_not_canonical(void **state)
{
    (void)state;
    struct stored_mlp expert = describe_expert(QUANT_INT8_ROW, 64, 48, 0);
    place(&expert, EXPERT_UP, EXPERT_UP + 1, 0, 4096);
    place(&expert, EXPERT_GATE, EXPERT_GATE + 1, 0, 4096 + 3072);
    place(&expert, EXPERT_DOWN, EXPERT_DOWN + 1, 0, 4096 + 6144);
    place(&expert, EXPERT_DOWN_SCALES, EXPERT_COMPONENTS, 0, 0);
    assert_int_equal(resolve(&expert).n_ranges, 4);
}

/* A range at an odd offset cannot be read by blocks; it is read as it is, into an aligned place. */
static void test_unaligned_offsets(void **state)
{
    (void)state;
    for (uint64_t skew = 1; skew < 4; skew++) {
        struct stored_mlp expert = describe_expert(QUANT_INT4_ROW, 64, 48, 0);
        place(&expert, EXPERT_DOWN, EXPERT_DOWN_SCALES, 0, 9000 + skew);
        place(&expert, EXPERT_DOWN_SCALES, EXPERT_COMPONENTS, 0, 400);
        struct expert_layout layout = resolve(&expert);
        assert_int_equal(layout.n_ranges, 2);
        assert_int_equal(layout.ranges[0].offset, 9000 + skew);
        assert_int_equal(layout.ranges[0].len, 3 * 64 * 48 / 2);
        assert_int_equal(layout.at[EXPERT_DOWN], 0);
        assert_int_equal(layout.ranges[1].offset, 0);
    }
}

/* Components at different remainders cannot share a range even if they follow one another: here the sizes are odd. */
static void test_uneven_sizes(void **state)
{
    (void)state;
    struct stored_mlp expert = describe_expert(QUANT_INT8_ROW, 7, 5, 0);
    place(&expert, EXPERT_DOWN, EXPERT_DOWN_SCALES, 0, 4100);
    place(&expert, EXPERT_DOWN_SCALES, EXPERT_COMPONENTS, 1, 4096);
    struct expert_layout layout = resolve(&expert);
    assert_int_equal(layout.n_ranges, 4);
    assert_int_equal(layout.at[EXPERT_DOWN] % 4096, 4);
    assert_int_equal(layout.ranges[1].offset, 4100 + 35);
}

static void test_grouped_and_plain(void **state)
{
    (void)state;
    struct stored_mlp expert = describe_expert(QUANT_INT4_GROUP, 640, 256, 32);
    place(&expert, EXPERT_DOWN, EXPERT_DOWN_SCALES, 0, 1000);
    place(&expert, EXPERT_DOWN_SCALES, EXPERT_COMPONENTS, 3, 2000);
    struct expert_layout layout = resolve(&expert);
    assert_int_equal(layout.n_ranges, 2);
    assert_int_equal(layout.at[EXPERT_GATE_SCALES] - layout.at[EXPERT_DOWN_SCALES], 640 * 8 * 4);

    expert = describe_expert(QUANT_F32, 64, 48, 0);
    place(&expert, EXPERT_DOWN, EXPERT_DOWN_SCALES, 0, 1000);
    layout = resolve(&expert);
    assert_int_equal(layout.n_ranges, 1);
    struct expert_weights view;
    char *slot = aligned_alloc(EXPERT_SLOT_ALIGN, layout.bytes);
    expert_layout_view(&expert, &layout, slot, &view);
    assert_null(view.down.scales);
    assert_ptr_equal(view.gate.weights, slot + 1000 + 64 * 48 * 4);
    assert_int_equal(view.up.rows, 48);
    free(slot);
}

/* The last block of a file is read only as far as there are blocks; other block sizes than a page are kept to. */
static void test_end_of_file_and_blocks(void **state)
{
    (void)state;
    static const uint32_t blocks[] = {512, 4096, 16384, 65536};
    for (size_t i = 0; i < 4; i++) {
        struct stored_mlp expert = describe_expert(QUANT_INT4_ROW, GLM_HIDDEN, GLM_MIDDLE, 0);
        uint64_t weights = 70000 * 4, end = weights + 18874368;
        set_shards(blocks[i], end);
        place(&expert, EXPERT_DOWN, EXPERT_DOWN_SCALES, 0, weights);
        place(&expert, EXPERT_DOWN_SCALES, EXPERT_COMPONENTS, 0, 640);
        struct expert_layout layout = resolve(&expert);
        const struct expert_range *range = &layout.ranges[0];
        assert_int_equal(range->offset + range->len, (end + blocks[i] - 1) / blocks[i] * blocks[i]);
        assert_int_equal(range->at % blocks[i], 0);
    }
}

/* Many random placements, all rules checked. */
static void test_random_placements(void **state)
{
    (void)state;
    uint64_t seed = 3;
    static const enum quant_kind kinds[] = {QUANT_F32, QUANT_INT8_ROW, QUANT_INT4_ROW, QUANT_INT4_GROUP};
    for (int round = 0; round < 2000; round++) {
        uint32_t hidden = 8 + reference_random(&seed) % 400 * 8, middle = 8 + reference_random(&seed) % 200 * 8;
        enum quant_kind kind = kinds[reference_random(&seed) % 4];
        struct stored_mlp expert = describe_expert(kind, hidden, middle, kind == QUANT_INT4_GROUP ? 16 : 0);
        uint64_t offset = reference_random(&seed) % 10000;
        uint32_t shard = reference_random(&seed) % SHARDS;
        for (int i = 0; i < EXPERT_COMPONENTS; i++) {
            if (reference_random(&seed) % 3 == 0) {
                shard = reference_random(&seed) % SHARDS;
                offset += reference_random(&seed) % 10000;
            }
            place(&expert, i, i + 1, shard, offset);
            offset += tensor_of(&expert, i)->bytes;
        }
        set_shards(512u << reference_random(&seed) % 5, offset + reference_random(&seed) % 3);
        resolve(&expert);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_public_form, setup),
        cmocka_unit_test_setup(test_every_cut_fits_the_canonical_slot, setup),
        cmocka_unit_test_setup(test_everything_back_to_back, setup),
        cmocka_unit_test_setup(test_order_in_file_is_not_canonical, setup),
        cmocka_unit_test_setup(test_unaligned_offsets, setup),
        cmocka_unit_test_setup(test_uneven_sizes, setup),
        cmocka_unit_test_setup(test_grouped_and_plain, setup),
        cmocka_unit_test_setup(test_end_of_file_and_blocks, setup),
        cmocka_unit_test_setup(test_random_placements, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
