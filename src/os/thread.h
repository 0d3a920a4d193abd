/* Starting a thread of the library. */
#ifndef SLUICE_OS_THREAD_H
#define SLUICE_OS_THREAD_H

#include <pthread.h>

/* Starts a thread that takes no signal (those are for the program's own threads) and shows `name`, at most 15
 * characters, in system tools. Returns 0 or an errno. */
int os_thread_start(pthread_t *out, void *(*run)(void *), void *arg, const char *name);

#endif
