/* Listing shards: gaps in numbered series, directories that are none. */
#include "tests.h"

#include <string.h>

#include "base/arena.h"
#include "container/shards.h"

#define S ".safetensors"
#define NAMES_MAX 8

static void test_numbering(void **state)
{
    (void)state;
    static const struct {
        const char *names[NAMES_MAX];
        const char *missing; /* NULL: complete */
        const char *more;
    } cases[] = {
        {{"model" S}, NULL, NULL},
        {{"out-00000" S}, NULL, NULL},
        {{"out-00000" S, "out-00001" S, "out-00002" S}, NULL, NULL},
        {{"out-00001" S, "out-00002" S}, NULL, NULL}, /* counted from 1 */
        {{"out-00000" S, "out-00001" S, "out-mtp-00000" S}, NULL, NULL},
        {{"model-00001-of-00002" S, "model-00002-of-00002" S}, NULL, NULL},
        {{"model-00000-of-00002" S, "model-00001-of-00002" S}, NULL, NULL},
        {{"v2" S, "v5" S, "x-17" S}, NULL, NULL}, /* too few digits to be a series */
        {{"a-1234567890123" S}, NULL, NULL},
        {{"-of-00002" S}, "-of-00001" S, NULL},
        {{"out-00000" S, "out-00002" S}, "out-00001" S " is missing (", NULL},
        {{"out-00002" S}, "out-00001" S, NULL},
        {{"out-00000" S, "out-00003" S, "out-00005" S}, "out-00001" S, "and 2 more"},
        {{"out-00000" S, "out-mtp-00000" S, "out-mtp-00002" S}, "out-mtp-00001" S, NULL},
        {{"model-00001-of-00005" S, "model-00003-of-00005" S}, "model-00002-of-00005" S, "and 2 more"},
        {{"model-00001-of-00002" S}, "model-00002-of-00002" S, NULL},
        {{"model-00001-of-00002" S, "model-00001-of-00003" S, "model-00002-of-00002" S},
         "model-00002-of-00003" S,
         "and 1 more"},
        {{"model-001-of-999999999" S}, "model-002-of-999999999" S, "and 999999997 more"},
        {{"out-999999999" S}, "out-000000001" S, "and 999999997 more"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t n = 0;
        while (n < NAMES_MAX && cases[i].names[n] != NULL) {
            n++;
        }
        sluice_error err = {0};
        sluice_status status = shards_check_numbering("DIR", cases[i].names, n, &err);
        if (cases[i].missing == NULL) {
            assert_int_equal(status, SLUICE_OK);
        } else {
            const char *more = cases[i].more == NULL ? "DIR: shard " : cases[i].more;
            assert_error(status, &err, SLUICE_INCOMPLETE, (const char *const[]){cases[i].missing, more, NULL});
        }
    }
}

/* ---- Directories ----------------------------------------------------------------------------------- */

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

static void assert_listing_refused(const char *path, sluice_status expected, const char *fragment)
{
    struct arena arena;
    arena_init(&arena);
    const char *const *names = NULL;
    uint32_t n = 0;
    sluice_error err = {0};
    sluice_status status = shards_list(path, &arena, &names, &n, &err);
    assert_error(status, &err, expected, (const char *const[]){path, fragment, NULL});
    assert_null(names);
    arena_free(&arena);
}

static void test_directories(void **state)
{
    (void)state;
    assert_listing_refused(dir.path, SLUICE_INCOMPLETE, "no *.safetensors file");
    assert_listing_refused(temp_dir_path(&dir, "nowhere"), SLUICE_IO, "No such file");
    assert_listing_refused(temp_dir_write(&dir, "file", "x", 1), SLUICE_IO, "Not a directory");
}

static void test_name_order(void **state)
{
    (void)state;
    static const char *const files[] = {"b" S, "a" S, "C" S, ".hidden" S, "x" S ".part", S, "notes.txt"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        temp_dir_write(&dir, files[i], "", 0);
    }
    struct arena arena;
    arena_init(&arena);
    const char *const *names = NULL;
    uint32_t n = 0;
    sluice_error err = {0};
    assert_int_equal(shards_list(dir.path, &arena, &names, &n, &err), SLUICE_OK);
    assert_int_equal(n, 3);
    assert_string_equal(names[0], "C" S);
    assert_string_equal(names[1], "a" S);
    assert_string_equal(names[2], "b" S);
    arena_free(&arena);
}

int run_shard_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbering),
        cmocka_unit_test_setup_teardown(test_directories, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_name_order, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("shards", tests, NULL, NULL);
}
