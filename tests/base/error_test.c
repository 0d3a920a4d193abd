/* Status names, error records, and the promise that a message is one printable line. */
#include "tests.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

/* ---- Status --------------------------------------------------------------------------------------- */

static void status_has_name_and_text(void **state)
{
    (void)state;
    static const sluice_status all[] = {
#define VALUE(name, value, text) SLUICE_##name,
        SLUICE_STATUS_LIST(VALUE)
#undef VALUE
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_memory_equal(sluice_status_name(all[i]), "SLUICE_", 7);
        assert_true(strlen(sluice_status_text(all[i])) > 3);
        assert_true(i == 0 ? all[i] == 0 : all[i] < 0);
    }
    assert_string_equal(sluice_status_name(SLUICE_FORMAT), "SLUICE_FORMAT");
    assert_string_equal(sluice_status_name(SLUICE_OK), "SLUICE_OK");
    assert_string_equal(sluice_status_text(SLUICE_OK), "success");
    assert_string_equal(sluice_status_name((sluice_status)-1000), "SLUICE_UNKNOWN");
    assert_string_equal(sluice_status_text((sluice_status)7), "unknown status");
}

/* ---- Records -------------------------------------------------------------------------------------- */

static void error_fills_the_record(void **state)
{
    (void)state;
    sluice_error err = {.os_errno = 99};
    assert_int_equal(error_set(&err, SLUICE_FORMAT, "%s: tensor %d", "a.safetensors", 7), SLUICE_FORMAT);
    assert_int_equal(err.status, SLUICE_FORMAT);
    assert_int_equal(err.os_errno, 0);
    assert_string_equal(err.message, "a.safetensors: tensor 7");

    assert_int_equal(error_set_errno(&err, SLUICE_IO, ENOENT, "%s: cannot open", "b"), SLUICE_IO);
    assert_int_equal(err.status, SLUICE_IO);
    assert_int_equal(err.os_errno, ENOENT);
    assert_string_equal(err.message, "b: cannot open: No such file or directory");

    error_set_errno(&err, SLUICE_IO, 0, "plain");
    assert_string_equal(err.message, "plain");
    error_set_errno(&err, SLUICE_IO, 123456, "odd");
    assert_string_equal(err.message, "odd: Unknown error 123456");
}

static void error_needs_no_record(void **state)
{
    (void)state;
    errno = EBADF;
    assert_int_equal(error_set(NULL, SLUICE_LIMIT, "%d", 1), SLUICE_LIMIT);
    assert_int_equal(error_set_errno(NULL, SLUICE_IO, EIO, "%d", 1), SLUICE_IO);
    sluice_error err;
    error_set_errno(&err, SLUICE_IO, 123456, "errno survives");
    assert_int_equal(errno, EBADF);
}

static void error_wraps_its_own_message(void **state)
{
    (void)state;
    sluice_error err;
    error_set(&err, SLUICE_FORMAT, "field x");
    error_set(&err, err.status, "config.json: %s", err.message);
    assert_string_equal(err.message, "config.json: field x");
}

static void error_cuts_what_does_not_fit(void **state)
{
    (void)state;
    static char big[5000];
    sluice_error err;
    memset(big, 'a', sizeof(big) - 1);
    memset(&err, 0x7F, sizeof(err));
    error_set(&err, SLUICE_FORMAT, "%s", big);
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    assert_string_equal(err.message + sizeof(err.message) - 6, "aa...");

    error_set_errno(&err, SLUICE_IO, EIO, "%s", big);
    assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
    assert_non_null(strstr(err.message, "a...: Input/output error"));

    big[sizeof(err.message) - 1] = '\0'; /* exactly what fits is not cut */
    error_set(&err, SLUICE_FORMAT, "%s", big);
    assert_string_equal(err.message, big);
}

/* ---- One printable line --------------------------------------------------------------------------- */

static void assert_cleaned(const char *text, const char *expected)
{
    sluice_error err;
    error_set(&err, SLUICE_FORMAT, "%s", text);
    assert_string_equal(err.message, expected);
}

static void message_is_one_printable_line(void **state)
{
    (void)state;
    assert_cleaned("", "");
    assert_cleaned("a\nb\r\tc\x7f\x1b[31m", "a?b??c??[31m");
    assert_cleaned("caf\xC3\xA9 \xE4\xB8\xAD \xF0\x9F\x98\x80", "caf\xC3\xA9 \xE4\xB8\xAD \xF0\x9F\x98\x80");
    assert_cleaned("\xC2\x9B", "??");                    /* a terminal's one-character escape */
    assert_cleaned("\xE2\x80\xA8|", "???|");             /* line separator */
    assert_cleaned("\xFF\x80|\xC3", "??|?");             /* no sequence, and half of one at the end */
    assert_cleaned("\xC0\x80|\xE0\x80\x80|", "??|???|"); /* overlong */
    assert_cleaned("\xED\xA0\x80|", "???|");             /* a surrogate */
    assert_cleaned("\xF4\x90\x80\x80|", "????|");
    assert_cleaned("\xE4\xB8z", "??z");
}

static void message_is_cut_between_characters(void **state)
{
    (void)state;
    char text[600];
    sluice_error err;
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', sizeof(text));
        for (size_t i = shift; i + 4 < sizeof(text); i += 4) {
            memcpy(text + i, "\xF0\x9F\x98\x80", 4);
        }
        text[sizeof(text) - 1] = '\0';
        error_set(&err, SLUICE_FORMAT, "%s", text);
        size_t len = strlen(err.message);
        assert_true(len < sizeof(err.message) && len >= sizeof(err.message) - 4);
        assert_string_equal(err.message + len - 3, "...");
        assert_memory_equal(err.message + len - 7, "\xF0\x9F\x98\x80", 4);
        assert_null(strchr(err.message, '?'));
    }
}

static void message_that_cannot_be_formatted(void **state)
{
    (void)state;
    static const wchar_t wide[] = {0x4E2D, 0}; /* not representable in the "C" locale */
    sluice_error err;
    error_set(&err, SLUICE_FORMAT, "%ls", wide);
    assert_string_equal(err.message, "(a message that cannot be formatted)");
    assert_int_equal(err.status, SLUICE_FORMAT);
}

/* ---- Log and clock -------------------------------------------------------------------------------- */

struct heard {
    char line[2000];
    unsigned messages;
    uint64_t done, total;
};

static void hear_message(void *user, const char *line)
{
    struct heard *heard = user;
    snprintf(heard->line, sizeof(heard->line), "%s", line);
    heard->messages++;
}

static void hear_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    struct heard *heard = user;
    snprintf(heard->line, sizeof(heard->line), "%s", what);
    heard->done = done;
    heard->total = total;
}

static void log_passes_on(void **state)
{
    (void)state;
    static char big[3000];
    struct heard heard = {0};
    struct log log = {.message = hear_message, .progress = hear_progress, .user = &heard};
    log_message(&log, "%s has %d\nlines", "x", 2);
    assert_string_equal(heard.line, "x has 2?lines");
    log_progress(&log, "loading", 3, 9);
    assert_string_equal(heard.line, "loading");
    assert_int_equal(heard.done, 3);
    assert_int_equal(heard.total, 9);
    memset(big, 'b', sizeof(big) - 1);
    log_message(&log, "%s", big);
    assert_int_equal(strlen(heard.line), 1023);
    assert_int_equal(heard.messages, 2);
}

static void log_may_be_absent(void **state)
{
    (void)state;
    struct log silent = {0};
    log_message(NULL, "x");
    log_progress(NULL, "x", 0, 1);
    log_message(&silent, "x");
    log_progress(&silent, "x", 0, 1);
}

static void clock_never_goes_back(void **state)
{
    (void)state;
    double before = clock_seconds();
    for (int i = 0; i < 1000; i++) {
        double now = clock_seconds();
        assert_true(now >= before);
        before = now;
    }
}

int run_error_tests(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_has_name_and_text),
        cmocka_unit_test(error_fills_the_record),
        cmocka_unit_test(error_needs_no_record),
        cmocka_unit_test(error_wraps_its_own_message),
        cmocka_unit_test(error_cuts_what_does_not_fit),
        cmocka_unit_test(message_is_one_printable_line),
        cmocka_unit_test(message_is_cut_between_characters),
        cmocka_unit_test(message_that_cannot_be_formatted),
        cmocka_unit_test(log_passes_on),
        cmocka_unit_test(log_may_be_absent),
        cmocka_unit_test(clock_never_goes_back),
    };
    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
