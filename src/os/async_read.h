/* Positioned reads that complete in the background.
 *
 * A submitted request belongs to the reader until `done` is called for it; from then on the reader does not touch
 * it. `done` runs on a thread of the reader, or for a request that never started on the thread that cancels or
 * closes; no lock of the reader is held, so it may submit again. It must be short (take a lock, set a flag, signal).
 * The backend is chosen at open and named: today a pool of threads over pread; io_uring takes its place behind the same
 * functions later. A request reads through the direct descriptor when offset, length and memory allow it, else through
 * the buffered one. Demand requests are taken before speculative ones. Submitting allocates nothing. */
#ifndef SLUICE_OS_ASYNC_READ_H
#define SLUICE_OS_ASYNC_READ_H

#include <stdint.h>

#include "base/error.h"
#include "os/file.h"

enum async_priority { ASYNC_DEMAND, ASYNC_SPECULATIVE };

struct async_read {
    const struct os_file *file;
    void *dst;
    uint64_t offset;
    uint32_t len;    /* bytes asked for; may run past the end of the file by less than a block */
    uint32_t needed; /* of those, bytes that must arrive, else the read failed */
    enum async_priority priority;
    void (*done)(struct async_read *read); /* called exactly once */
    void *user;
    /* result, valid in done */
    int os_errno;            /* 0: success; ENODATA: the file is shorter than needed; ECANCELED: cancelled */
    uint32_t got;            /* bytes that arrived */
    struct async_read *next; /* the reader's */
};

struct async_reader;

/* n_threads 1..256: reads in flight at once. */
sluice_status async_reader_open(struct async_reader **out, unsigned n_threads, sluice_error *err);

/* Cancels what is queued, waits for what is in flight; all have been completed when it returns. What a `done` submits
 * meanwhile is cancelled at once. Sets *reader to NULL; safe on NULL. */
void async_reader_close(struct async_reader **reader);

/* file, dst, offset, len, needed, priority, done and user are the caller's to fill in, the rest is reset here. */
void async_reader_submit(struct async_reader *reader, struct async_read *read);

/* Takes queued requests of this user out of the queue and completes them with ECANCELED. Those in flight go on. */
void async_reader_cancel(struct async_reader *reader, const void *user);

/* Backend in words, e.g. "pread x8". */
const char *async_reader_name(const struct async_reader *reader);

#endif
