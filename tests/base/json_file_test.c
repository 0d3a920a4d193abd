/* JSON files: what cannot be read, what is too large, reads that fail midway. */
#include "tests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "support/fault_alloc.h"
#include "support/temp_dir.h"

static struct temp_dir dir;

/* ---- Injection: what the next calls of read do ---------------------------------------------------- */

static int interrupts;         /* calls that fail with EINTR first */
static int failing_read = -1;  /* number of the call that fails with EIO */
static size_t most = SIZE_MAX; /* bytes a call at most */

ssize_t __real_read(int fd, void *dst, size_t len);
ssize_t __wrap_read(int fd, void *dst, size_t len);

ssize_t __wrap_read(int fd, void *dst, size_t len)
{
    if (interrupts > 0) {
        interrupts--;
        errno = EINTR;
        return -1;
    }
    if (failing_read >= 0 && failing_read-- == 0) {
        errno = EIO;
        return -1;
    }
    return __real_read(fd, dst, len < most ? len : most);
}

static int set_up(void **state)
{
    (void)state;
    return temp_dir_make(&dir);
}

static int tear_down(void **state)
{
    (void)state;
    interrupts = 0;
    failing_read = -1;
    most = SIZE_MAX;
    fault_alloc_fail(-1);
    return temp_dir_remove(&dir);
}

/* ---- Tests ---------------------------------------------------------------------------------------- */

static void assert_refused(const char *path, size_t limit, sluice_status status, int os_errno, const char *reason)
{
    json_t *root = NULL;
    sluice_error err = {0};
    assert_int_equal(json_parse_file(path, limit, &root, &err), status);
    assert_null(root);
    assert_int_equal(err.os_errno, os_errno);
    size_t len = strlen(path);
    assert_memory_equal(err.message, path, len);
    assert_string_equal(err.message + len, reason);
}

static void file_is_parsed(void **state)
{
    (void)state;
    const char *path = temp_dir_write(&dir, "a.json", "{\"a\": 12}", 9);
    json_t *root = NULL;
    int64_t value = 0;
    assert_int_equal(json_parse_file(path, 9, &root, NULL), SLUICE_OK); /* exactly the limit */
    assert_int_equal(json_get_int(root, "a.json", "a", 0, 99, &value, NULL), SLUICE_OK);
    assert_int_equal(value, 12);
    json_decref(root);

    interrupts = 3;
    most = 1;
    assert_int_equal(json_parse_file(path, SIZE_MAX, &root, NULL), SLUICE_OK);
    json_decref(root);
}

static void file_cannot_be_opened(void **state)
{
    (void)state;
    const char *fifo = temp_dir_path(&dir, "fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_refused(temp_dir_path(&dir, "none"), 100, SLUICE_IO, ENOENT, ": cannot open: No such file or directory");
    assert_refused(dir.path, 100, SLUICE_IO, 0, ": is a directory, not a file");
    assert_refused(fifo, 100, SLUICE_IO, 0, ": not a regular file");
    assert_refused("/dev/null", 100, SLUICE_IO, 0, ": not a regular file");
    assert_refused("", 100, SLUICE_IO, ENOENT, ": cannot open: No such file or directory");
    const char *locked = temp_dir_write(&dir, "locked", "{}", 2);
    assert_int_equal(chmod(locked, 0), 0);
    if (access(locked, R_OK) != 0) { /* root may read it all the same */
        assert_refused(locked, 100, SLUICE_IO, EACCES, ": cannot open: Permission denied");
    }
}

static void file_is_too_large(void **state)
{
    (void)state;
    const char *path = temp_dir_write(&dir, "a.json", "{\"a\": 12}", 9);
    assert_refused(path, 8, SLUICE_FORMAT, 0, ": larger than the 8 bytes allowed for it");
    assert_refused(path, 0, SLUICE_FORMAT, 0, ": larger than the 0 bytes allowed for it");
    /* a file whose size shows only while it is read */
    assert_refused("/proc/self/status", 20, SLUICE_FORMAT, 0, ": larger than the 20 bytes allowed for it");
    const char *sparse = temp_dir_write(&dir, "sparse", "{", 1);
    assert_int_equal(truncate(sparse, (off_t)1 << 40), 0);
    assert_refused(sparse, (size_t)1 << 30, SLUICE_FORMAT, 0, ": larger than the 1073741824 bytes allowed for it");
}

static void file_fails_midway(void **state)
{
    (void)state;
    const char *path = temp_dir_write(&dir, "a.json", "{\"a\": 12}", 9);
    most = 4;
    failing_read = 1;
    assert_refused(path, 100, SLUICE_IO, EIO, ": cannot read at offset 4: Input/output error");
    fault_alloc_fail(0);
    assert_refused(path, 100, SLUICE_NO_MEMORY, 0, ": out of memory for its 9 bytes");
}

static void file_is_malformed(void **state)
{
    (void)state;
    static char deep[100000];
    const char *empty = temp_dir_write(&dir, "empty", "", 0);
    assert_refused(empty, 100, SLUICE_FORMAT, 0,
                   ": line 1, column 0: not valid JSON: '[' or '{' expected near end of file");
    memset(deep, '[', sizeof(deep));
    const char *path = temp_dir_write(&dir, "deep", deep, sizeof(deep));
    assert_refused(path, sizeof(deep), SLUICE_FORMAT, 0, ": line 1, column 2049: JSON nested too deeply");
}

int run_json_file_tests(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(file_is_parsed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(file_cannot_be_opened, set_up, tear_down),
        cmocka_unit_test_setup_teardown(file_is_too_large, set_up, tear_down),
        cmocka_unit_test_setup_teardown(file_fails_midway, set_up, tear_down),
        cmocka_unit_test_setup_teardown(file_is_malformed, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("json files", tests, NULL, NULL);
}
