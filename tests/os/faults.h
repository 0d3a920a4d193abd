/* System calls that misbehave when a test says so. */
#ifndef SLUICE_TESTS_OS_FAULTS_H
#define SLUICE_TESTS_OS_FAULTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum fault_call { FAULT_WRITE, FAULT_FSYNC, FAULT_RENAME, FAULT_MMAP, FAULT_THREAD, FAULT_CALLS };

/* Makes one call fail with an errno: the next for 0, the one after for 1. */
void fault_fail(enum fault_call call, int nth, int os_errno);

/* Bytes that one write takes at most. */
void fault_write_most(size_t most);

/* Takes the place of pread; fault_real_pread is the real one. */
typedef ssize_t fault_pread(int fd, void *dst, size_t len, off_t offset);
void fault_set_pread(fault_pread *pread_instead);
ssize_t fault_real_pread(int fd, void *dst, size_t len, off_t offset);

/* Everything works again. Its form fits a cmocka tear-down. */
int fault_reset(void **state);

#endif
