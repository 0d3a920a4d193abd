/* Atomic replacement of a file: the old content or the new, nothing between, nothing left over. */
#include "tests.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faults.h"
#include "os/file.h"
#include "support/fault_alloc.h"
#include "support/temp_dir.h"

static struct temp_dir dir;

static int set_up(void **state)
{
    (void)state;
    return temp_dir_make(&dir);
}

static int tear_down(void **state)
{
    fault_reset(state);
    return temp_dir_remove(&dir);
}

static void assert_content(const char *path, const void *expected, size_t len)
{
    static char got[300000];
    struct os_file file;
    assert_int_equal(os_file_open(&file, path, false, NULL), SLUICE_OK);
    assert_int_equal(file.size, len);
    assert_int_equal(os_file_read_at(&file, got, len, 0, NULL), SLUICE_OK);
    assert_memory_equal(got, expected, len);
    os_file_close(&file);
}

static unsigned files_in_dir(void)
{
    unsigned n = 0;
    DIR *listing = opendir(dir.path);
    assert_non_null(listing);
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        n += entry->d_name[0] != '.';
    }
    closedir(listing);
    return n;
}

static void replace_makes_and_replaces(void **state)
{
    (void)state;
    static char big[200000];
    memset(big, 'b', sizeof(big));
    const char *path = temp_dir_path(&dir, "a");
    mode_t before = umask(027);
    assert_int_equal(os_file_replace(path, "one", 3, NULL), SLUICE_OK);
    umask(before);
    assert_content(path, "one", 3);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640); /* as any new file */

    fault_write_most(777);
    assert_int_equal(os_file_replace(path, big, sizeof(big), NULL), SLUICE_OK);
    assert_content(path, big, sizeof(big));
    fault_fail(FAULT_WRITE, 0, EINTR);
    assert_int_equal(os_file_replace(path, "two", 3, NULL), SLUICE_OK);
    assert_content(path, "two", 3);
    assert_int_equal(os_file_replace(path, NULL, 0, NULL), SLUICE_OK);
    assert_content(path, "", 0);
    assert_int_equal(files_in_dir(), 1);
}

static void replace_works_on_a_bare_name(void **state)
{
    (void)state;
    char before[4096];
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(dir.path), 0);
    sluice_status status = os_file_replace("bare", "x", 1, NULL);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(status, SLUICE_OK);
    assert_content(temp_dir_path(&dir, "bare"), "x", 1);
}

static void replace_failing_leaves_the_old_file(void **state)
{
    (void)state;
    static const struct {
        enum fault_call call;
        int nth, os_errno;
        const char *reason;
    } cases[] = {
        {FAULT_WRITE, 0, ENOSPC, ": cannot be written: No space left on device"},
        {FAULT_WRITE, 2, EIO, ": cannot be written: Input/output error"},
        {FAULT_FSYNC, 0, EIO, ": cannot be written: Input/output error"},
        {FAULT_RENAME, 0, EACCES, ": cannot be written: Permission denied"},
    };
    const char *path = temp_dir_write(&dir, "a", "old", 3);
    fault_write_most(10);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sluice_error err;
        fault_fail(cases[i].call, cases[i].nth, cases[i].os_errno);
        assert_int_equal(os_file_replace(path, "a new content in several parts", 30, &err), SLUICE_IO);
        assert_int_equal(err.os_errno, cases[i].os_errno);
        assert_memory_equal(err.message, path, strlen(path));
        assert_string_equal(err.message + strlen(path), cases[i].reason);
        assert_content(path, "old", 3);
        assert_int_equal(files_in_dir(), 1);
    }
    fault_alloc_fail(0);
    assert_int_equal(os_file_replace(path, "new", 3, NULL), SLUICE_NO_MEMORY);
    assert_content(path, "old", 3);
}

static void replace_reports_an_unsynced_directory(void **state)
{
    (void)state;
    const char *path = temp_dir_write(&dir, "a", "old", 3);
    sluice_error err;
    fault_fail(FAULT_FSYNC, 1, EIO);
    assert_int_equal(os_file_replace(path, "new", 3, &err), SLUICE_IO);
    assert_content(path, "new", 3);
    fault_fail(FAULT_FSYNC, 1, EINVAL); /* a file system that cannot sync directories */
    assert_int_equal(os_file_replace(path, "newer", 5, &err), SLUICE_OK);
    assert_content(path, "newer", 5);
    assert_int_equal(files_in_dir(), 1);
}

static void replace_refused_by_the_system(void **state)
{
    (void)state;
    sluice_error err;
    const char *folder = temp_dir_path(&dir, "folder");
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(os_file_replace(folder, "x", 1, &err), SLUICE_IO);
    assert_int_equal(err.os_errno, EISDIR);
    assert_int_equal(files_in_dir(), 1);
    assert_int_equal(os_file_replace(temp_dir_path(&dir, "none/a"), "x", 1, &err), SLUICE_IO);
    assert_int_equal(err.os_errno, ENOENT);
}

/* Temporaries that a killed process of the same id left behind are stepped around. */
static void replace_steps_around_leftovers(void **state)
{
    (void)state;
    char name[64];
    const char *path = temp_dir_path(&dir, "a");
    snprintf(name, sizeof(name), "a.%ld-0.tmp", (long)getpid());
    const char *leftover = temp_dir_write(&dir, name, "left", 4);
    assert_int_equal(os_file_replace(path, "new", 3, NULL), SLUICE_OK);
    assert_content(path, "new", 3);
    assert_content(leftover, "left", 4);
}

int run_replace_tests(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(replace_makes_and_replaces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(replace_works_on_a_bare_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(replace_failing_leaves_the_old_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(replace_reports_an_unsynced_directory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(replace_refused_by_the_system, set_up, tear_down),
        cmocka_unit_test_setup_teardown(replace_steps_around_leftovers, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("file replacement", tests, NULL, NULL);
}
