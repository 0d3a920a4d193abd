/* Files: whole positioned reads with every short read handled, and atomic replacement. */
#ifndef SLUICE_OS_FILE_H
#define SLUICE_OS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct os_file {
    int fd;         /* buffered, -1 when closed */
    int fd_direct;  /* the same file opened with O_DIRECT, -1 where that is refused or was not asked for */
    uint32_t block; /* alignment of offset, length and memory that fd_direct needs (4096 when unknown) */
    uint64_t size;  /* bytes, at open */
    char *path;     /* owned */
};

/* Opens a regular file for reading; SLUICE_IO with errno otherwise (ENOENT: missing). `direct` also tries O_DIRECT,
 * tested with one read; that it is refused is no failure. */
sluice_status os_file_open(struct os_file *out, const char *path, bool direct, sluice_error *err);
void os_file_close(struct os_file *file); /* safe on a closed one */

/* One pread, repeated while it is interrupted, and for about a second while the device is busy (EAGAIN). Bytes read, 0
 * at the end of the file, -errno on failure. */
ssize_t os_pread(int fd, void *dst, size_t len, uint64_t offset);

/* Reads exactly len bytes at offset through the buffered descriptor; a short file is SLUICE_IO naming it. On failure
 * dst may be partly written. Any number of threads may read one file. */
sluice_status os_file_read_at(const struct os_file *file, void *dst, size_t len, uint64_t offset, sluice_error *err);

/* Replaces path by these bytes: write to a temporary beside it, fsync, rename, fsync of the directory. On failure
 * before the rename the old file is untouched and the temporary removed. */
sluice_status os_file_replace(const char *path, const void *data, size_t len, sluice_error *err);

#endif
