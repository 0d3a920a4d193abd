/* Background reads by a pool of threads over pread.
 *
 * Requests are linked through their own `next` into one of two queues, so submitting never allocates; demand is
 * always taken before speculation. The lock guards the queues and `closing`, nothing else: a thread reads, and calls
 * `done`, without it, so `done` may submit again. Once taken from its queue a request belongs to whoever took it
 * (a thread, cancel or close), which calls `done` exactly once and does not touch it afterwards. */
#include "os/async_read.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "os/thread.h"

#define THREADS_LIMIT 256
#define PRIORITIES 2

struct queue {
    struct async_read *first;
    struct async_read **end; /* where the next one is linked */
};

struct async_reader {
    pthread_mutex_t lock;
    pthread_cond_t work;             /* a request was queued, or closing was set */
    struct queue queues[PRIORITIES]; /* by enum async_priority */
    bool closing;
    unsigned n_threads; /* started */
    char name[32];
    pthread_t threads[];
};

/* ---- Queues --------------------------------------------------------------------------------------- */

static void queue_init(struct queue *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
}

static void queue_push(struct queue *queue, struct async_read *read)
{
    read->next = NULL;
    *queue->end = read;
    queue->end = &read->next;
}

static struct async_read *queue_pop(struct queue *queue)
{
    struct async_read *read = queue->first;
    if (read != NULL) {
        queue->first = read->next;
        if (queue->first == NULL) {
            queue->end = &queue->first;
        }
    }
    return read;
}

/* Moves the requests of a user, or all of them, to the end of `to`; the order stays. */
static void queue_move(struct queue *from, struct queue *to, bool all, const void *user)
{
    struct queue kept;
    queue_init(&kept);
    for (struct async_read *read = queue_pop(from); read != NULL; read = queue_pop(from)) {
        queue_push(all || read->user == user ? to : &kept, read);
    }
    for (struct async_read *read = queue_pop(&kept); read != NULL; read = queue_pop(&kept)) {
        queue_push(from, read);
    }
}

static void complete_cancelled(struct queue *cancelled)
{
    for (struct async_read *read = queue_pop(cancelled); read != NULL; read = queue_pop(cancelled)) {
        read->os_errno = ECANCELED;
        read->done(read);
    }
}

/* ---- One read ------------------------------------------------------------------------------------- */

static bool is_direct(const struct async_read *read)
{
    uint64_t mask = (uint64_t)read->file->block - 1;
    return read->file->fd_direct >= 0 && ((read->offset | read->len | (uintptr_t)read->dst) & mask) == 0;
}

/* Reads until everything arrived, the file ended or a read failed. A direct read that leaves an unaligned rest, or
 * that the file system refuses after all, goes on through the buffered descriptor. */
static void read_execute(struct async_read *read)
{
    bool direct = is_direct(read);
    unsigned char *dst = read->dst;
    uint32_t got = 0;
    int failure = 0;
    while (got < read->len) {
        int fd = direct ? read->file->fd_direct : read->file->fd;
        ssize_t n = os_pread(fd, dst + got, read->len - got, read->offset + got);
        if (n == -EINVAL && direct) {
            direct = false;
            continue;
        }
        if (n <= 0) {
            failure = n < 0 ? (int)-n : ENODATA;
            break;
        }
        got += (uint32_t)n;
        direct = direct && got % read->file->block == 0;
    }
    read->got = got;
    read->os_errno = got >= read->needed ? 0 : failure;
}

/* ---- Threads -------------------------------------------------------------------------------------- */

/* Next request by priority; waits for one. NULL when the reader closes. */
static struct async_read *next_request(struct async_reader *reader)
{
    struct async_read *read = NULL;
    pthread_mutex_lock(&reader->lock);
    for (;;) {
        for (size_t i = 0; i < PRIORITIES && read == NULL; i++) {
            read = queue_pop(&reader->queues[i]);
        }
        if (read != NULL || reader->closing) {
            break;
        }
        pthread_cond_wait(&reader->work, &reader->lock);
    }
    pthread_mutex_unlock(&reader->lock);
    return read;
}

static void *reader_thread(void *arg)
{
    struct async_reader *reader = arg;
    for (;;) {
        struct async_read *read = next_request(reader);
        if (read == NULL) {
            return NULL;
        }
        read_execute(read);
        read->done(read);
    }
}

/* ---- Interface ------------------------------------------------------------------------------------ */

sluice_status async_reader_open(struct async_reader **out, unsigned n_threads, sluice_error *err)
{
    if (n_threads < 1 || n_threads > THREADS_LIMIT) {
        return error_set(err, SLUICE_INVALID, "reader: %u threads, must be from 1 to %u", n_threads, THREADS_LIMIT);
    }
    struct async_reader *reader = mem_zalloc(1, sizeof(*reader) + n_threads * sizeof(reader->threads[0]));
    if (reader == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "reader: out of memory for %u threads", n_threads);
    }
    pthread_mutex_init(&reader->lock, NULL);
    pthread_cond_init(&reader->work, NULL);
    for (size_t i = 0; i < PRIORITIES; i++) {
        queue_init(&reader->queues[i]);
    }
    snprintf(reader->name, sizeof(reader->name), "pread x%u", n_threads);
    for (unsigned i = 0; i < n_threads; i++) {
        int failure = os_thread_start(&reader->threads[i], reader_thread, reader, "sluice-read");
        if (failure != 0) {
            async_reader_close(&reader);
            return error_set_errno(err, SLUICE_NO_MEMORY, failure, "reader: cannot start thread %u of %u", i + 1,
                                   n_threads);
        }
        reader->n_threads++;
    }
    *out = reader;
    return SLUICE_OK;
}

void async_reader_close(struct async_reader **reader_ptr)
{
    struct async_reader *reader = *reader_ptr;
    struct queue cancelled;
    if (reader == NULL) {
        return;
    }
    queue_init(&cancelled);
    pthread_mutex_lock(&reader->lock);
    reader->closing = true;
    for (size_t i = 0; i < PRIORITIES; i++) {
        queue_move(&reader->queues[i], &cancelled, true, NULL);
    }
    pthread_cond_broadcast(&reader->work);
    pthread_mutex_unlock(&reader->lock);

    complete_cancelled(&cancelled);
    for (unsigned i = 0; i < reader->n_threads; i++) {
        pthread_join(reader->threads[i], NULL);
    }
    pthread_cond_destroy(&reader->work);
    pthread_mutex_destroy(&reader->lock);
    free(reader);
    *reader_ptr = NULL;
}

void async_reader_submit(struct async_reader *reader, struct async_read *read)
{
    read->os_errno = 0;
    read->got = 0;
    pthread_mutex_lock(&reader->lock);
    bool closing = reader->closing;
    if (!closing) {
        queue_push(&reader->queues[read->priority], read);
        pthread_cond_signal(&reader->work);
    }
    pthread_mutex_unlock(&reader->lock);
    if (closing) { /* a `done` that submits again while the reader closes */
        read->os_errno = ECANCELED;
        read->done(read);
    }
}

void async_reader_cancel(struct async_reader *reader, const void *user)
{
    struct queue cancelled;
    queue_init(&cancelled);
    pthread_mutex_lock(&reader->lock);
    for (size_t i = 0; i < PRIORITIES; i++) {
        queue_move(&reader->queues[i], &cancelled, false, user);
    }
    pthread_mutex_unlock(&reader->lock);
    complete_cancelled(&cancelled);
}

const char *async_reader_name(const struct async_reader *reader)
{
    return reader->name;
}
