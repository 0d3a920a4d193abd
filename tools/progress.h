/* The progress line on a terminal.
 *
 * Work is reported as it advances; a thread of its own redraws the line a few times a second, so that a
 * step that takes minutes still shows what is being read. Work that is over soon shows nothing. Whoever
 * writes to the terminal brackets that with progress_pause and progress_resume: the line is erased, and
 * drawn again only when the work reports again. */
#ifndef SLUICE_TOOLS_PROGRESS_H
#define SLUICE_TOOLS_PROGRESS_H

#include <stdint.h>

#include "sluice/sluice.h"

/* done == total ends the work. Does nothing unless standard error is a terminal. Any thread. */
void progress_report(const char *what, uint64_t done, uint64_t total);

/* From now on a prefill's line also says how much was read; NULL ends that. The engine is borrowed. */
void progress_watch_engine(const sluice_engine *engine);

/* Between the two the calling thread has the terminal for itself. */
void progress_pause(void);
void progress_resume(void);

#endif
