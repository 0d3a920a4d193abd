/* See read_fault.h. */
#include "experts/read_fault.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything below */
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static bool held;
static unsigned count, fail_first, fail_end;
static int fail_errno;

ssize_t __real_pread64(int fd, void *dst, size_t len, off_t offset);
ssize_t __wrap_pread64(int fd, void *dst, size_t len, off_t offset);

ssize_t __wrap_pread64(int fd, void *dst, size_t len, off_t offset)
{
    pthread_mutex_lock(&lock);
    unsigned number = count++;
    bool fails = number >= fail_first && number < fail_end;
    int failure = fail_errno;
    while (held) {
        pthread_cond_wait(&released, &lock);
    }
    pthread_mutex_unlock(&lock);
    if (!fails) {
        return __real_pread64(fd, dst, len, offset);
    }
    errno = failure;
    return failure == 0 ? 0 : -1;
}

void read_fault_fail(int os_errno, unsigned first, unsigned n)
{
    pthread_mutex_lock(&lock);
    fail_errno = os_errno;
    fail_first = count + first;
    fail_end = fail_first + n;
    pthread_mutex_unlock(&lock);
}

void read_fault_hold(void)
{
    pthread_mutex_lock(&lock);
    held = true;
    pthread_mutex_unlock(&lock);
}

void read_fault_go(void)
{
    pthread_mutex_lock(&lock);
    held = false;
    fail_first = fail_end = 0;
    pthread_cond_broadcast(&released);
    pthread_mutex_unlock(&lock);
}

unsigned read_fault_count(void)
{
    pthread_mutex_lock(&lock);
    unsigned n = count;
    pthread_mutex_unlock(&lock);
    return n;
}
