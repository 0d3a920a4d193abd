/* A first-come, first-served lock over a mutex, a condition and a queue of waiters on their own stacks. */
#include "engine/turn.h"

#include <time.h>

sluice_status turn_init(struct turn *turn, sluice_error *err)
{
    pthread_condattr_t attributes;
    int failed = pthread_condattr_init(&attributes);
    if (failed != 0) {
        return error_set_errno(err, SLUICE_NO_MEMORY, failed, "engine lock");
    }
    failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (failed == 0) {
        failed = pthread_cond_init(&turn->changed, &attributes);
    }
    pthread_condattr_destroy(&attributes);
    if (failed != 0) {
        return error_set_errno(err, SLUICE_NO_MEMORY, failed, "engine lock");
    }
    failed = pthread_mutex_init(&turn->lock, NULL);
    if (failed != 0) {
        pthread_cond_destroy(&turn->changed);
        return error_set_errno(err, SLUICE_NO_MEMORY, failed, "engine lock");
    }
    turn->taken = false;
    turn->first = NULL;
    turn->last = NULL;
    return SLUICE_OK;
}

void turn_destroy(struct turn *turn)
{
    pthread_cond_destroy(&turn->changed);
    pthread_mutex_destroy(&turn->lock);
}

static void enqueue(struct turn *turn, struct turn_waiter *waiter)
{
    waiter->next = NULL;
    if (turn->last != NULL) {
        turn->last->next = waiter;
    } else {
        turn->first = waiter;
    }
    turn->last = waiter;
}

/* Takes a waiter out of the queue, wherever it stands. */
static void dequeue(struct turn *turn, const struct turn_waiter *waiter)
{
    struct turn_waiter *before = NULL;
    struct turn_waiter **link = &turn->first;
    while (*link != waiter) {
        before = *link;
        link = &before->next;
    }
    *link = waiter->next;
    if (turn->last == waiter) {
        turn->last = before;
    }
}

static void wait_a_while(struct turn *turn)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += TURN_POLL_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec += 1;
        until.tv_nsec -= 1000000000L;
    }
    pthread_cond_timedwait(&turn->changed, &turn->lock, &until);
}

sluice_status turn_take(struct turn *turn, const atomic_bool *cancel, sluice_error *err)
{
    struct turn_waiter self;
    bool cancelled = false;
    pthread_mutex_lock(&turn->lock);
    enqueue(turn, &self);
    while (turn->taken || turn->first != &self) {
        cancelled = atomic_load(cancel);
        if (cancelled) {
            break;
        }
        wait_a_while(turn);
    }
    dequeue(turn, &self);
    if (cancelled) {
        pthread_cond_broadcast(&turn->changed); /* the next in line may be first now */
    } else {
        turn->taken = true;
    }
    pthread_mutex_unlock(&turn->lock);
    return cancelled ? error_set(err, SLUICE_CANCELLED, "cancelled while waiting for another session") : SLUICE_OK;
}

void turn_give(struct turn *turn)
{
    pthread_mutex_lock(&turn->lock);
    turn->taken = false;
    pthread_cond_broadcast(&turn->changed);
    pthread_mutex_unlock(&turn->lock);
}
