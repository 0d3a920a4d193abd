/* Taking turns: a lock that is fair and can be waited for with a cancel flag.
 *
 * The sessions of an engine compute one chunk or token each, in the order in which they asked. A plain
 * mutex would let a session that loops take it again and again while the others starve. A waiter looks at
 * its cancel flag every TURN_POLL_MS, because a flag set by a signal handler can wake nobody. */
#ifndef SLUICE_ENGINE_TURN_H
#define SLUICE_ENGINE_TURN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"

#define TURN_POLL_MS 50

/* Lives on the waiting thread's stack. */
struct turn_waiter {
    struct turn_waiter *next;
};

struct turn {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool taken;
    struct turn_waiter *first, *last; /* oldest and newest waiter */
};

sluice_status turn_init(struct turn *turn, sluice_error *err);
void turn_destroy(struct turn *turn); /* nobody holds it or waits */

/* Waits for the turn; SLUICE_CANCELLED, without it, once *cancel is true. */
sluice_status turn_take(struct turn *turn, const atomic_bool *cancel, sluice_error *err);
void turn_give(struct turn *turn);

#endif
