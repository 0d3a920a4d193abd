/* Ctrl-C: stops the session's work instead of the program.
 *
 * While a session is watched, an interrupt cancels the call in progress and is remembered until it is
 * cleared. Signal handlers know the session through one process-wide pointer. */
#ifndef SLUICE_TOOLS_INTERRUPT_H
#define SLUICE_TOOLS_INTERRUPT_H

#include <stdbool.h>

#include "sluice/sluice.h"

/* once: also for SIGTERM and SIGHUP, and a second signal of the kind ends the program at once. Otherwise SIGINT only,
 * as often as it comes; reads in progress then return EINTR. The session is borrowed until interrupt_unwatch. */
void interrupt_watch(sluice_session *session, bool once);
void interrupt_unwatch(void);

bool interrupt_happened(void);
void interrupt_clear(void);

#endif
