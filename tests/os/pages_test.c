/* Large memory: alignment, exactness, failure. */
#include "tests.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "faults.h"
#include "os/memory.h"
#include "os/pages.h"

#define MIB ((size_t)1 << 20)

static void pages_are_aligned_and_zero(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 4095, 4096, 16384, 100000, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 5 * MIB + 12345};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct os_pages pages;
        size_t align = sizes[i] >= 2 * MIB ? 2 * MIB : 16384;
        assert_int_equal(os_pages_alloc(&pages, sizes[i], NULL), SLUICE_OK);
        assert_int_equal((uintptr_t)pages.data % align, 0);
        assert_int_equal(pages.size, sizes[i]);
        assert_ptr_equal(pages.map, pages.data);
        assert_true(pages.map_size >= sizes[i] && pages.map_size < sizes[i] + page);
        unsigned char *bytes = pages.data;
        for (size_t j = 0; j < sizes[i]; j += 1000) {
            assert_int_equal(bytes[j], 0);
        }
        memset(bytes, 0xA5, sizes[i]);
        os_pages_free(&pages);
        assert_null(pages.data);
        assert_int_equal(pages.size, 0);
        os_pages_free(&pages);
    }
}

static void pages_of_nothing(void **state)
{
    (void)state;
    struct os_pages pages = {.data = &pages, .size = 7};
    assert_int_equal(os_pages_alloc(&pages, 0, NULL), SLUICE_OK);
    assert_null(pages.data);
    assert_int_equal(pages.size, 0);
    os_pages_free(&pages);
}

static void pages_refuse(void **state)
{
    (void)state;
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 2};
    sluice_error err;
    struct os_pages pages = {.size = 7};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_int_equal(os_pages_alloc(&pages, sizes[i], &err), SLUICE_NO_MEMORY);
    }
    fault_fail(FAULT_MMAP, 0, ENOMEM);
    assert_int_equal(os_pages_alloc(&pages, 12345, &err), SLUICE_NO_MEMORY);
    assert_int_equal(err.os_errno, ENOMEM);
    assert_string_equal(err.message, "cannot map 12345 bytes: Cannot allocate memory");
    assert_int_equal(pages.size, 7);
}

/* Huge pages must not reach past the end: 16 MiB and a page, of which the last 2 MiB page would be all rounding. */
static void pages_resident_memory_is_exact(void **state)
{
    (void)state;
#ifdef SLUICE_SANITIZED
    skip(); /* sanitizers keep memory of their own for what is touched */
#endif
    struct os_pages pages;
    size_t size = 16 * MIB + 4096;
    assert_int_equal(os_pages_alloc(&pages, size, NULL), SLUICE_OK);
    uint64_t before = memory_rss_bytes();
    memset(pages.data, 1, size);
    uint64_t after = memory_rss_bytes();
    os_pages_free(&pages);
    assert_true(after > before);
    assert_true(after - before < size + MIB);
    assert_true(after - before > size - MIB);
    assert_true(memory_rss_bytes() < after - 15 * MIB);
    assert_true(memory_peak_rss_bytes() >= after - MIB);
}

int run_pages_tests(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_aligned_and_zero),
        cmocka_unit_test(pages_of_nothing),
        cmocka_unit_test_teardown(pages_refuse, fault_reset),
        cmocka_unit_test(pages_resident_memory_is_exact),
    };
    return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
