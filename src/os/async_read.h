/* Positioned reads that complete in the background.
 *
 * A request belongs to the caller until `done` has been called for it; `done` runs on a thread of the
 * reader and must be short (take a lock, set a flag, signal). The backend is chosen at open and named:
 * today a pool of threads over pread; io_uring takes its place behind the same functions later. A request
 * reads through the direct descriptor when offset, length and memory allow it, else through the buffered
 * one. Demand requests are taken before speculative ones. Submitting allocates nothing. */
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

sluice_status async_reader_open(struct async_reader **out, unsigned n_threads, sluice_error *err);
void async_reader_close(struct async_reader **reader); /* waits for requests in flight, cancels queued ones */
void async_reader_submit(struct async_reader *reader, struct async_read *read);

/* Takes queued requests of this user out of the queue and completes them with ECANCELED. */
void async_reader_cancel(struct async_reader *reader, const void *user);

/* Backend in words, e.g. "pread x8". */
const char *async_reader_name(const struct async_reader *reader);

#endif
