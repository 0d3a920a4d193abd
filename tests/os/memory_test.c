/* Memory limits, read from made-up /proc files and control groups. */
#include "tests.h"

#include <stdio.h>
#include <string.h>

#include "os/memory.h"
#include "os/memory_sources.h"
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
    (void)state;
    return temp_dir_remove(&dir);
}

static void write_text(const char *name, const char *text)
{
    temp_dir_write(&dir, name, text, strlen(text));
}

/* The limit of a machine with 8,000,000 kB; %s in mountinfo stands for the test's directory. */
static uint64_t limit_of(const char *self_cgroup, const char *mountinfo)
{
    static char mounts[20000];
    size_t len = 0;
    for (const char *from = mountinfo; *from != '\0'; from++) {
        if (from[0] == '%' && from[1] == 's') {
            len += (size_t)snprintf(mounts + len, sizeof(mounts) - len, "%s", dir.path);
            from++;
        } else {
            mounts[len++] = *from;
        }
    }
    mounts[len] = '\0';
    write_text("meminfo", "MemFree:  5 kB\nMemTotal:        8000000 kB\nMemTotal:   1 kB\n");
    write_text("self_cgroup", self_cgroup);
    write_text("mountinfo", mounts);
    struct memory_sources sources = {.meminfo = temp_dir_path(&dir, "meminfo"),
                                     .self_cgroup = temp_dir_path(&dir, "self_cgroup"),
                                     .mountinfo = temp_dir_path(&dir, "mountinfo")};
    return memory_limit_from(&sources);
}

#define PHYSICAL (UINT64_C(8000000) * 1024)
#define V2_MOUNT "22 1 0:5 / / rw - ext4 /dev/sda rw\n40 22 0:41 / %s/v2 rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
#define V1_MOUNT "35 31 0:32 / %s/v1 rw,relatime - cgroup cgroup rw,memory\n"

/* ---- v2 ------------------------------------------------------------------------------------------- */

static void v2_smallest_ancestor_counts(void **state)
{
    (void)state;
    write_text("v2/user/app/job/memory.max", "3000000\n");
    write_text("v2/user/app/memory.max", "max\n");
    write_text("v2/user/memory.max", "2000000\n");
    write_text("v2/memory.max", "2500000\n");
    assert_int_equal(limit_of("0::/user/app/job\n", V2_MOUNT), 2000000);
    write_text("v2/user/app/job/memory.max", "1000000\n");
    assert_int_equal(limit_of("0::/user/app/job\n", V2_MOUNT), 1000000);
    write_text("v2/user/app/memory.high", "900000\n");
    assert_int_equal(limit_of("0::/user/app/job\n", V2_MOUNT), 900000);
    assert_int_equal(limit_of("0::/user/other\n", V2_MOUNT), 2000000); /* a group that has gone: its parents */
    assert_int_equal(limit_of("0::/\n", V2_MOUNT), 2500000);
}

static void v2_without_limits(void **state)
{
    (void)state;
    write_text("v2/user/memory.max", "max\n");
    write_text("v2/user/memory.high", "max\n");
    assert_int_equal(limit_of("0::/user\n", V2_MOUNT), PHYSICAL);
    write_text("v2/user/memory.max", "99999999999999999999999999\n");
    assert_int_equal(limit_of("0::/user\n", V2_MOUNT), PHYSICAL);
    write_text("v2/user/memory.max", "");
    assert_int_equal(limit_of("0::/user\n", V2_MOUNT), PHYSICAL);
    write_text("v2/user/memory.max", "-1\n");
    assert_int_equal(limit_of("0::/user\n", V2_MOUNT), PHYSICAL);
    write_text("v2/user/memory.max", "0\n");
    assert_int_equal(limit_of("0::/user\n", V2_MOUNT), 0);
}

static void v2_inside_a_container(void **state)
{
    (void)state;
    write_text("v2/memory.max", "777000\n");
    write_text("v2/inner/memory.max", "555000\n");
    /* the mount shows only a part of the hierarchy */
    const char *part = "40 22 0:41 /box/one %s/v2 rw - cgroup2 cgroup2 rw\n";
    assert_int_equal(limit_of("0::/box/one/inner\n", part), 555000);
    assert_int_equal(limit_of("0::/box/one\n", part), 777000);
    assert_int_equal(limit_of("0::/box/onerous\n", part), 777000);
    assert_int_equal(limit_of("0::/elsewhere\n", part), 777000);
    assert_int_equal(limit_of("0::/../outside\n", V2_MOUNT), 777000);
}

/* ---- v1 ------------------------------------------------------------------------------------------- */

static void v1_memory_controller(void **state)
{
    (void)state;
    write_text("v1/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
    write_text("v1/docker/memory.limit_in_bytes", "4000000\n");
    write_text("v1/memory.limit_in_bytes", "9223372036854771712\n");
    const char *groups = "9:name=systemd:/x\n5:cpuset,memory,pids:/docker/abc\n0::/\n";
    assert_int_equal(limit_of(groups, V1_MOUNT), 4000000);
    assert_int_equal(limit_of(groups, "35 31 0:32 / %s/v1 rw - cgroup cgroup rw,cpuset,memory\n"), 4000000);
    assert_int_equal(limit_of(groups, "35 31 0:32 / %s/v1 rw - cgroup cgroup rw,cpu\n"), PHYSICAL);
    assert_int_equal(limit_of("5:cpuset,xmemory:/docker/abc\n", V1_MOUNT), PHYSICAL);
}

static void both_hierarchies_count(void **state)
{
    (void)state;
    write_text("v1/a/memory.limit_in_bytes", "4000000\n");
    write_text("v2/b/memory.max", "5000000\n");
    assert_int_equal(limit_of("4:memory:/a\n0::/b\n", V1_MOUNT V2_MOUNT), 4000000);
    write_text("v2/b/memory.max", "3000000\n");
    assert_int_equal(limit_of("4:memory:/a\n0::/b\n", V1_MOUNT V2_MOUNT), 3000000);
}

/* ---- Odd files ------------------------------------------------------------------------------------ */

static void mount_points_may_hold_spaces(void **state)
{
    (void)state;
    write_text("a b\\c/user/memory.max", "123000\n");
    assert_int_equal(limit_of("0::/user\n", "40 22 0:41 / %s/a\\040b\\134c rw - cgroup2 cgroup2 rw"), 123000);
}

static void group_names_may_hold_colons(void **state)
{
    (void)state;
    write_text("v2/a:b/memory.max", "123000\n");
    assert_int_equal(limit_of("0::/a:b\n", V2_MOUNT), 123000);
}

static void malformed_files_are_no_limit(void **state)
{
    (void)state;
    static char text[30000];
    assert_int_equal(limit_of("", ""), PHYSICAL);
    assert_int_equal(limit_of("nonsense\n:\n::\n0:\n", "x\n - \n1 2 - cgroup2\n1 2 3 4 5 - cgroup2 x\n\\\n"), PHYSICAL);
    memset(text, 'x', sizeof(text) - 1);
    assert_int_equal(limit_of(text, V2_MOUNT), PHYSICAL);

    /* a line that is too long is passed over, the ones around it count; the last has no newline */
    write_text("v2/u/memory.max", "123000");
    snprintf(text + 20000, sizeof(text) - 20000, "\n0::/u");
    assert_int_equal(limit_of(text, V2_MOUNT), 123000);

    memset(text, 'y', 9000);
    memcpy(text, "0::/", 4);
    text[9000] = '\0'; /* a path that is too long */
    assert_int_equal(limit_of(text, V2_MOUNT), PHYSICAL);
}

static void missing_files_are_no_limit(void **state)
{
    (void)state;
    struct memory_sources sources = {.meminfo = temp_dir_path(&dir, "a"),
                                     .self_cgroup = temp_dir_path(&dir, "b"),
                                     .mountinfo = temp_dir_path(&dir, "c")};
    assert_true(memory_limit_from(&sources) == UINT64_MAX);
}

static void fields_of_proc_files(void **state)
{
    (void)state;
    uint64_t value = 5;
    write_text("status",
               "Name:\tx\nVmRSSX: 9 kB\nVmRSS:\t    2192 kB\nVmBad:\t 3 MB\nVmEmpty:\nVmHuge: 99999999999999999999 kB");
    const char *path = temp_dir_path(&dir, "status");
    assert_true(memory_read_field(path, "VmRSS:", &value));
    assert_int_equal(value, 2192 * 1024);
    assert_false(memory_read_field(path, "VmBad:", &value));
    assert_false(memory_read_field(path, "VmEmpty:", &value));
    assert_false(memory_read_field(path, "VmHuge:", &value));
    assert_false(memory_read_field(path, "VmNone:", &value));
    assert_false(memory_read_field(temp_dir_path(&dir, "none"), "VmRSS:", &value));
    assert_false(memory_read_field(dir.path, "VmRSS:", &value)); /* reading a directory fails */
    assert_int_equal(value, 2192 * 1024);
}

static void this_process(void **state)
{
    (void)state;
    fault_alloc_fail(-1);
    assert_true(memory_limit_bytes() > UINT64_C(1) << 20);
    assert_true(memory_limit_bytes() < UINT64_C(1) << 60);
    uint64_t rss = memory_rss_bytes();
    assert_true(rss > 100000 && rss < UINT64_C(1) << 40);
    assert_true(memory_peak_rss_bytes() > 100000);
    assert_int_equal(fault_alloc_count(), 0);
}

int run_memory_tests(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(v2_smallest_ancestor_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(v2_without_limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(v2_inside_a_container, set_up, tear_down),
        cmocka_unit_test_setup_teardown(v1_memory_controller, set_up, tear_down),
        cmocka_unit_test_setup_teardown(both_hierarchies_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mount_points_may_hold_spaces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(group_names_may_hold_colons, set_up, tear_down),
        cmocka_unit_test_setup_teardown(malformed_files_are_no_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(missing_files_are_no_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fields_of_proc_files, set_up, tear_down),
        cmocka_unit_test(this_process),
    };
    return cmocka_run_group_tests_name("memory limits", tests, NULL, NULL);
}
