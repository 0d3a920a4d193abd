/* Filling a sluice_error and passing a failure upwards.
 *
 * Functions that can fail return sluice_status and take `sluice_error *err` last; err may be NULL.
 * A message is one line and names the file, tensor or field at fault. Quoted content may hold anything: what is
 * not printable becomes '?', what does not fit is cut, the errno text never is. Arguments may point into *err, so
 * a message can be wrapped. errno is left as it was. */
#ifndef SLUICE_BASE_ERROR_H
#define SLUICE_BASE_ERROR_H

#include "sluice/status.h"

/* Records a failure and returns `status`, so that `return error_set(...)` reads as one step. */
sluice_status error_set(sluice_error *err, sluice_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with an errno: its text is appended to the message after ": ". */
sluice_status error_set_errno(sluice_error *err, sluice_status status, int os_errno, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Returns a failing status to the caller. Only for functions that hold nothing to release. */
#define TRY(expr)                          \
    do {                                   \
        sluice_status try_status = (expr); \
        if (try_status != SLUICE_OK) {     \
            return try_status;             \
        }                                  \
    } while (0)

#endif
