/* Failing allocations and failing reads while a container is opened and described; a disk that is full. */
#include "tests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "support/fault_alloc.h"
#include "support/sample.h"

/* ---- Injection ------------------------------------------------------------------------------------- */

static uint64_t disk_left = UINT64_MAX;
static int failing_read = -1; /* number of the call that fails with EIO */

void fault_disk_size(uint64_t bytes)
{
    disk_left = bytes;
}

ssize_t __real_write(int fd, const void *src, size_t len);
ssize_t __wrap_write(int fd, const void *src, size_t len);
ssize_t __real_pread64(int fd, void *dst, size_t len, off64_t offset);
ssize_t __wrap_pread64(int fd, void *dst, size_t len, off64_t offset);

ssize_t __wrap_write(int fd, const void *src, size_t len)
{
    if (disk_left == UINT64_MAX || fd <= 2) {
        return __real_write(fd, src, len);
    }
    if (disk_left == 0) {
        errno = ENOSPC;
        return -1;
    }
    ssize_t n = __real_write(fd, src, len < disk_left ? len : (size_t)disk_left);
    disk_left -= n > 0 ? (uint64_t)n : 0;
    return n;
}

ssize_t __wrap_pread64(int fd, void *dst, size_t len, off64_t offset)
{
    if (failing_read >= 0 && failing_read-- == 0) {
        errno = EIO;
        return -1;
    }
    return __real_pread64(fd, dst, len, offset);
}

/* ---- Tests ----------------------------------------------------------------------------------------- */

static struct temp_dir dir;

static int set_up(void **state)
{
    (void)state;
    sample_make(&dir, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    failing_read = -1;
    fault_alloc_fail(-1);
    return temp_dir_remove(&dir);
}

/* Opens and describes; whatever came of it is released again. */
static sluice_status open_and_describe(sluice_error *err)
{
    struct container *container = NULL;
    char *text = NULL;
    sluice_status status = container_open(&container, dir.path, false, NULL, err);
    if (status == SLUICE_OK) {
        status = container_describe(container, NULL, &text, err);
    }
    assert_int_equal(text != NULL, status == SLUICE_OK);
    free(text);
    container_close(&container);
    return status;
}

static void test_no_memory(void **state)
{
    (void)state;
    sluice_error err = {0};
    int nth = 0;
    for (;; nth++) {
        fault_alloc_fail(nth);
        sluice_status status = open_and_describe(&err);
        fault_alloc_fail(-1);
        if (status == SLUICE_OK) {
            break;
        }
        assert_error(status, &err, SLUICE_NO_MEMORY, (const char *const[]){"memory", NULL});
    }
    assert_true(nth > 20);
}

static void test_reads_fail(void **state)
{
    (void)state;
    sluice_error err = {0};
    int nth = 0;
    for (;; nth++) {
        failing_read = nth;
        sluice_status status = open_and_describe(&err);
        failing_read = -1;
        if (status == SLUICE_OK) {
            break;
        }
        assert_error(status, &err, SLUICE_IO, (const char *const[]){dir.path, "Input/output error", NULL});
        nth += nth / 8; /* all of the first, then fewer */
    }
    assert_true(nth > 50);
}

static void test_synth_without_memory(void **state)
{
    (void)state;
    struct synth_geometry g = sample_geometry();
    sluice_error err = {0};
    int nth = 0;
    for (;; nth++) {
        const char *path = temp_dir_path(&dir, "new");
        fault_alloc_fail(nth);
        sluice_status status = container_synth(path, &g, NULL, &err);
        fault_alloc_fail(-1);
        if (status == SLUICE_OK) {
            break;
        }
        assert_error(status, &err, SLUICE_NO_MEMORY, (const char *const[]){"memory", NULL});
        assert_int_equal(access(path, F_OK), -1);
    }
    assert_true(nth > 10);
}

int run_fault_tests(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_no_memory), TEST(test_reads_fail), TEST(test_synth_without_memory)};
#undef TEST
    return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
