/* Interrupts: see interrupt.h. */
#include "interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static _Atomic(sluice_session *) watched;
static volatile sig_atomic_t happened;

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP};

static void interrupt_handle(int signal_number)
{
    sluice_session *session = atomic_load(&watched);

    (void)signal_number;
    happened = 1;
    if (session != NULL) {
        sluice_session_cancel(session);
    }
}

void interrupt_watch(sluice_session *session, bool once)
{
    struct sigaction action = {.sa_handler = interrupt_handle, .sa_flags = once ? (int)SA_RESETHAND : 0};
    size_t n = once ? sizeof ending_signals / sizeof ending_signals[0] : 1;

    sigemptyset(&action.sa_mask);
    atomic_store(&watched, session);
    for (size_t i = 0; i < n; i++) {
        struct sigaction before;
        /* What the caller ignores stays ignored, as for a program under nohup. */
        if (sigaction(ending_signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
            sigaction(ending_signals[i], &action, NULL);
        }
    }
}

void interrupt_unwatch(void)
{
    atomic_store(&watched, NULL);
}

bool interrupt_happened(void)
{
    return happened != 0;
}

void interrupt_clear(void)
{
    happened = 0;
}
