/* Parsing of hostile JSON, and access to fields. */
#include "tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "support/fault_alloc.h"

static json_t *parse(const char *text)
{
    json_t *root = NULL;
    sluice_error err = {0};
    sluice_status status = json_parse(text, strlen(text), "test", &root, &err);
    if (status != SLUICE_OK) {
        fail_msg("%s", err.message);
    }
    return root;
}

static void assert_one_line(const sluice_error *err)
{
    assert_true(strlen(err->message) > 0);
    assert_null(strpbrk(err->message, "\n\r"));
}

/* ---- Parsing -------------------------------------------------------------------------------------- */

static void parse_accepts(void **state)
{
    (void)state;
    json_t *root = parse("{\"a\": [1, 2.5, \"\\u00e9\", null, true]}");
    assert_int_equal(json_array_size(json_object_get(root, "a")), 5);
    json_decref(root);
    root = parse(" [] ");
    assert_true(json_is_array(root));
    json_decref(root);
}

static void parse_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{'a':1}",
        "nul",
        "[NaN]",
        "[Infinity]",
        "[1e999]",
        "[01]",
        "[1] x",
        "[1][2]",
        "{\"a\" 1}",
        "[\"",
        "[\"\\x\"]",
        "[\"\n\"]",
        "[\"\xFF\"]",
        "[\"\\ud800\"]",
        "[\"\\u0000\"]",
        "{\"\\u0000\":1}",
        "1",
        "\"text\"",
        "// [1]\n1",
        "[\"\xC0\x80\"]",
        "\xEF\xBB\xBF{}",
        "[99999999999999999999]",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        json_t *root = (json_t *)&root;
        sluice_error err = {0};
        if (json_parse(bad[i], strlen(bad[i]), "my.json", &root, &err) != SLUICE_FORMAT) {
            fail_msg("accepted: %s", bad[i]);
        }
        assert_ptr_equal(root, &root);
        assert_memory_equal(err.message, "my.json: line ", 14);
        assert_one_line(&err);
    }
}

static void parse_names_the_position(void **state)
{
    (void)state;
    json_t *root;
    sluice_error err;
    static const char text[] = "{\"a\": 1,\n \"b\": oops}";
    assert_int_equal(json_parse(text, sizeof(text) - 1, "my.json", &root, &err), SLUICE_FORMAT);
    assert_memory_equal(err.message, "my.json: line 2, column 10: not valid JSON: ", 44);
    assert_non_null(strstr(err.message, "oops"));
}

static void parse_keeps_content_on_the_line(void **state)
{
    (void)state;
    json_t *root;
    sluice_error err;
    static const char text[] = "{\"a\\n\\u001b[2J\": 1, \"a\\n\\u001b[2J\": 2}";
    assert_int_equal(json_parse(text, sizeof(text) - 1, "new\nline.json", &root, &err), SLUICE_FORMAT);
    assert_memory_equal(err.message, "new?line.json: ", 15);
    assert_null(strpbrk(err.message, "\n\x1b"));
}

static void parse_refuses_duplicates(void **state)
{
    (void)state;
    json_t *root;
    sluice_error err;
    static const char text[] = "{\"a\": 1, \"\\u0061\": 2}";
    assert_int_equal(json_parse(text, sizeof(text) - 1, "x", &root, &err), SLUICE_FORMAT);
    assert_non_null(strstr(err.message, "duplicate key \"\\u0061\""));
    static const char plain[] = "[{\"name\":1,\"name\":2}]";
    assert_int_equal(json_parse(plain, sizeof(plain) - 1, "x", &root, &err), SLUICE_FORMAT);
    assert_non_null(strstr(err.message, "duplicate key \"name\""));
}

static void parse_stops_at_a_zero_byte(void **state)
{
    (void)state;
    json_t *root;
    sluice_error err;
    assert_int_equal(json_parse("{}\0{}", 5, "x", &root, &err), SLUICE_FORMAT);
    assert_int_equal(json_parse(NULL, 0, "x", &root, &err), SLUICE_FORMAT);
    assert_int_equal(json_parse("{\"a\":1}", 6, "x", &root, &err), SLUICE_FORMAT); /* the length counts, not the text */
}

static void parse_bounds_the_depth(void **state)
{
    (void)state;
    enum { DEPTH = 100000 };
    static char text[DEPTH * 6];
    static const char opening[6] = {'{', '"', 'a', '"', ':', '['};
    json_t *root;
    sluice_error err;
    memset(text, '[', DEPTH);
    assert_int_equal(json_parse(text, DEPTH, "deep.json", &root, &err), SLUICE_FORMAT);
    assert_string_equal(err.message, "deep.json: line 1, column 2049: JSON nested too deeply");
    for (size_t i = 0; i < DEPTH; i++) {
        memcpy(text + 6 * i, opening, sizeof(opening));
    }
    assert_int_equal(json_parse(text, DEPTH * 6, "deep.json", &root, &err), SLUICE_FORMAT);
    assert_non_null(strstr(err.message, "nested too deeply"));

    memset(text, '[', 2000);
    memset(text + 2000, ']', 2000);
    assert_int_equal(json_parse(text, 4000, "deep.json", &root, &err), SLUICE_OK);
    json_decref(root);
}

/* Each allocation inside jansson fails once: a clear status, no leak, no crash. jansson calls a string it has no memory
 * for an invalid token. */
static void parse_survives_failing_allocations(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": [1, 2.5, \"text\", {\"b\": null}], \"c\": \"\\u00e9\", \"d\": 1}";
    sluice_status status = SLUICE_NO_MEMORY;
    int nth = 0;
    int no_memory = 0;
    json_set_alloc_funcs(malloc, free);
    while (status != SLUICE_OK) {
        json_t *root = NULL;
        sluice_error err = {0};
        fault_alloc_fail(nth++);
        status = json_parse(text, sizeof(text) - 1, "x.json", &root, &err);
        fault_alloc_fail(-1);
        if (status != SLUICE_OK) {
            assert_null(root);
            assert_true(status == SLUICE_NO_MEMORY || status == SLUICE_FORMAT);
            assert_true(status == SLUICE_FORMAT || strcmp(err.message, "x.json: out of memory for its JSON") == 0);
            assert_one_line(&err);
            no_memory += status == SLUICE_NO_MEMORY;
        }
        json_decref(root);
        assert_true(nth < 1000);
    }
    assert_true(no_memory > 10);
}

/* ---- Fields --------------------------------------------------------------------------------------- */

#define ASSERT_FAILS(call, expected)                                \
    do {                                                            \
        sluice_error err = {0};                                     \
        assert_int_equal((call), SLUICE_FORMAT);                    \
        assert_int_equal(err.status, SLUICE_FORMAT);                \
        assert_string_equal(err.message, "config.json: " expected); \
    } while (0)

static void get_int_takes_integers(void **state)
{
    (void)state;
    json_t *root =
        parse("{\"a\": 5, \"b\": 5.0, \"c\": -9223372036854775808, \"d\": 1e3, \"e\": -9223372036854775808.0,"
              " \"f\": 9223372036854775807}");
    int64_t value = 0;
    assert_int_equal(json_get_int(root, "x", "a", 5, 5, &value, NULL), SLUICE_OK);
    assert_int_equal(value, 5);
    assert_int_equal(json_get_int(root, "x", "b", 0, 10, &value, NULL), SLUICE_OK);
    assert_int_equal(value, 5);
    assert_int_equal(json_get_int(root, "x", "c", INT64_MIN, 0, &value, NULL), SLUICE_OK);
    assert_true(value == INT64_MIN);
    assert_int_equal(json_get_int(root, "x", "d", 0, 1000, &value, NULL), SLUICE_OK);
    assert_int_equal(value, 1000);
    assert_int_equal(json_get_int(root, "x", "e", INT64_MIN, 0, &value, NULL), SLUICE_OK);
    assert_true(value == INT64_MIN);
    assert_int_equal(json_get_int(root, "x", "f", 0, INT64_MAX, &value, NULL), SLUICE_OK);
    assert_true(value == INT64_MAX);
    json_decref(root);
}

static void get_int_refuses(void **state)
{
    (void)state;
    json_t *root =
        parse("{\"a\": 5, \"r\": 1.5, \"s\": \"5\", \"n\": null, \"t\": true, \"l\": [], \"o\": {}, \"u\": 1e19,"
              " \"v\": 9223372036854775808.0, \"w\": -1e300, \"f\": false}");
    int64_t value = 77;
#define GET(field, min, max) json_get_int(root, "config.json", field, min, max, &value, &err)
    ASSERT_FAILS(GET("a", 6, 9), "field \"a\" is 5, must be from 6 to 9");
    ASSERT_FAILS(GET("a", INT64_MIN, 4), "field \"a\" is 5, must be from -9223372036854775808 to 4");
    ASSERT_FAILS(GET("r", 0, 9), "field \"r\" must be an integer, is 1.5");
    ASSERT_FAILS(GET("s", 0, 9), "field \"s\" must be an integer, is a string");
    ASSERT_FAILS(GET("n", 0, 9), "field \"n\" must be an integer, is null");
    ASSERT_FAILS(GET("t", 0, 9), "field \"t\" must be an integer, is true");
    ASSERT_FAILS(GET("f", 0, 9), "field \"f\" must be an integer, is false");
    ASSERT_FAILS(GET("l", 0, 9), "field \"l\" must be an integer, is an array");
    ASSERT_FAILS(GET("o", 0, 9), "field \"o\" must be an integer, is an object");
    ASSERT_FAILS(GET("x", 0, 9), "field \"x\" is missing");
    ASSERT_FAILS(GET("u", 0, 9), "field \"u\" is 1e+19, must be from 0 to 9");
    ASSERT_FAILS(GET("v", 0, INT64_MAX),
                 "field \"v\" is 9.2233720368547758e+18, must be from 0 to 9223372036854775807");
    ASSERT_FAILS(GET("w", 0, 9), "field \"w\" is -1.0000000000000001e+300, must be from 0 to 9");
    ASSERT_FAILS(json_get_int(json_object_get(root, "l"), "config.json", "a", 0, 9, &value, &err),
                 "no field \"a\": not an object");
    ASSERT_FAILS(json_get_int(NULL, "config.json", "a", 0, 9, &value, &err), "no field \"a\": not an object");
#undef GET
    assert_int_equal(value, 77);
    json_decref(root);
}

static void get_real_and_bool(void **state)
{
    (void)state;
    json_t *root = parse("{\"r\": 2.5, \"i\": 3, \"t\": true, \"f\": false, \"one\": 1, \"zero\": 0.0, \"two\": 2,"
                         " \"half\": 0.5, \"s\": \"true\", \"n\": null}");
    double real = -1;
    bool flag = true;
    assert_int_equal(json_get_real(root, "x", "r", &real, NULL), SLUICE_OK);
    assert_true(real == 2.5);
    assert_int_equal(json_get_real(root, "x", "i", &real, NULL), SLUICE_OK);
    assert_true(real == 3.0);
    ASSERT_FAILS(json_get_real(root, "config.json", "s", &real, &err), "field \"s\" must be a number, is a string");
    ASSERT_FAILS(json_get_real(root, "config.json", "x", &real, &err), "field \"x\" is missing");
    assert_true(real == 3.0);

    assert_int_equal(json_get_bool(root, "x", "f", &flag, NULL), SLUICE_OK);
    assert_false(flag);
    assert_int_equal(json_get_bool(root, "x", "t", &flag, NULL), SLUICE_OK);
    assert_true(flag);
    assert_int_equal(json_get_bool(root, "x", "zero", &flag, NULL), SLUICE_OK);
    assert_false(flag);
    assert_int_equal(json_get_bool(root, "x", "one", &flag, NULL), SLUICE_OK);
    assert_true(flag);
    ASSERT_FAILS(json_get_bool(root, "config.json", "two", &flag, &err),
                 "field \"two\" must be true or false, is a number");
    ASSERT_FAILS(json_get_bool(root, "config.json", "half", &flag, &err),
                 "field \"half\" must be true or false, is a number");
    ASSERT_FAILS(json_get_bool(root, "config.json", "s", &flag, &err),
                 "field \"s\" must be true or false, is a string");
    ASSERT_FAILS(json_get_bool(root, "config.json", "n", &flag, &err), "field \"n\" must be true or false, is null");
    ASSERT_FAILS(json_get_bool(root, "config.json", "x", &flag, &err), "field \"x\" is missing");
    assert_true(flag);
    json_decref(root);
}

static void has_tells_presence(void **state)
{
    (void)state;
    json_t *root = parse("{\"a\": 0, \"n\": null, \"f\": false}");
    assert_true(json_has(root, "a"));
    assert_true(json_has(root, "f"));
    assert_false(json_has(root, "n"));
    assert_false(json_has(root, "x"));
    assert_false(json_has(json_object_get(root, "a"), "a"));
    assert_false(json_has(NULL, "a"));
    json_decref(root);
}

int run_json_tests(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_accepts),
        cmocka_unit_test(parse_refuses),
        cmocka_unit_test(parse_names_the_position),
        cmocka_unit_test(parse_keeps_content_on_the_line),
        cmocka_unit_test(parse_refuses_duplicates),
        cmocka_unit_test(parse_stops_at_a_zero_byte),
        cmocka_unit_test(parse_bounds_the_depth),
        cmocka_unit_test(parse_survives_failing_allocations),
        cmocka_unit_test(get_int_takes_integers),
        cmocka_unit_test(get_int_refuses),
        cmocka_unit_test(get_real_and_bool),
        cmocka_unit_test(has_tells_presence),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
