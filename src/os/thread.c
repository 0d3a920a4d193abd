/* Threads inherit the signal mask of their creator, so it is full while one is created. */
#include "os/thread.h"

#include <signal.h>

int os_thread_start(pthread_t *out, void *(*run)(void *), void *arg, const char *name)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure == 0) {
        pthread_setname_np(*out, name);
    }
    return failure;
}
