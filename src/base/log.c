/* Messages and progress through the caller's callbacks. Messages are one printable line, as errors are: they quote
 * names out of untrusted files too. */
#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>

#include "base/line.h"

#define LINE_CAP 1024

void log_message(const struct log *log, const char *fmt, ...)
{
    if (log == NULL || log->message == NULL) {
        return;
    }
    char line[LINE_CAP];
    va_list args;
    va_start(args, fmt);
    line_format(line, sizeof(line), fmt, args);
    va_end(args);
    log->message(log->user, line);
}

void log_progress(const struct log *log, const char *what, uint64_t done, uint64_t total)
{
    if (log != NULL && log->progress != NULL) {
        log->progress(log->user, what, done, total);
    }
}

bool log_cancelled(const struct log *log)
{
    return log != NULL && log->cancelled != NULL && log->cancelled(log->user);
}
