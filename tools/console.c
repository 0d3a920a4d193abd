/* The two output streams: see console.h. */
#include "console.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/line.h"
#include "progress.h"

static struct {
    bool quiet;
    int write_errno; /* of the first write to standard output that failed, 0 */
} console;

void console_set_quiet(bool quiet)
{
    console.quiet = quiet;
}

void console_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user;
    if (!console.quiet) {
        progress_report(what, done, total);
    }
}

/* ---- Standard output ---- */

static void answer_failed(void)
{
    if (console.write_errno == 0) {
        console.write_errno = errno != 0 ? errno : EIO;
    }
}

void console_answer(const void *bytes, size_t len)
{
    if (console.write_errno != 0 || len == 0) {
        return;
    }
    progress_pause();
    errno = 0;
    if (fwrite(bytes, 1, len, stdout) != len) {
        answer_failed();
    }
    progress_resume();
}

void console_answer_text(const char *text)
{
    console_answer(text, strlen(text));
}

void console_answer_printf(const char *fmt, ...)
{
    va_list args;

    if (console.write_errno != 0) {
        return;
    }
    progress_pause();
    errno = 0;
    va_start(args, fmt);
    if (vprintf(fmt, args) < 0) {
        answer_failed();
    }
    va_end(args);
    progress_resume();
}

static int answer_json_piece(const char *piece, size_t len, void *data)
{
    (void)data;
    console_answer(piece, len);
    return 0;
}

void console_answer_json(const json_t *value)
{
    if (json_dump_callback(value, answer_json_piece, NULL, JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0) {
        errno = ENOMEM;
        answer_failed();
    }
    console_answer_text("\n");
}

void console_answer_ids(const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        console_answer_printf(i > 0 ? ",%" PRIu32 : "%" PRIu32, ids[i]);
    }
    console_answer_text("\n");
}

bool console_flush(void)
{
    if (console.write_errno == 0) {
        errno = 0;
        if (fflush(stdout) != 0 || ferror(stdout)) {
            answer_failed();
        }
    }
    return console.write_errno == 0;
}

sluice_status console_finish(sluice_error *err)
{
    progress_pause();
    progress_resume();
    if (!console_flush()) {
        return error_set_errno(err, SLUICE_IO, console.write_errno, "standard output");
    }
    return SLUICE_OK;
}

/* ---- Standard error ---- */

/* One printable line, whatever the arguments hold. */
static void line_say(const char *prefix, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));

static void line_say(const char *prefix, const char *fmt, va_list args)
{
    char line[1024];

    line_format(line, sizeof line, fmt, args);
    progress_pause();
    fprintf(stderr, "%s%s\n", prefix, line);
    progress_resume();
}

void console_error(const sluice_error *err)
{
    console_flush();
    progress_pause();
    fprintf(stderr, "sluice: %s\n", err->message);
    progress_resume();
}

void console_note(const char *fmt, ...)
{
    va_list args;

    if (console.quiet) {
        return;
    }
    console_flush();
    va_start(args, fmt);
    line_say("sluice: ", fmt, args);
    va_end(args);
}

void console_say(const char *fmt, ...)
{
    va_list args;

    console_flush();
    va_start(args, fmt);
    line_say("", fmt, args);
    va_end(args);
}

void console_message(void *user, const char *line)
{
    (void)user;
    console_note("%s", line);
}
