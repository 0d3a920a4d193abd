/* Fork-join over a fixed set of threads.
 *
 * The caller's thread takes part, so a pool of size n starts n-1 workers. Workers spin briefly after a
 * job, then sleep. Items are handed out in chunks from one atomic counter, so which thread computes an
 * item is not determined: a task must write only what its items own. One job at a time: the pool is
 * used by whoever holds the engine's compute lock; a task must not run a job itself (asserted). Running a job
 * allocates nothing. What the caller wrote before a run is seen by every task, what tasks wrote by the caller after. */
#ifndef SLUICE_OS_THREAD_POOL_H
#define SLUICE_OS_THREAD_POOL_H

#include <stddef.h>

#include "base/error.h"

struct thread_pool;

/* Computes items [begin, end). `worker` is in [0, size) and names the calling thread of this job. */
typedef void thread_pool_task(void *arg, unsigned worker, size_t begin, size_t end);

sluice_status thread_pool_open(struct thread_pool **out, unsigned size, sluice_error *err); /* size 1..1024 */
void thread_pool_close(struct thread_pool **pool);
unsigned thread_pool_size(const struct thread_pool *pool);

/* Runs task over [0, n) in chunks of at most `grain` items (0 means 1); returns when all are done. */
void thread_pool_run(struct thread_pool *pool, thread_pool_task *task, void *arg, size_t n, size_t grain);

#endif
