/* The progress line: see progress.h. */
#include "progress.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "numbers.h"

#define INTERVAL_MS 100
#define DELAY_SECONDS 0.3 /* work shorter than this shows no line */

static struct {
    pthread_mutex_t lock; /* guards what follows, and the terminal */
    pthread_cond_t changed;
    bool started; /* the thread runs */
    bool active;  /* there is work to show */
    bool shown;   /* the line stands on the terminal */
    char what[32];
    uint64_t done, total;
    double since; /* when this work was first reported */
    const sluice_engine *engine;
} progress = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* The functions down to progress_report are called with the lock held. */

static void line_erase(void)
{
    if (progress.shown) {
        fputs("\r\033[K", stderr);
        progress.shown = false;
    }
}

static void line_draw(void)
{
    if (strcmp(progress.what, "prefill") != 0) {
        double share = progress.total > 0 ? (double)progress.done / (double)progress.total : 0;
        fprintf(stderr, "\r\033[K%s %3.0f%%", progress.what, 100 * share);
    } else {
        fprintf(stderr, "\r\033[Kprefill %" PRIu64 "/%" PRIu64 " tokens", progress.done, progress.total);
        if (progress.engine != NULL) {
            sluice_stats stats;
            char bytes[32];
            sluice_engine_get_stats(progress.engine, &stats);
            number_format_bytes(stats.bytes_read, bytes, sizeof bytes);
            fprintf(stderr, ", %s read", bytes);
        }
    }
    fflush(stderr);
    progress.shown = true;
}

static void *line_keep(void *unused)
{
    const struct timespec interval = {.tv_nsec = INTERVAL_MS * 1000000L};

    (void)unused;
    pthread_mutex_lock(&progress.lock);
    for (;;) {
        while (!progress.active) {
            pthread_cond_wait(&progress.changed, &progress.lock);
        }
        pthread_mutex_unlock(&progress.lock);
        nanosleep(&interval, NULL);
        pthread_mutex_lock(&progress.lock);
        if (progress.active && clock_seconds() - progress.since >= DELAY_SECONDS) {
            line_draw();
        }
    }
    return NULL;
}

/* Starts the thread, with every signal blocked: they are the main thread's. It lives as long as the process. */
static void thread_ensure(void)
{
    sigset_t all, before;
    pthread_t thread;

    if (progress.started) {
        return;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, line_keep, NULL) == 0) {
        pthread_detach(thread);
        progress.started = true;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void progress_report(const char *what, uint64_t done, uint64_t total)
{
    if (isatty(STDERR_FILENO) == 0) {
        return;
    }
    pthread_mutex_lock(&progress.lock);
    thread_ensure();
    if (strncmp(progress.what, what, sizeof progress.what - 1) != 0) {
        snprintf(progress.what, sizeof progress.what, "%s", what);
        progress.since = clock_seconds();
    }
    progress.done = done;
    progress.total = total;
    progress.active = done < total;
    if (progress.active) {
        pthread_cond_signal(&progress.changed);
    } else {
        line_erase();
        progress.what[0] = '\0';
    }
    pthread_mutex_unlock(&progress.lock);
}

void progress_watch_engine(const sluice_engine *engine)
{
    pthread_mutex_lock(&progress.lock);
    progress.engine = engine;
    pthread_mutex_unlock(&progress.lock);
}

void progress_pause(void)
{
    pthread_mutex_lock(&progress.lock);
    line_erase();
    progress.active = false;
}

void progress_resume(void)
{
    pthread_mutex_unlock(&progress.lock);
}
