/* What the command says: answers on standard output, everything else on standard error.
 *
 * Standard error carries single lines that begin with "sluice: ", and on a terminal one progress line
 * (progress.h), which is erased before anything else is written. A failed write to standard output is
 * remembered: what follows is dropped, and console_finish reports it. The state is the process's own, as
 * the streams are. */
#ifndef SLUICE_TOOLS_CONSOLE_H
#define SLUICE_TOOLS_CONSOLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sluice/sluice.h"

/* quiet: no notes, no warnings, no progress. Errors are always said. */
void console_set_quiet(bool quiet);

/* ---- Standard output ---- */

void console_answer(const void *bytes, size_t len);
void console_answer_text(const char *text);
void console_answer_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void console_answer_json(const json_t *value);          /* one line, keys in the order they were set */
void console_answer_ids(const uint32_t *ids, size_t n); /* "1,2,3" and a newline */
bool console_flush(void);                               /* false once a write has failed */
sluice_status console_finish(sluice_error *err);        /* flushes; SLUICE_IO if anything was lost */

/* ---- Standard error ---- */

void console_error(const sluice_error *err);                                   /* "sluice: ..." */
void console_note(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* the same, unless quiet */
void console_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));  /* a line as it is, quiet or not */

/* Callbacks of sluice_engine_options; user is not used. */
void console_message(void *user, const char *line);
void console_progress(void *user, const char *what, uint64_t done, uint64_t total);

#endif
