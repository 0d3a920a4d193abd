/* Error records.
 *
 * The message is formatted aside and copied last, so that a function may wrap the message it was given:
 * error_set(err, status, "%s: %s", path, err->message). errno survives, whatever formatting does to it. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/line.h"

const char *sluice_status_name(sluice_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, text) \
    case SLUICE_##name:                \
        return "SLUICE_" #name;
        SLUICE_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    }
    return "SLUICE_UNKNOWN";
}

const char *sluice_status_text(sluice_status status)
{
    switch (status) {
#define STATUS_TEXT(name, value, text) \
    case SLUICE_##name:                \
        return text;
        SLUICE_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "unknown status";
}

/* Formats into message, leaving room for suffix, which a long message must not push out. */
static void message_format(char *message, size_t cap, const char *suffix, const char *fmt, va_list args)
    __attribute__((format(printf, 4, 0)));

static void message_format(char *message, size_t cap, const char *suffix, const char *fmt, va_list args)
{
    size_t suffix_len = strlen(suffix);
    size_t len = line_format(message, cap - suffix_len, fmt, args);
    memcpy(message + len, suffix, suffix_len + 1);
}

static void error_fill(sluice_error *err, sluice_status status, int os_errno, const char *fmt, va_list args)
    __attribute__((format(printf, 4, 0)));

static void error_fill(sluice_error *err, sluice_status status, int os_errno, const char *fmt, va_list args)
{
    char message[sizeof(err->message)];
    char suffix[128] = "";
    char text[96];

    if (os_errno != 0) {
        snprintf(suffix, sizeof(suffix), ": %s", strerror_r(os_errno, text, sizeof(text)));
    }
    message_format(message, sizeof(message), suffix, fmt, args);
    err->status = status;
    err->os_errno = os_errno;
    memcpy(err->message, message, sizeof(message));
}

sluice_status error_set(sluice_error *err, sluice_status status, const char *fmt, ...)
{
    if (err == NULL) {
        return status;
    }
    int saved = errno;
    va_list args;
    va_start(args, fmt);
    error_fill(err, status, 0, fmt, args);
    va_end(args);
    errno = saved;
    return status;
}

sluice_status error_set_errno(sluice_error *err, sluice_status status, int os_errno, const char *fmt, ...)
{
    if (err == NULL) {
        return status;
    }
    int saved = errno;
    va_list args;
    va_start(args, fmt);
    error_fill(err, status, os_errno, fmt, args);
    va_end(args);
    errno = saved;
    return status;
}
