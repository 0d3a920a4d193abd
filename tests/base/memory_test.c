/* Checked allocation, arena, buffer; each with memory that runs out. */
#include "tests.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buffer.h"
#include "support/fault_alloc.h"

static bool is_zero(const void *memory, size_t len)
{
    const unsigned char *bytes = memory;
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

/* ---- Allocation ----------------------------------------------------------------------------------- */

static void sizes_are_checked(void **state)
{
    (void)state;
    size_t out = 5;
    assert_true(size_mul(3, 4, &out));
    assert_int_equal(out, 12);
    assert_true(size_mul(SIZE_MAX, 1, &out));
    assert_true(out == SIZE_MAX);
    assert_true(size_mul(SIZE_MAX, 0, &out));
    assert_int_equal(out, 0);
    out = 5;
    assert_false(size_mul(SIZE_MAX / 2 + 1, 2, &out));
    assert_false(size_mul((size_t)1 << 32, (size_t)1 << 32, &out));
    assert_int_equal(out, 5);
    assert_true(size_add(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);
    out = 5;
    assert_false(size_add(SIZE_MAX, 1, &out));
    assert_int_equal(out, 5);
}

static void zalloc_zeroes_and_checks(void **state)
{
    (void)state;
    unsigned char *memory = mem_zalloc(100, 3);
    assert_non_null(memory);
    assert_true(is_zero(memory, 300));
    free(memory);
    assert_null(mem_zalloc(SIZE_MAX / 2 + 1, 2));
    memory = mem_zalloc(0, 8); /* NULL would mean failure */
    assert_non_null(memory);
    free(memory);
    fault_alloc_fail(0);
    assert_null(mem_zalloc(1, 1));
}

static void aligned_alloc_aligns_and_checks(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 100001};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *memory = mem_alloc_aligned(sizes[i], 1);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 64, 0);
        memset(memory, 1, sizes[i]);
        free(memory);
    }
    assert_null(mem_alloc_aligned(SIZE_MAX / 2 + 1, 2));
    assert_null(mem_alloc_aligned(SIZE_MAX - 10, 1));
    fault_alloc_fail(0);
    assert_null(mem_alloc_aligned(1, 1));
}

/* ---- Arena ---------------------------------------------------------------------------------------- */

static void arena_items_are_zeroed_aligned_apart(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena);
    unsigned char *items[400];
    for (size_t i = 0; i < 400; i++) {
        items[i] = arena_alloc(&arena, i, 1);
        assert_non_null(items[i]);
        assert_int_equal((uintptr_t)items[i] % _Alignof(max_align_t), 0);
        assert_true(is_zero(items[i], i));
        memset(items[i], (int)(i % 251) + 1, i);
    }
    for (size_t i = 0; i < 400; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_int_equal(items[i][j], i % 251 + 1);
        }
    }
    assert_true(arena.used >= 400 * 399 / 2 && arena.used <= arena.reserved);
    arena_free(&arena);
    assert_int_equal(arena.used, 0);
    assert_int_equal(arena.reserved, 0);
    arena_free(&arena);
}

static void arena_large_item_leaves_the_block_in_use(void **state)
{
    (void)state;
    struct arena arena = {0};
    char *first = arena_alloc(&arena, 16, 1);
    unsigned char *large = arena_alloc(&arena, 3, (size_t)1 << 20);
    char *second = arena_alloc(&arena, 16, 1);
    assert_non_null(large);
    assert_true(is_zero(large, (size_t)3 << 20));
    assert_ptr_equal(second, first + 16);
    assert_true(arena.reserved < ((size_t)3 << 20) + 16384);
    arena_free(&arena);

    assert_non_null(arena_alloc(&arena, 1, 100000)); /* the first block may be a large one, too */
    arena_free(&arena);
}

static void arena_grows_in_few_blocks(void **state)
{
    (void)state;
    struct arena arena = {0};
    fault_alloc_fail(-1);
    for (size_t i = 0; i < 100000; i++) {
        assert_non_null(arena_alloc(&arena, 1, 100));
    }
    assert_true(fault_alloc_count() < 30);
    assert_true(arena.reserved < arena.used + ((size_t)2 << 20));
    arena_free(&arena);
}

static void arena_refuses(void **state)
{
    (void)state;
    struct arena arena = {0};
    assert_null(arena_alloc(&arena, SIZE_MAX / 2 + 1, 2));
    assert_null(arena_alloc(&arena, SIZE_MAX, 1));
    assert_null(arena_alloc(&arena, SIZE_MAX - 15, 1)); /* fits, but not with the block's head */
    assert_null(arena_strndup(&arena, "", SIZE_MAX));
    assert_int_equal(arena.reserved, 0);
    fault_alloc_fail(0);
    assert_null(arena_alloc(&arena, 1, 1));
    fault_alloc_fail(0);
    assert_null(arena_strndup(&arena, "abc", 3));
    assert_string_equal(arena_strndup(&arena, "abcdef", 3), "abc");
    assert_string_equal(arena_strndup(&arena, NULL, 0), "");
    arena_free(&arena);
}

/* ---- Buffer --------------------------------------------------------------------------------------- */

static void assert_buffer(const struct buffer *buffer, const char *text)
{
    assert_string_equal(buffer->data, text);
    assert_int_equal(buffer->len, strlen(text));
    assert_true(buffer->len <= buffer->cap && buffer->cap <= buffer->limit);
}

static void buffer_appends(void **state)
{
    (void)state;
    struct buffer buffer;
    buffer_init(&buffer, 1000);
    assert_null(buffer.data);
    assert_int_equal(buffer_append(&buffer, NULL, 0, NULL), SLUICE_OK);
    assert_buffer(&buffer, "");
    assert_int_equal(buffer_append(&buffer, "abc", 2, NULL), SLUICE_OK);
    assert_int_equal(buffer_append_str(&buffer, "cd", NULL), SLUICE_OK);
    assert_int_equal(buffer_printf(&buffer, NULL, "-%d%s", 42, "!"), SLUICE_OK);
    assert_int_equal(buffer_printf(&buffer, NULL, "%s", ""), SLUICE_OK);
    assert_buffer(&buffer, "abcd-42!");
    size_t cap = buffer.cap;
    buffer_clear(&buffer);
    assert_buffer(&buffer, "");
    assert_int_equal(buffer.cap, cap);
    buffer_free(&buffer);
    assert_null(buffer.data);
    assert_int_equal(buffer_append_str(&buffer, "again", NULL), SLUICE_OK);
    assert_buffer(&buffer, "again");
    buffer_free(&buffer);

    struct buffer zeroed = {0};
    buffer_clear(&zeroed);
    buffer_free(&zeroed);
}

static void buffer_stops_at_its_limit(void **state)
{
    (void)state;
    sluice_error err;
    struct buffer buffer;
    buffer_init(&buffer, 10);
    assert_int_equal(buffer_append_str(&buffer, "0123456789", &err), SLUICE_OK);
    assert_int_equal(buffer_append_str(&buffer, "x", &err), SLUICE_LIMIT);
    assert_string_equal(err.message, "1 bytes more than the 10 at hand would pass the limit of 10");
    assert_int_equal(buffer_printf(&buffer, &err, "%d", 1), SLUICE_LIMIT);
    assert_int_equal(buffer_reserve(&buffer, SIZE_MAX, &err), SLUICE_LIMIT);
    assert_int_equal(buffer_append(&buffer, NULL, 0, &err), SLUICE_OK);
    assert_buffer(&buffer, "0123456789");
    buffer_free(&buffer);

    struct buffer none = {0};
    assert_int_equal(buffer_append(&none, "x", 1, &err), SLUICE_LIMIT);
    assert_int_equal(buffer_append_str(&none, "", &err), SLUICE_OK);
    assert_string_equal(none.data, "");
    buffer_free(&none);
}

static void buffer_grows_in_few_steps(void **state)
{
    (void)state;
    struct buffer buffer;
    buffer_init(&buffer, 1000003);
    fault_alloc_fail(-1);
    for (size_t i = 0; i < 1000003; i++) {
        char byte = (char)('a' + i % 26);
        assert_int_equal(buffer_append(&buffer, &byte, 1, NULL), SLUICE_OK);
    }
    assert_true(fault_alloc_count() < 20);
    assert_int_equal(buffer.cap, 1000003);
    for (size_t i = 0; i < buffer.len; i++) {
        assert_int_equal(buffer.data[i], 'a' + i % 26);
    }
    assert_int_equal(buffer.data[buffer.len], 0);
    buffer_free(&buffer);
}

static void buffer_survives_failure(void **state)
{
    (void)state;
    sluice_error err;
    struct buffer buffer;
    buffer_init(&buffer, SIZE_MAX);
    fault_alloc_fail(0);
    assert_int_equal(buffer_append_str(&buffer, "x", &err), SLUICE_NO_MEMORY);
    assert_null(buffer.data);
    assert_int_equal(buffer_append_str(&buffer, "kept", &err), SLUICE_OK);
    fault_alloc_fail(0);
    assert_int_equal(buffer_printf(&buffer, &err, "%0200d", 1), SLUICE_NO_MEMORY);
    assert_string_equal(err.message, "out of memory for a buffer of 204 bytes");
    assert_buffer(&buffer, "kept");
    assert_int_equal(buffer_reserve(&buffer, SIZE_MAX - 4, &err), SLUICE_NO_MEMORY); /* no room for the zero */
    assert_buffer(&buffer, "kept");
    static const wchar_t wide[] = {0x4E2D, 0};
    assert_int_equal(buffer_printf(&buffer, &err, "%ls", wide), SLUICE_INVALID);
    assert_buffer(&buffer, "kept");
    buffer_free(&buffer);
}

static int faults_off(void **state)
{
    (void)state;
    fault_alloc_fail(-1);
    return 0;
}

int run_memory_tests(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test_teardown(zalloc_zeroes_and_checks, faults_off),
        cmocka_unit_test_teardown(aligned_alloc_aligns_and_checks, faults_off),
        cmocka_unit_test(arena_items_are_zeroed_aligned_apart),
        cmocka_unit_test(arena_large_item_leaves_the_block_in_use),
        cmocka_unit_test(arena_grows_in_few_blocks),
        cmocka_unit_test_teardown(arena_refuses, faults_off),
        cmocka_unit_test(buffer_appends),
        cmocka_unit_test(buffer_stops_at_its_limit),
        cmocka_unit_test(buffer_grows_in_few_steps),
        cmocka_unit_test_teardown(buffer_survives_failure, faults_off),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
