/* Turns: one holder at a time, first come first served, and waiting that can be cancelled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <time.h>

#include "engine/turn.h"

#define N_THREADS 4

struct shared {
    struct turn turn;
    atomic_bool never;
    atomic_int waiting; /* threads that are about to ask for the turn */
    int inside;         /* guarded by the turn */
    int order[N_THREADS];
    int n_served;
};

struct worker {
    struct shared *shared;
    pthread_t thread;
    int id;
    atomic_bool cancel;
    sluice_status status;
};

static void pause_ms(long ms)
{
    struct timespec time = {.tv_nsec = ms * 1000000};
    nanosleep(&time, NULL);
}

static int queue_length(struct turn *turn)
{
    int n = 0;
    pthread_mutex_lock(&turn->lock);
    for (const struct turn_waiter *waiter = turn->first; waiter != NULL; waiter = waiter->next) {
        n++;
    }
    pthread_mutex_unlock(&turn->lock);
    return n;
}

static void wait_for_queue(struct turn *turn, int n)
{
    for (int i = 0; i < 5000 && queue_length(turn) != n; i++) {
        pause_ms(1);
    }
    assert_int_equal(queue_length(turn), n);
}

static int set_up(void **state)
{
    static struct shared shared;
    shared = (struct shared){.n_served = 0};
    *state = &shared;
    return turn_init(&shared.turn, NULL) == SLUICE_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    struct shared *shared = *state;
    turn_destroy(&shared->turn);
    return 0;
}

static void *take_once(void *arg)
{
    struct worker *worker = arg;
    struct shared *shared = worker->shared;
    worker->status = turn_take(&shared->turn, &worker->cancel, NULL);
    if (worker->status == SLUICE_OK) {
        shared->order[shared->n_served++] = worker->id;
        turn_give(&shared->turn);
    }
    return NULL;
}

static void *take_often(void *arg)
{
    struct worker *worker = arg;
    struct shared *shared = worker->shared;
    for (int i = 0; i < 2000 && worker->status == SLUICE_OK; i++) {
        worker->status = turn_take(&shared->turn, &shared->never, NULL);
        shared->inside++;
        if (shared->inside != 1) {
            worker->status = SLUICE_BUSY;
        }
        shared->inside--;
        turn_give(&shared->turn);
    }
    return NULL;
}

static void start(struct worker *worker, struct shared *shared, int id, void *(*run)(void *))
{
    worker->shared = shared;
    worker->id = id;
    worker->status = SLUICE_OK;
    atomic_init(&worker->cancel, false);
    assert_int_equal(pthread_create(&worker->thread, NULL, run, worker), 0);
}

static void test_one_at_a_time(void **state)
{
    struct shared *shared = *state;
    struct worker workers[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        start(&workers[i], shared, i, take_often);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].status, SLUICE_OK);
    }
    assert_int_equal(queue_length(&shared->turn), 0);
}

static void test_first_come_first_served(void **state)
{
    struct shared *shared = *state;
    struct worker workers[N_THREADS];
    assert_int_equal(turn_take(&shared->turn, &shared->never, NULL), SLUICE_OK);
    for (int i = 0; i < N_THREADS; i++) {
        start(&workers[i], shared, i, take_once);
        wait_for_queue(&shared->turn, i + 1);
    }
    turn_give(&shared->turn);
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(shared->order[i], i);
    }
}

/* The second of three waiters leaves; the others are served in order. The first is cancelled next. */
static void test_cancelled_waiters(void **state)
{
    struct shared *shared = *state;
    struct worker workers[3];
    assert_int_equal(turn_take(&shared->turn, &shared->never, NULL), SLUICE_OK);
    for (int i = 0; i < 3; i++) {
        start(&workers[i], shared, i, take_once);
        wait_for_queue(&shared->turn, i + 1);
    }
    static const int leaving[] = {1, 0};
    for (int i = 0; i < 2; i++) {
        atomic_store(&workers[leaving[i]].cancel, true);
        pthread_join(workers[leaving[i]].thread, NULL);
        assert_int_equal(workers[leaving[i]].status, SLUICE_CANCELLED);
    }
    wait_for_queue(&shared->turn, 1);
    turn_give(&shared->turn);
    pthread_join(workers[2].thread, NULL);
    assert_int_equal(workers[2].status, SLUICE_OK);
    assert_int_equal(shared->n_served, 1);
    assert_int_equal(turn_take(&shared->turn, &shared->never, NULL), SLUICE_OK);
    turn_give(&shared->turn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_at_a_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_first_come_first_served, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cancelled_waiters, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
