/* Wrapped system calls. Counters are atomic: threads of the library call them. nanosleep returns at once, so that
 * tests of retries do not wait. */
#include "faults.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <time.h>

#include "support/fault_alloc.h"

static struct {
    atomic_int countdown; /* calls up to and with the one that fails; 0: none */
    atomic_int os_errno;
} faults[FAULT_CALLS];
static atomic_size_t write_most = SIZE_MAX;
static _Atomic(fault_pread *) pread_now = fault_real_pread;

ssize_t __real_pread64(int fd, void *dst, size_t len, off_t offset);
ssize_t __real_write(int fd, const void *data, size_t len);
int __real_fsync(int fd);
int __real_rename(const char *from, const char *to);
void *__real_mmap64(void *at, size_t len, int protection, int flags, int fd, off_t offset);
int __real_pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
ssize_t __wrap_pread64(int fd, void *dst, size_t len, off_t offset);
ssize_t __wrap_write(int fd, const void *data, size_t len);
int __wrap_fsync(int fd);
int __wrap_rename(const char *from, const char *to);
void *__wrap_mmap64(void *at, size_t len, int protection, int flags, int fd, off_t offset);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_nanosleep(const struct timespec *time, struct timespec *rest);

void fault_fail(enum fault_call call, int nth, int os_errno)
{
    atomic_store(&faults[call].os_errno, os_errno);
    atomic_store(&faults[call].countdown, nth + 1);
}

void fault_write_most(size_t most)
{
    atomic_store(&write_most, most);
}

void fault_set_pread(fault_pread *pread_instead)
{
    atomic_store(&pread_now, pread_instead);
}

ssize_t fault_real_pread(int fd, void *dst, size_t len, off_t offset)
{
    return __real_pread64(fd, dst, len, offset);
}

int fault_reset(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAULT_CALLS; i++) {
        atomic_store(&faults[i].countdown, 0);
    }
    fault_write_most(SIZE_MAX);
    fault_set_pread(fault_real_pread);
    fault_alloc_fail(-1);
    return 0;
}

/* True, with errno set, when this call is the one to fail. */
static bool fails(enum fault_call call)
{
    if (atomic_load(&faults[call].countdown) <= 0 || atomic_fetch_sub(&faults[call].countdown, 1) != 1) {
        return false;
    }
    errno = atomic_load(&faults[call].os_errno);
    return true;
}

ssize_t __wrap_pread64(int fd, void *dst, size_t len, off_t offset)
{
    return atomic_load(&pread_now)(fd, dst, len, offset);
}

ssize_t __wrap_write(int fd, const void *data, size_t len)
{
    size_t most = atomic_load(&write_most);
    return fails(FAULT_WRITE) ? -1 : __real_write(fd, data, len < most ? len : most);
}

int __wrap_fsync(int fd)
{
    return fails(FAULT_FSYNC) ? -1 : __real_fsync(fd);
}

int __wrap_rename(const char *from, const char *to)
{
    return fails(FAULT_RENAME) ? -1 : __real_rename(from, to);
}

void *__wrap_mmap64(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    return fails(FAULT_MMAP) ? MAP_FAILED : __real_mmap64(at, len, protection, flags, fd, offset);
}

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    return fails(FAULT_THREAD) ? errno : __real_pthread_create(out, attr, run, arg);
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *rest)
{
    (void)time;
    (void)rest;
    return 0;
}
