/* Opening and reading files. */
#include "tests.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faults.h"
#include "os/file.h"
#include "support/fault_alloc.h"
#include "support/temp_dir.h"

enum { SIZE = 100003 };

static struct temp_dir dir;
static unsigned char content[SIZE];
static const char *path;

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZE; i++) {
        content[i] = (unsigned char)(i * 7 + i / 256);
    }
    if (temp_dir_make(&dir) != 0) {
        return -1;
    }
    path = temp_dir_write(&dir, "data", content, SIZE);
    return 0;
}

static int tear_down(void **state)
{
    fault_reset(state);
    return temp_dir_remove(&dir);
}

/* ---- Opening -------------------------------------------------------------------------------------- */

static void file_opens_and_closes(void **state)
{
    (void)state;
    struct os_file file;
    assert_int_equal(os_file_open(&file, path, false, NULL), SLUICE_OK);
    assert_true(file.fd >= 0);
    assert_int_equal(file.fd_direct, -1);
    assert_int_equal(file.block, 4096);
    assert_int_equal(file.size, SIZE);
    assert_string_equal(file.path, path);
    assert_int_equal(fcntl(file.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    int fd = file.fd;
    os_file_close(&file);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(file.fd, -1);
    assert_null(file.path);
    os_file_close(&file);
}

static void assert_refused(const char *name, sluice_status status, int os_errno, const char *reason)
{
    struct os_file file = {.fd = 12345};
    sluice_error err = {0};
    assert_int_equal(os_file_open(&file, name, true, &err), status);
    assert_int_equal(file.fd, 12345);
    assert_int_equal(err.os_errno, os_errno);
    size_t len = strlen(name);
    assert_memory_equal(err.message, name, len);
    assert_string_equal(err.message + len, reason);
}

static void file_cannot_be_opened(void **state)
{
    (void)state;
    const char *fifo = temp_dir_path(&dir, "fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_refused(temp_dir_path(&dir, "none"), SLUICE_IO, ENOENT, ": cannot open: No such file or directory");
    assert_refused(temp_dir_path(&dir, "data/x"), SLUICE_IO, ENOTDIR, ": cannot open: Not a directory");
    assert_refused(dir.path, SLUICE_IO, 0, ": is a directory, not a file");
    assert_refused(fifo, SLUICE_IO, 0, ": not a regular file");
    assert_refused("/dev/null", SLUICE_IO, 0, ": not a regular file");
    assert_refused("", SLUICE_IO, ENOENT, ": cannot open: No such file or directory");
    fault_alloc_fail(0);
    assert_refused(path, SLUICE_NO_MEMORY, 0, ": out of memory for its path");
    assert_int_equal(chmod(path, 0), 0);
    if (access(path, R_OK) != 0) { /* root may read it all the same */
        assert_refused(path, SLUICE_IO, EACCES, ": cannot open: Permission denied");
    }
}

/* ---- Direct reads --------------------------------------------------------------------------------- */

static void direct_reads_where_granted(void **state)
{
    (void)state;
    struct os_file file;
    assert_int_equal(os_file_open(&file, path, true, NULL), SLUICE_OK);
    assert_true(file.block > 0 && (file.block & (file.block - 1)) == 0);
    if (file.fd_direct >= 0) {
        void *memory;
        assert_int_equal(fcntl(file.fd_direct, F_GETFL) & O_DIRECT, O_DIRECT);
        assert_int_equal(posix_memalign(&memory, 65536, 65536), 0);
        assert_int_equal(pread(file.fd_direct, memory, 65536, file.block), 65536);
        assert_memory_equal(memory, content + file.block, 65536);
        free(memory);
    }
    os_file_close(&file);

    path = temp_dir_write(&dir, "empty", "", 0);
    assert_int_equal(os_file_open(&file, path, true, NULL), SLUICE_OK);
    assert_int_equal(file.size, 0);
    os_file_close(&file);
}

static ssize_t pread_refused(int fd, void *dst, size_t len, off_t offset)
{
    (void)fd, (void)dst, (void)len, (void)offset;
    errno = EINVAL;
    return -1;
}

static ssize_t pread_of_half(int fd, void *dst, size_t len, off_t offset)
{
    return fault_real_pread(fd, dst, len / 2, offset);
}

/* O_DIRECT that opens but does not read well must not count. */
static void direct_reads_are_tried(void **state)
{
    (void)state;
    static fault_pread *const bad[] = {pread_refused, pread_of_half};
    struct os_file file;
    for (size_t i = 0; i < 2; i++) {
        fault_set_pread(bad[i]);
        assert_int_equal(os_file_open(&file, path, true, NULL), SLUICE_OK);
        assert_int_equal(file.fd_direct, -1);
        assert_int_equal(file.block, 4096);
        os_file_close(&file);
    }
    fault_set_pread(fault_real_pread);
    fault_alloc_fail(1); /* the memory of the trial */
    assert_int_equal(os_file_open(&file, path, true, NULL), SLUICE_OK);
    assert_int_equal(file.fd_direct, -1);
    os_file_close(&file);
}

/* ---- Exact reads ---------------------------------------------------------------------------------- */

static int calls;

/* At most 10 bytes a call; each second call is interrupted, or finds the file busy. */
static ssize_t pread_in_crumbs(int fd, void *dst, size_t len, off_t offset)
{
    if (calls++ % 2 == 0) {
        errno = calls % 4 == 1 ? EINTR : EAGAIN;
        return -1;
    }
    return fault_real_pread(fd, dst, len < 10 ? len : 10, offset);
}

static ssize_t pread_failing_at_64k(int fd, void *dst, size_t len, off_t offset)
{
    if (offset >= 65536) {
        errno = EIO;
        return -1;
    }
    return fault_real_pread(fd, dst, len < (size_t)(65536 - offset) ? len : (size_t)(65536 - offset), offset);
}

static ssize_t pread_busy(int fd, void *dst, size_t len, off_t offset)
{
    (void)fd, (void)dst, (void)len, (void)offset;
    errno = EAGAIN;
    return -1;
}

static void read_at_is_exact(void **state)
{
    (void)state;
    static unsigned char got[SIZE + 1];
    struct os_file file;
    assert_int_equal(os_file_open(&file, path, false, NULL), SLUICE_OK);
    assert_int_equal(os_file_read_at(&file, got, SIZE, 0, NULL), SLUICE_OK);
    assert_memory_equal(got, content, SIZE);
    memset(got, 0xEE, sizeof(got));
    assert_int_equal(os_file_read_at(&file, got, 5, SIZE - 5, NULL), SLUICE_OK);
    assert_memory_equal(got, content + SIZE - 5, 5);
    assert_int_equal(got[5], 0xEE);
    assert_int_equal(os_file_read_at(&file, got, 0, SIZE, NULL), SLUICE_OK);

    fault_set_pread(pread_in_crumbs);
    assert_int_equal(os_file_read_at(&file, got, 999, 1234, NULL), SLUICE_OK);
    assert_memory_equal(got, content + 1234, 999);
    os_file_close(&file);
}

static void read_at_fails_with_path_and_offset(void **state)
{
    (void)state;
    static unsigned char got[SIZE + 1];
    struct os_file file;
    sluice_error err;
    assert_int_equal(os_file_open(&file, path, false, NULL), SLUICE_OK);
    size_t len = strlen(path);
    assert_int_equal(os_file_read_at(&file, got, 6, SIZE - 5, &err), SLUICE_IO);
    assert_memory_equal(err.message, path, len);
    assert_string_equal(err.message + len,
                        ": is shorter than expected: ends at 100003, 6 bytes are needed at offset 99998");
    assert_int_equal(os_file_read_at(&file, got, 1, UINT64_MAX, &err), SLUICE_IO);
    assert_string_equal(err.message + len, ": is shorter than the 1 bytes at offset 18446744073709551615 need");
    assert_int_equal(os_file_read_at(&file, got, 2, INT64_MAX - 1, &err), SLUICE_IO);
    assert_int_equal(os_file_read_at(&file, got, SIZE_MAX, 5, &err), SLUICE_IO);

    fault_set_pread(pread_failing_at_64k);
    assert_int_equal(os_file_read_at(&file, got, SIZE, 0, &err), SLUICE_IO);
    assert_int_equal(err.os_errno, EIO);
    assert_string_equal(err.message + len, ": cannot read 100003 bytes at offset 0: Input/output error");

    fault_set_pread(pread_busy);
    assert_int_equal(os_file_read_at(&file, got, SIZE, 0, &err), SLUICE_IO);
    assert_int_equal(err.os_errno, EAGAIN);
    os_file_close(&file);
}

static void read_at_of_a_file_that_shrank(void **state)
{
    (void)state;
    static unsigned char got[SIZE];
    struct os_file file;
    sluice_error err;
    assert_int_equal(os_file_open(&file, path, false, NULL), SLUICE_OK);
    assert_int_equal(truncate(path, 1000), 0);
    assert_int_equal(os_file_read_at(&file, got, 1000, 0, &err), SLUICE_OK);
    assert_int_equal(os_file_read_at(&file, got, 5000, 500, &err), SLUICE_IO);
    assert_non_null(
        strstr(err.message, ": is shorter than expected: ends at 1000, 5000 bytes are needed at offset 500"));
    assert_int_equal(os_file_read_at(&file, got, 10, 5000, &err), SLUICE_IO);
    os_file_close(&file);
}

int run_file_tests(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(file_opens_and_closes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(file_cannot_be_opened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(direct_reads_where_granted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(direct_reads_are_tried, set_up, tear_down),
        cmocka_unit_test_setup_teardown(read_at_is_exact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(read_at_fails_with_path_and_offset, set_up, tear_down),
        cmocka_unit_test_setup_teardown(read_at_of_a_file_that_shrank, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
