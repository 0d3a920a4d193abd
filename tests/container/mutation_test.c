/* Random damage: thousands of flipped, overwritten, inserted and cut bytes in a shard header and in config.json.
 *
 * Whatever happens to the bytes, opening either works or gives one line; a sanitizer watches the memory. The damage
 * is made by a fixed generator, so every run is the same. */
#include "tests.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "container/safetensors.h"
#include "support/sample.h"

static struct temp_dir dir;
static uint64_t random_state;

static int set_up(void **state)
{
    (void)state;
    random_state = 20240607;
    sample_make(&dir, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return temp_dir_remove(&dir);
}

/* A number below n. */
static size_t below(size_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(random_state >> 33) % n;
}

/* Characters that hold a header together, and numbers that lie. */
static const char *const splinters[] = {
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "0",
    "9",
    "-",
    "1e9",
    "18446744073709551615",
    "9223372036854775807",
    "\\u0000",
    "\n",
    "null",
    "true",
    "4294967296",
    ".",
    " ",
    "\xff",
    "U8",
    "F64",
    ".qs",
    "experts.7",
};

/* Changes text[0..len) in place or grows it by at most 32 bytes; returns the new length. */
static size_t damage(char *text, size_t len)
{
    size_t times = 1 + below(3);
    for (size_t t = 0; t < times && len > 2; t++) {
        size_t at = below(len);
        const char *splinter = splinters[below(sizeof(splinters) / sizeof(splinters[0]))];
        size_t n = strlen(splinter);
        switch (below(5)) {
        case 0:
            text[at] = (char)(text[at] ^ 1 << below(8));
            break;
        case 1:
            text[at] = splinter[0];
            break;
        case 2: /* insert */
            memmove(text + at + n, text + at, len - at);
            for (size_t i = 0; i < n; i++) {
                text[at + i] = splinter[i];
            }
            len += n;
            break;
        case 3: { /* remove a few bytes */
            size_t gone = 1 + below(len - at < 8 ? len - at : 8);
            memmove(text + at, text + at + gone, len - at - gone);
            len -= gone;
            break;
        }
        default: /* digits are where the sizes are */
            while (at < len && (text[at] < '0' || text[at] > '9')) {
                at++;
            }
            if (at < len) {
                text[at] = (char)('0' + below(10));
            }
        }
    }
    return below(40) == 0 ? below(len + 1) : len;
}

static void assert_one_line(sluice_status status, const sluice_error *err)
{
    if (status != SLUICE_OK) {
        assert_int_equal(status, err->status);
        assert_in_range(strlen(err->message), 1, sizeof(err->message) - 1);
        assert_null(strpbrk(err->message, "\r\n\x1b"));
    }
}

/* What a parse that succeeds promises. */
static void assert_entries(const struct safetensors_entry *entries, size_t n, uint64_t start, uint64_t file_size)
{
    uint64_t end = start;
    for (size_t i = 0; i < n; i++) {
        assert_true(entries[i].offset >= end);
        end = entries[i].offset + entries[i].bytes;
        assert_true(entries[i].rank <= SAFETENSORS_RANK_MAX);
    }
    assert_true(end <= file_size);
}

static void test_header_text(void **state)
{
    (void)state;
    struct sample_shard shard;
    sample_shard_load(&shard, &dir, "out-00001.safetensors");
    json_object_clear(json_object_get(shard.header, "__metadata__"));
    char *pristine = json_dumps(shard.header, JSON_COMPACT);
    size_t len = strlen(pristine);
    char *text = malloc(len + 256);
    unsigned accepted = 0, refused = 0;
    for (int i = 0; i < 3000; i++) {
        memcpy(text, pristine, len + 1);
        size_t damaged = damage(text, len);
        uint64_t file_size = 8 + damaged + shard.len;
        struct arena arena;
        arena_init(&arena);
        struct safetensors_entry *entries = NULL;
        size_t n = 0;
        sluice_error err = {0};
        sluice_status status = safetensors_parse(text, damaged, file_size, "x", &arena, &entries, &n, &err);
        assert_one_line(status, &err);
        if (status == SLUICE_OK) {
            assert_entries(entries, n, 8 + damaged, file_size);
            accepted++;
        } else {
            refused++;
        }
        free(entries);
        arena_free(&arena);
    }
    assert_true(accepted > 0 && refused > 1000);
    free(text);
    free(pristine);
    sample_shard_free(&shard);
}

/* Damages a file of the container; the container opens, or the damage is reported. */
static void damage_file(const char *name, int times)
{
    char path[512];
    snprintf(path, sizeof(path), "%s", temp_dir_path(&dir, name));
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    static char pristine[1 << 20], bytes[(1 << 20) + 256];
    size_t len = fread(pristine, 1, sizeof(pristine), file);
    assert_true(len < sizeof(pristine));
    fclose(file);
    unsigned refused = 0;
    for (int i = 0; i < times; i++) {
        /* the header length and the start of the header, or anywhere in a short file */
        memcpy(bytes, pristine, len);
        size_t head = len < 6000 ? len : below(50) == 0 ? 8 : 6000;
        size_t damaged = damage(bytes, head);
        memmove(bytes + damaged, pristine + head, len - head);
        temp_dir_write(&dir, name, bytes, damaged + len - head);
        struct container *container = NULL;
        sluice_error err = {0};
        sluice_status status = container_open(&container, dir.path, false, NULL, &err);
        assert_one_line(status, &err);
        assert_int_equal(container != NULL, status == SLUICE_OK);
        refused += status != SLUICE_OK;
        container_close(&container);
    }
    assert_true(refused > (unsigned)times / 4);
    temp_dir_write(&dir, name, pristine, len);
}

static void test_shard_file(void **state)
{
    (void)state;
    damage_file("out-00000.safetensors", 300);
    damage_file("out-mtp-00000.safetensors", 300);
}

static void test_config_file(void **state)
{
    (void)state;
    damage_file("config.json", 700);
    damage_file("generation_config.json", 150);
}

int run_mutation_tests(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_header_text), TEST(test_shard_file), TEST(test_config_file)};
#undef TEST
    return cmocka_run_group_tests_name("mutation", tests, NULL, NULL);
}
