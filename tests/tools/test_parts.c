/* The parts of the command that need no model: numbers, argument tables, conversations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fault_alloc.h"
#include "tools/args.h"
#include "tools/conversation.h"
#include "tools/numbers.h"

/* ---- Numbers -------------------------------------------------------------------------------------- */

static void numbers_are_whole_words(void **state)
{
    static const char *const bad[] = {
        "", " 1", "1 ", "+1", "-1", "1x", "0x10", "1.0", "1e3", "18446744073709551616", "99999999999999999999999"};
    uint64_t value = 7;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(number_parse_u64(bad[i], &value));
    }
    assert_int_equal(value, 7);
    assert_true(number_parse_u64("0", &value));
    assert_int_equal(value, 0);
    assert_true(number_parse_u64("007", &value));
    assert_int_equal(value, 7);
    assert_true(number_parse_u64("18446744073709551615", &value));
    assert_true(value == UINT64_MAX);
}

static void sizes_take_one_unit(void **state)
{
    static const char *const bad[] = {"",    "G",   "1GB", "1g",         "1 G",
                                      ".5G", "1.G", "1.5", "1.1234567G", "1GiBs",
                                      "1Gi", "-1G", "1GG", "16777216T",  "18446744073709551616"};
    uint64_t value = 7;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(number_parse_size(bad[i], &value));
    }
    assert_int_equal(value, 7);
    assert_true(number_parse_size("4096", &value) && value == 4096);
    assert_true(number_parse_size("4096K", &value) && value == 4096 * UINT64_C(1024));
    assert_true(number_parse_size("512M", &value) && value == UINT64_C(512) << 20);
    assert_true(number_parse_size("24G", &value) && value == UINT64_C(24) << 30);
    assert_true(number_parse_size("1.5G", &value) && value == UINT64_C(3) << 29);
    assert_true(number_parse_size("1.1GiB", &value) && value == 1181116006);
    assert_true(number_parse_size("0.000001K", &value) && value == 0);
    assert_true(number_parse_size("16777215.999999T", &value) && value > UINT64_C(16777215) << 40);
    assert_true(number_parse_size("16777215T", &value) && value == UINT64_C(16777215) << 40);
}

static void reals_are_finite_decimals(void **state)
{
    static const char *const bad[] = {"", "nan", "inf", "1e999", "0x1p3", "1,5", "1.0.0", "--1", " 1", "1 ", "e5", "."};
    double value = 7;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(number_parse_real(bad[i], &value));
    }
    assert_true(value == 7);
    assert_true(number_parse_real("0.25", &value) && value == 0.25);
    assert_true(number_parse_real("-1e-2", &value) && value == -0.01);
    assert_true(number_parse_real(".5", &value) && value == 0.5);
}

static void id_lists_have_no_gaps(void **state)
{
    static const char *const bad[] = {"", ",", "1,", ",1", "1,,2", "1, 2", "1;2", "a", "4294967296", "-1", "1,2x"};
    uint32_t *ids = NULL;
    size_t n = 0;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(number_parse_ids(bad[i], &ids, &n));
    }
    assert_null(ids);
    assert_true(number_parse_ids("5,0,4294967295", &ids, &n));
    assert_int_equal(n, 3);
    assert_int_equal(ids[0], 5);
    assert_int_equal(ids[1], 0);
    assert_true(ids[2] == UINT32_MAX);
    free(ids);
    fault_alloc_fail(0);
    assert_false(number_parse_ids("1", &ids, &n));
    fault_alloc_fail(-1);
}

static void bytes_read_well(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"},
                 {1023, "1023 B"},
                 {1024, "1.00 KiB"},
                 {UINT64_C(3) << 29, "1.50 GiB"},
                 {UINT64_C(5) << 40, "5.00 TiB"},
                 {UINT64_MAX, "16777216.00 TiB"}};
    char text[32];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        number_format_bytes(cases[i].bytes, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
}

/* ---- Arguments ------------------------------------------------------------------------------------ */

struct shared {
    const char *dir;
    bool quiet;
};

struct options {
    struct shared shared;
    const char *out, *any;
    struct arg_texts texts;
    uint32_t u32;
    uint64_t u64, size;
    float real;
    struct arg_ids ids;
    int choice, maybe;
};

#define AT(field) offsetof(struct options, field)

static const char *const colours[] = {"red", "green", NULL};
static const char *const forms[] = {"off", "table", "json", NULL};

static const struct arg_option own_table[] = {
    {"OUT", ARG_TEXT, AT(out), NULL, .help = "where to"},
    {"--any", ARG_ANY, AT(any), "TEXT", .help = "a text"},
    {"--texts", ARG_TEXTS, AT(texts), "TEXT", .help = "texts"},
    {"-n", ARG_U32, AT(u32), "N", .help = "a number", .min = 2, .max = 9},
    {"--u32", ARG_U32, AT(u32), "N", .help = "a number"},
    {"--u64", ARG_U64, AT(u64), "N", .help = "a number"},
    {"--size", ARG_SIZE, AT(size), "SIZE", .help = "a size", .min = 1},
    {"--real", ARG_REAL, AT(real), "R", .help = "a real", .real_min = 0.5, .real_max = 2},
    {"--ids", ARG_IDS, AT(ids), "LIST", .help = "ids"},
    {"--choice", ARG_CHOICE, AT(choice), "NAME", .help = "red or green", .choices = colours},
    {"--maybe", ARG_MAYBE, AT(maybe), "json", .help = "a form", .choices = forms},
    {0},
};
static const struct arg_option shared_table[] = {
    {"-m", ARG_TEXT, offsetof(struct shared, dir), "DIR", .help = "a directory"},
    {"--quiet", ARG_FLAG, offsetof(struct shared, quiet), NULL, .help = "no noise"},
    {0},
};
static const struct arg_command command = {"try", "OUT [options]", "Tries.", {own_table, shared_table}};

#define N_WORDS(words) ((int)(sizeof(words) / sizeof *(words)))
#define PARSE(options, help, err, ...) \
    args_parse(&command, N_WORDS(((char *[]){__VA_ARGS__})), (char *[]){__VA_ARGS__}, options, help, err)

static void args_fill_the_struct(void **state)
{
    struct options options = {0};
    sluice_error err = {0};
    bool help;

    (void)state;
    assert_int_equal(PARSE(&options, &help, &err, "-m", "dir", "--any=", "--texts", "a", "--texts=b=c", "place", "-n",
                           "9", "--u64=18446744073709551615", "--size", "2K", "--real", "0.5", "--ids", "1,2",
                           "--choice", "green", "--maybe", "--quiet"),
                     SLUICE_OK);
    assert_false(help);
    assert_string_equal(options.shared.dir, "dir");
    assert_string_equal(options.any, "");
    assert_int_equal(options.texts.n, 2);
    assert_string_equal(options.texts.items[1], "b=c");
    assert_string_equal(options.out, "place");
    assert_int_equal(options.u32, 9);
    assert_true(options.u64 == UINT64_MAX);
    assert_int_equal(options.size, 2048);
    assert_true(options.real == 0.5F);
    assert_int_equal(options.ids.n, 2);
    assert_int_equal(options.choice, 1);
    assert_int_equal(options.maybe, 1);
    assert_true(options.shared.quiet);
    arg_ids_free(&options.ids);
}

static void args_take_values_that_look_like_options(void **state)
{
    struct options options = {0};
    sluice_error err = {0};
    bool help;

    (void)state;
    assert_int_equal(PARSE(&options, &help, &err, "--any", "--help", "--maybe=json", "--", "--help"), SLUICE_OK);
    assert_false(help);
    assert_string_equal(options.any, "--help");
    assert_string_equal(options.out, "--help");
    assert_int_equal(options.maybe, 2);
    assert_int_equal(PARSE(&options, &help, &err, "-"), SLUICE_OK);
    assert_string_equal(options.out, "-");
}

static void args_last_one_counts(void **state)
{
    struct options options = {0};
    sluice_error err = {0};
    bool help;

    (void)state;
    assert_int_equal(PARSE(&options, &help, &err, "x", "-n", "2", "-n", "3", "--ids", "1", "--ids", "4,5", "--any", "a",
                           "--any", "b"),
                     SLUICE_OK);
    assert_int_equal(options.u32, 3);
    assert_int_equal(options.ids.n, 2);
    assert_string_equal(options.any, "b");
    arg_ids_free(&options.ids);
}

static void args_say_what_is_wrong(void **state)
{
    static const struct {
        char *words[3];
        const char *message;
    } cases[] = {
        {{"--nothing"}, "unknown option --nothing"},
        {{"-x"}, "unknown option -x"},
        {{"-n5"}, "unknown option -n5"},
        {{"-n=5"}, "unknown option -n=5"},
        {{"--an"}, "unknown option --an"},
        {{"--OUT", "x"}, "unknown option --OUT"},
        {{"-n"}, "-n needs a value: N"},
        {{"--size"}, "--size needs a value: SIZE"},
        {{"--quiet=1"}, "--quiet takes no value"},
        {{"-n", "1"}, "-n: 1 is outside 2..9"},
        {{"-n", "10"}, "-n: 10 is outside 2..9"},
        {{"-n", "3x"}, "-n: '3x' is not a whole number"},
        {{"--u32", "4294967296"}, "--u32: 4294967296 is outside 0..4294967295"},
        {{"--size", "0"}, "--size: 0 is below 1"},
        {{"--size", "5GB"}, "--size: '5GB' is not a size: bytes, or a number with K, M, G or T"},
        {{"--real", "0.4"}, "--real: 0.4 is outside 0.5..2"},
        {{"--real", "nan"}, "--real: 'nan' is not a number"},
        {{"--ids", "1,,2"}, "--ids: '1,,2' is not a list of token ids such as 1,2,3"},
        {{"--choice", "blue"}, "--choice: 'blue' is none of: red, green"},
        {{"--maybe=xml"}, "--maybe: 'xml' is none of: off, table, json"},
        {{"-m", ""}, "-m: the value is empty"},
        {{"--texts="}, "--texts: the value is empty"},
        {{"a", "b"}, "unexpected argument 'b'"},
        {{"--quiet"}, "OUT is missing: where to"},
    };
    sluice_error err;
    bool help;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options = {0};
        int n = 0;
        while (n < 3 && cases[i].words[n] != NULL) {
            n++;
        }
        assert_int_equal(args_parse(&command, n, cases[i].words, &options, &help, &err), SLUICE_INVALID);
        assert_string_equal(err.message, cases[i].message);
    }
}

static void args_limit_lists(void **state)
{
    struct options options = {0};
    char *words[2 * (ARG_TEXTS_MAX + 1)];
    sluice_error err;
    bool help;

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i += 2) {
        words[i] = "--texts";
        words[i + 1] = "a";
    }
    assert_int_equal(args_parse(&command, 2 * (ARG_TEXTS_MAX + 1), words, &options, &help, &err), SLUICE_INVALID);
    assert_string_equal(err.message, "--texts: given more than 16 times");
    assert_int_equal(options.texts.n, ARG_TEXTS_MAX);
}

static void args_help_comes_from_the_tables(void **state)
{
    struct options options = {0};
    sluice_error err;
    char *text;
    size_t len;
    bool help;

    (void)state;
    assert_int_equal(PARSE(&options, &help, &err, "--nothing", "--help"), SLUICE_OK);
    assert_true(help);
    FILE *file = open_memstream(&text, &len);
    args_print_help(file, &command);
    fclose(file);
    assert_non_null(strstr(text, "usage: sluice try OUT [options]\nTries.\n"));
    assert_non_null(strstr(text, "  OUT                    where to\n"));
    assert_non_null(strstr(text, "  -n N                   a number\n"));
    assert_non_null(strstr(text, "  --maybe[=json]         a form\n"));
    assert_non_null(strstr(text, "  --quiet                no noise\n"));
    free(text);
}

/* ---- Conversations -------------------------------------------------------------------------------- */

static void conversation_keeps_its_system_message_first(void **state)
{
    struct conversation conversation = {0};
    sluice_error err;

    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(conversation_push(&conversation, i % 2 == 0 ? SLUICE_USER : SLUICE_ASSISTANT, "text", &err),
                         SLUICE_OK);
    }
    assert_int_equal(conversation_set_system(&conversation, "first", &err), SLUICE_OK);
    assert_int_equal(conversation_set_system(&conversation, "second", &err), SLUICE_OK);
    assert_int_equal(conversation.n, 21);
    assert_int_equal(conversation.messages[0].role, SLUICE_SYSTEM);
    assert_string_equal(conversation.messages[0].text, "second");
    assert_int_equal(conversation.messages[1].role, SLUICE_USER);
    assert_int_equal(conversation.messages[20].role, SLUICE_ASSISTANT);
    conversation_pop(&conversation);
    assert_int_equal(conversation.n, 20);
    conversation_reset(&conversation);
    assert_int_equal(conversation.n, 1);
    assert_int_equal(conversation_set_system(&conversation, NULL, &err), SLUICE_OK);
    assert_int_equal(conversation_set_system(&conversation, NULL, &err), SLUICE_OK);
    assert_int_equal(conversation.n, 0);
    conversation_reset(&conversation);
    conversation_free(&conversation);
}

static void conversation_survives_lack_of_memory(void **state)
{
    struct conversation conversation = {0};
    sluice_error err;

    (void)state;
    for (int nth = 0; nth < 2; nth++) { /* the list, the text */
        fault_alloc_fail(nth);
        sluice_status status = conversation_push(&conversation, SLUICE_USER, "lost", &err);
        fault_alloc_fail(-1);
        assert_int_equal(status, SLUICE_NO_MEMORY);
        assert_int_equal(conversation.n, 0);
    }
    conversation_free(&conversation);
    assert_int_equal(conversation_push(&conversation, SLUICE_USER, "kept", &err), SLUICE_OK);
    assert_string_equal(conversation.messages[0].text, "kept");
    conversation_free(&conversation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_whole_words),
        cmocka_unit_test(sizes_take_one_unit),
        cmocka_unit_test(reals_are_finite_decimals),
        cmocka_unit_test(id_lists_have_no_gaps),
        cmocka_unit_test(bytes_read_well),
        cmocka_unit_test(args_fill_the_struct),
        cmocka_unit_test(args_take_values_that_look_like_options),
        cmocka_unit_test(args_last_one_counts),
        cmocka_unit_test(args_say_what_is_wrong),
        cmocka_unit_test(args_limit_lists),
        cmocka_unit_test(args_help_comes_from_the_tables),
        cmocka_unit_test(conversation_keeps_its_system_message_first),
        cmocka_unit_test(conversation_survives_lack_of_memory),
    };
    return cmocka_run_group_tests_name("tools_parts", tests, NULL, NULL);
}
