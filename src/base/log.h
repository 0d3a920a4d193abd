/* Messages and progress of a library that never prints: both go to callbacks the caller supplied. Long work that has
 * no session to cancel asks a third one whether it should go on. */
#ifndef SLUICE_BASE_LOG_H
#define SLUICE_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

struct log {
    void (*message)(void *user, const char *line);                                 /* may be NULL */
    void (*progress)(void *user, const char *what, uint64_t done, uint64_t total); /* may be NULL */
    bool (*cancelled)(void *user);                                                 /* may be NULL */
    void *user;
};

/* One line of warning or notice; no-op without a callback. */
void log_message(const struct log *log, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* `done` of `total` units of `what` ("loading", "prefill"); done == total ends it. log may be NULL. */
void log_progress(const struct log *log, const char *what, uint64_t done, uint64_t total);

/* True when the caller wants long work to end with SLUICE_CANCELLED. log may be NULL. */
bool log_cancelled(const struct log *log);

#endif
