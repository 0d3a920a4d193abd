/* The two output streams and the progress line: see console.h. */
#include "console.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/line.h"
#include "numbers.h"

#define PROGRESS_INTERVAL 0.1 /* seconds between two versions of the line */
#define PROGRESS_DELAY 0.3    /* work shorter than this shows none */

static struct {
    bool quiet;
    int write_errno; /* of the first write to standard output that failed, 0 */

    pthread_mutex_t lock; /* guards what follows, and writing to standard error */
    bool shown;           /* a progress line stands on the terminal */
    char what[32];        /* the work it speaks of */
    double started, last; /* of that work */
    const sluice_engine *engine;
} console = {.lock = PTHREAD_MUTEX_INITIALIZER};

void console_set_quiet(bool quiet)
{
    console.quiet = quiet;
}

/* ---- Progress ---- */

/* The caller holds the lock. */
static void progress_erase(void)
{
    if (console.shown) {
        fputs("\r\033[K", stderr);
        console.shown = false;
    }
}

static void progress_erase_locked(void)
{
    pthread_mutex_lock(&console.lock);
    progress_erase();
    pthread_mutex_unlock(&console.lock);
}

static void progress_show(const char *what, uint64_t done, uint64_t total)
{
    if (strcmp(what, "prefill") != 0) {
        fprintf(stderr, "\r\033[K%s %3.0f%%", what, total > 0 ? 100.0 * (double)done / (double)total : 0.0);
    } else {
        fprintf(stderr, "\r\033[Kprefill %" PRIu64 "/%" PRIu64 " tokens", done, total);
        if (console.engine != NULL) {
            sluice_stats stats;
            char read[32];
            sluice_engine_get_stats(console.engine, &stats);
            number_format_bytes(stats.bytes_read, read, sizeof read);
            fprintf(stderr, ", %s read", read);
        }
    }
    fflush(stderr);
    console.shown = true;
}

void console_progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user;
    if (console.quiet || isatty(STDERR_FILENO) == 0) {
        return;
    }
    double now = clock_seconds();
    pthread_mutex_lock(&console.lock);
    if (strncmp(console.what, what, sizeof console.what - 1) != 0) {
        snprintf(console.what, sizeof console.what, "%s", what);
        console.started = console.last = now;
    }
    if (done >= total) {
        progress_erase();
        console.what[0] = '\0';
    } else if (now - console.started >= PROGRESS_DELAY && now - console.last >= PROGRESS_INTERVAL) {
        progress_show(what, done, total);
        console.last = now;
    }
    pthread_mutex_unlock(&console.lock);
}

void console_watch_engine(const sluice_engine *engine)
{
    pthread_mutex_lock(&console.lock);
    console.engine = engine;
    pthread_mutex_unlock(&console.lock);
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
    progress_erase_locked();
    errno = 0;
    if (fwrite(bytes, 1, len, stdout) != len) {
        answer_failed();
    }
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
    progress_erase_locked();
    errno = 0;
    va_start(args, fmt);
    if (vprintf(fmt, args) < 0) {
        answer_failed();
    }
    va_end(args);
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
    progress_erase_locked();
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
    pthread_mutex_lock(&console.lock);
    progress_erase();
    fprintf(stderr, "%s%s\n", prefix, line);
    pthread_mutex_unlock(&console.lock);
}

void console_error(const sluice_error *err)
{
    console_flush();
    pthread_mutex_lock(&console.lock);
    progress_erase();
    fprintf(stderr, "sluice: %s\n", err->message);
    pthread_mutex_unlock(&console.lock);
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
