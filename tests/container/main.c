/* Runs the tests of the container module, and holds what they share. */
#include "tests.h"

#include <string.h>

void assert_error(sluice_status status, const sluice_error *err, sluice_status expected, const char *const *fragments)
{
    if (status != expected) {
        print_error("%s instead of %s: %s\n", sluice_status_name(status), sluice_status_name(expected),
                    status == SLUICE_OK ? "" : err->message);
    }
    assert_int_equal(status, expected);
    assert_int_equal(err->status, expected);
    assert_true(strlen(err->message) > 0);
    assert_null(strpbrk(err->message, "\r\n"));
    for (; *fragments != NULL; fragments++) {
        if (strstr(err->message, *fragments) == NULL) {
            print_error("no \"%s\" in: %s\n", *fragments, err->message);
        }
        assert_non_null(strstr(err->message, *fragments));
    }
}

void assert_open_refused_list(const struct temp_dir *dir, sluice_status expected, const char *const *fragments)
{
    struct container *const untouched = (struct container *)dir;
    struct container *container = untouched;
    sluice_error err = {0};
    sluice_status status = container_open(&container, dir->path, false, NULL, &err);
    assert_error(status, &err, expected, fragments);
    assert_ptr_equal(container, untouched);
}

static void add_line(void *user, const char *line)
{
    struct log_lines *lines = user;
    lines->len += (size_t)snprintf(lines->text + lines->len, sizeof(lines->text) - lines->len, "%s\n", line);
    lines->n++;
    assert_true(lines->len < sizeof(lines->text));
}

static void note_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    struct log_lines *lines = user;
    assert_non_null(what);
    assert_true(done <= total && done >= lines->done);
    lines->done = done;
    lines->total = total;
    lines->progress++;
}

struct log log_into(struct log_lines *lines)
{
    memset(lines, 0, sizeof(*lines));
    return (struct log){.message = add_line, .progress = note_progress, .user = lines};
}

struct container *assert_opens(const char *dir, struct log_lines *lines)
{
    struct container *container = NULL;
    sluice_error err = {0};
    struct log log = {0};
    if (lines != NULL) {
        log = log_into(lines);
    }
    sluice_status status = container_open(&container, dir, false, lines == NULL ? NULL : &log, &err);
    if (status != SLUICE_OK) {
        print_error("%s\n", err.message);
    }
    assert_int_equal(status, SLUICE_OK);
    assert_non_null(container);
    return container;
}

int main(void)
{
    int failed = 0;
    failed += run_config_tests();
    failed += run_header_tests();
    failed += run_shard_tests();
    failed += run_kind_tests();
    failed += run_open_tests();
    failed += run_value_tests();
    failed += run_describe_tests();
    failed += run_synth_tests();
    failed += run_fault_tests();
    failed += run_mutation_tests();
    return failed;
}
