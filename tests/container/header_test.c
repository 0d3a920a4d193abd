/* One safetensors header, by itself: text that is no header, numbers that lie, files that end early. */
#include "tests.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "container/safetensors.h"

#define A(begin, end) "\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[" #begin "," #end "]}"

struct parsed {
    struct arena arena;
    struct safetensors_entry *entries;
    size_t n;
};

/* The file has `data` bytes after the header. */
static sluice_status parse(const char *text, size_t len, uint64_t data, struct parsed *out, sluice_error *err)
{
    memset(out, 0, sizeof(*out));
    arena_init(&out->arena);
    return safetensors_parse(text, len, 8 + len + data, "x.safetensors", &out->arena, &out->entries, &out->n, err);
}

static void parsed_free(struct parsed *parsed)
{
    free(parsed->entries);
    arena_free(&parsed->arena);
}

static void test_valid(void **state)
{
    (void)state;
    const char *text = "{\"__metadata__\":{\"format\":\"pt\",\"b\":\"x\"},"
                       "\"z\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[22,27]}," A(
                           0, 16) ",\"h\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[16,22]},"
                                  "\"none\":{\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[27,27]},"
                                  "\"scalar\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[27,29]}}  ";
    struct parsed parsed;
    sluice_error err = {0};
    assert_int_equal(parse(text, strlen(text), 29, &parsed, &err), SLUICE_OK);
    assert_int_equal(parsed.n, 5);
    assert_string_equal(parsed.entries[0].name, "a");
    assert_int_equal(parsed.entries[0].offset, 8 + strlen(text));
    assert_int_equal(parsed.entries[0].bytes, 16);
    assert_int_equal(parsed.entries[0].rank, 2);
    assert_string_equal(parsed.entries[1].name, "h");
    assert_int_equal(parsed.entries[1].dtype, DTYPE_BF16);
    assert_string_equal(parsed.entries[2].name, "z");
    assert_int_equal(parsed.entries[2].offset, 8 + strlen(text) + 22);
    parsed_free(&parsed);
}

static void test_empty(void **state)
{
    (void)state;
    struct parsed parsed;
    sluice_error err = {0};
    assert_int_equal(parse("{}", 2, 0, &parsed, &err), SLUICE_OK);
    assert_int_equal(parsed.n, 0);
    parsed_free(&parsed);
}

static void assert_refused(const char *text, size_t len, uint64_t data, sluice_status expected, const char *fragment)
{
    struct parsed parsed;
    sluice_error err = {0};
    sluice_status status = parse(text, len, data, &parsed, &err);
    assert_error(status, &err, expected, (const char *const[]){"x.safetensors", fragment, NULL});
    assert_null(parsed.entries);
    parsed_free(&parsed);
}

static void test_refusals(void **state)
{
    (void)state;
#define TENSOR(dtype, shape, offsets) "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    static const struct {
        const char *text;
        sluice_status status;
        const char *fragment;
    } cases[] = {
        {"", SLUICE_FORMAT, "JSON"},
        {"not json", SLUICE_FORMAT, "JSON"},
        {"[]", SLUICE_FORMAT, "no JSON object"},
        {"{\"t\":5}", SLUICE_FORMAT, "tensor t"},
        {"{\"t\":{}}", SLUICE_FORMAT, "tensor t"},
        {"{" A(0, 16) "," A(16, 32) "}", SLUICE_FORMAT, "\"a\""}, /* the same name twice */
        {"{" A(0, 16) "}}", SLUICE_FORMAT, "JSON"},
        {TENSOR("\"F64\"", "[1]", "[0,8]"), SLUICE_FORMAT, "tensor t has dtype F64"},
        {TENSOR("\"I8\"", "[8]", "[0,8]"), SLUICE_FORMAT, "[8]"},
        {TENSOR("7", "[8]", "[0,8]"), SLUICE_FORMAT, "tensor t has dtype"},
        {TENSOR("\"U8\"", "8", "[0,8]"), SLUICE_FORMAT, "tensor t"},
        {TENSOR("\"U8\"", "[1,1,1,1,8]", "[0,8]"), SLUICE_FORMAT, "tensor t"},
        {TENSOR("\"U8\"", "[-8]", "[0,8]"), SLUICE_FORMAT, "tensor t"},
        {TENSOR("\"U8\"", "[8.0]", "[0,8]"), SLUICE_FORMAT, "tensor t"},
        {TENSOR("\"U8\"", "[1e400]", "[0,8]"), SLUICE_FORMAT, "x.safetensors"},
        {TENSOR("\"U8\"", "[99999999999999999999]", "[0,8]"), SLUICE_FORMAT, "x.safetensors"},
        {TENSOR("\"F32\"", "[1073741824,1073741824,16]", "[0,8]"), SLUICE_FORMAT, "too large"},
        {TENSOR("\"F32\"", "[4294967296,4294967296]", "[0,0]"), SLUICE_FORMAT, "too large"},
        {TENSOR("\"U8\"", "[8]", "[0,9]"), SLUICE_FORMAT, "tensor t: data_offsets span 9"},
        {TENSOR("\"U8\"", "[8]", "[8,0]"), SLUICE_FORMAT, "tensor t"},
        {TENSOR("\"U8\"", "[8]", "[-8,0]"), SLUICE_FORMAT, "tensor t"},
        {TENSOR("\"U8\"", "[8]", "[0]"), SLUICE_FORMAT, "tensor t"},
        {TENSOR("\"U8\"", "[8]", "[0,8,9]"), SLUICE_FORMAT, "tensor t"},
        {TENSOR("\"U8\"", "[8]", "[0.0,8.0]"), SLUICE_FORMAT, "tensor t"},
        {TENSOR("\"U8\"", "[8]", "null"), SLUICE_FORMAT, "tensor t"},
        {TENSOR("\"U8\"", "[8]", "[9223372036854775799,9223372036854775807]"), SLUICE_FORMAT, "outside the file"},
        {TENSOR("\"U8\"", "[8]", "[60,68]"), SLUICE_FORMAT, "tensor t ends at byte"},
        {TENSOR("\"U8\"", "[68]", "[0,68]"), SLUICE_INCOMPLETE, "4 bytes are missing"},
        {"{" A(0, 16) ",\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[15,23]}}", SLUICE_FORMAT,
         "a and b overlap"},
        {"{" A(0, 16) ",\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[4,12]}}", SLUICE_FORMAT, "overlap"},
        {"{\"\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", SLUICE_FORMAT, "no tensor name"},
        {"{\"a\\nb\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", SLUICE_FORMAT, "no tensor name"},
        {"{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", SLUICE_FORMAT, "x.safetensors"},
        {"{\"\\ud800\":1}", SLUICE_FORMAT, "x.safetensors"},
        {"{\"a\xff\":1}", SLUICE_FORMAT, "x.safetensors"},
        {"{\"a\\", SLUICE_FORMAT, "JSON"},
        {"\"abc", SLUICE_FORMAT, "JSON"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_refused(cases[i].text, strlen(cases[i].text), 64, cases[i].status, cases[i].fragment);
    }
}

static void test_expensive_headers(void **state)
{
    (void)state;
    size_t len = (size_t)16 << 20;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, '[', 100000);
    assert_refused(text, 100000, 0, SLUICE_FORMAT, "nested");
    for (size_t i = 0; i < len; i += 2) {
        text[i] = '0';
        text[i + 1] = ',';
    }
    text[0] = '[';
    assert_refused(text, len, 0, SLUICE_FORMAT, "values");
    free(text);
}

/* Brackets and quotes inside strings do not count as nesting. */
static void test_brackets_in_strings(void **state)
{
    (void)state;
    const char *text = "{\"__metadata__\":{\"k\":\"[[[[[[[[[[[[[[\\\"[[[[[[{{{{{{{\\\\\"},\"[[[[[[[[[[[[\":"
                       "{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}";
    struct parsed parsed;
    sluice_error err = {0};
    assert_int_equal(parse(text, strlen(text), 8, &parsed, &err), SLUICE_OK);
    assert_int_equal(parsed.n, 1);
    parsed_free(&parsed);
}

/* ---- The file around the header -------------------------------------------------------------------- */

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

static sluice_status read_header(const void *bytes, size_t len, char **text, size_t *text_len, sluice_error *err)
{
    struct os_file file;
    const char *path = temp_dir_write(&dir, "x.safetensors", bytes, len);
    assert_int_equal(os_file_open(&file, path, false, err), SLUICE_OK);
    sluice_status status = safetensors_read_header(&file, text, text_len, err);
    os_file_close(&file);
    return status;
}

static void test_read_header(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    sluice_error err = {0};
    assert_int_equal(read_header("\2\0\0\0\0\0\0\0{}data", 14, &text, &len, &err), SLUICE_OK);
    assert_int_equal(len, 2);
    assert_string_equal(text, "{}");
    free(text);

    static const struct {
        const char *bytes;
        size_t len;
        sluice_status status;
        const char *fragment;
    } cases[] = {
        {"", 0, SLUICE_INCOMPLETE, "0 bytes"},
        {"\2\0\0\0\0\0\0", 7, SLUICE_INCOMPLETE, "7 bytes"},
        {"\2\0\0\0\0\0\0\0{", 9, SLUICE_INCOMPLETE, "1 bytes are missing"},
        {"\0\1\0\0\0\0\0\0{}", 10, SLUICE_INCOMPLETE, "254 bytes are missing"},
        {"\1\0\x40\6\0\0\0\0{}", 10, SLUICE_FORMAT, "104857601"},
        {"\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, SLUICE_FORMAT, "18446744073709551615"},
        {"\xf8\xff\xff\xff\xff\xff\xff\xff{}", 10, SLUICE_FORMAT, "18446744073709551608"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        text = NULL;
        sluice_status status = read_header(cases[i].bytes, cases[i].len, &text, &len, &err);
        assert_error(status, &err, cases[i].status, (const char *const[]){"x.safetensors", cases[i].fragment, NULL});
        assert_null(text);
    }
}

int run_header_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_expensive_headers),
        cmocka_unit_test(test_brackets_in_strings),
        cmocka_unit_test_setup_teardown(test_read_header, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("header", tests, NULL, NULL);
}
