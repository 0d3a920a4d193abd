/* Regular files.
 *
 * A file is opened twice when direct reads are wanted: the buffered descriptor serves everything, the direct one
 * only what is aligned. A file system may accept O_DIRECT at open and refuse each read, so one block is read before
 * the direct descriptor counts. The two must be the same file, whatever was renamed between the two opens. */
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

#define BLOCK_DEFAULT 4096u
#define BLOCK_LIMIT (1u << 20)
#define READ_LIMIT ((size_t)1 << 30) /* bytes a call, below what the kernel transfers at most */

/* ---- Opening -------------------------------------------------------------------------------------- */

/* Block size that direct reads of this descriptor need; 0 when the kernel says that there are none. */
static uint32_t direct_block(int fd)
{
#ifdef STATX_DIOALIGN
    struct statx info;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 && (info.stx_mask & STATX_DIOALIGN) != 0) {
        uint32_t block = info.stx_dio_mem_align;
        if (block < info.stx_dio_offset_align) {
            block = info.stx_dio_offset_align;
        }
        bool usable = info.stx_dio_offset_align > 0 && block <= BLOCK_LIMIT && (block & (block - 1)) == 0;
        return usable ? block : 0;
    }
#else
    (void)fd;
#endif
    return BLOCK_DEFAULT;
}

/* Reads the file's first block to see whether the file system really reads directly. */
static bool direct_works(int fd, uint32_t block, uint64_t file_size)
{
    void *memory;
    if (posix_memalign(&memory, block < sizeof(void *) ? sizeof(void *) : block, block) != 0) {
        return false;
    }
    ssize_t n = os_pread(fd, memory, block, 0);
    free(memory);
    return n >= 0 && (uint64_t)n == (file_size < block ? file_size : block);
}

static bool same_file(int fd, const struct stat *info)
{
    struct stat other;
    return fstat(fd, &other) == 0 && other.st_dev == info->st_dev && other.st_ino == info->st_ino;
}

/* Adds the direct descriptor where the file system grants it. */
static void open_direct(struct os_file *file, const struct stat *info)
{
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (fd < 0) {
        return;
    }
    uint32_t block = same_file(fd, info) ? direct_block(fd) : 0;
    if (block == 0 || !direct_works(fd, block, file->size)) {
        close(fd);
        return;
    }
    file->fd_direct = fd;
    file->block = block;
}

static sluice_status check_regular(const struct stat *info, const char *path, sluice_error *err)
{
    if (S_ISDIR(info->st_mode)) {
        return error_set(err, SLUICE_IO, "%s: is a directory, not a file", path);
    }
    if (!S_ISREG(info->st_mode)) {
        return error_set(err, SLUICE_IO, "%s: not a regular file", path);
    }
    return SLUICE_OK;
}

sluice_status os_file_open(struct os_file *out, const char *path, bool direct, sluice_error *err)
{
    sluice_status status = SLUICE_OK;
    struct stat info;
    /* O_NONBLOCK: opening a named pipe must not wait for its writer; regular files ignore it */
    struct os_file file = {.fd_direct = -1, .block = BLOCK_DEFAULT};
    file.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file.fd < 0) {
        return error_set_errno(err, SLUICE_IO, errno, "%s: cannot open", path);
    }
    if (fstat(file.fd, &info) != 0) {
        status = error_set_errno(err, SLUICE_IO, errno, "%s: cannot be examined", path);
        goto fail;
    }
    status = check_regular(&info, path, err);
    if (status != SLUICE_OK) {
        goto fail;
    }
    size_t path_size = strlen(path) + 1;
    file.size = (uint64_t)info.st_size;
    file.path = mem_zalloc(path_size, 1);
    if (file.path == NULL) {
        status = error_set(err, SLUICE_NO_MEMORY, "%s: out of memory for its path", path);
        goto fail;
    }
    memcpy(file.path, path, path_size);
    if (direct) {
        open_direct(&file, &info);
    }
    *out = file;
    return SLUICE_OK;
fail:
    close(file.fd);
    return status;
}

void os_file_close(struct os_file *file)
{
    if (file->path == NULL) {
        return;
    }
    close(file->fd);
    if (file->fd_direct >= 0) {
        close(file->fd_direct);
    }
    free(file->path);
    *file = (struct os_file){.fd = -1, .fd_direct = -1};
}

/* ---- Reading -------------------------------------------------------------------------------------- */

#define BUSY_TRIES 1000 /* EAGAIN, a millisecond apart, before a read fails with it */

static void pause_briefly(void)
{
    const struct timespec millisecond = {.tv_nsec = 1000000};
    nanosleep(&millisecond, NULL);
}

ssize_t os_pread(int fd, void *dst, size_t len, uint64_t offset)
{
    for (unsigned i = 0; i < BUSY_TRIES;) {
        ssize_t n = pread(fd, dst, len, (off_t)offset);
        if (n >= 0) {
            return n;
        }
        if (errno == EAGAIN) {
            pause_briefly();
            i++;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return -EAGAIN;
}

sluice_status os_file_read_at(const struct os_file *file, void *dst, size_t len, uint64_t offset, sluice_error *err)
{
    unsigned char *bytes = dst;
    size_t got = 0;
    if (offset > INT64_MAX || len > INT64_MAX - offset) {
        return error_set(err, SLUICE_IO, "%s: is shorter than the %zu bytes at offset %" PRIu64 " need", file->path,
                         len, offset);
    }
    while (got < len) {
        size_t wanted = len - got < READ_LIMIT ? len - got : READ_LIMIT;
        ssize_t n = os_pread(file->fd, bytes + got, wanted, offset + got);
        if (n < 0) {
            return error_set_errno(err, SLUICE_IO, (int)-n, "%s: cannot read %zu bytes at offset %" PRIu64, file->path,
                                   len, offset);
        }
        if (n == 0) {
            return error_set(err, SLUICE_IO,
                             "%s: is shorter than expected: ends at %" PRIu64
                             ", %zu bytes are needed at offset %" PRIu64,
                             file->path, offset + got, len, offset);
        }
        got += (size_t)n;
    }
    return SLUICE_OK;
}

/* ---- Replacing ------------------------------------------------------------------------------------ */

#define TEMP_SUFFIX_CAP 48
#define TEMP_TRIES 100

/* Creates a new file beside path, with the permissions that any new file gets, and writes its name to temp. */
static int open_temp(const char *path, char *temp, size_t cap)
{
    for (unsigned i = 0; i < TEMP_TRIES; i++) {
        snprintf(temp, cap, "%s.%ld-%u.tmp", path, (long)getpid(), i);
        int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) {
            return fd;
        }
    }
    return -1;
}

/* 0 or an errno. */
static int write_all(int fd, const unsigned char *data, size_t len)
{
    size_t done = 0;
    while (done < len) {
        size_t wanted = len - done < READ_LIMIT ? len - done : READ_LIMIT;
        ssize_t n = write(fd, data + done, wanted);
        if (n < 0 && errno != EINTR) {
            return errno;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Writes, syncs and closes the temporary, then takes path's place with it. 0 or an errno. */
static int finish_temp(int fd, const char *temp, const char *path, const void *data, size_t len)
{
    int failure = write_all(fd, data, len);
    if (failure == 0 && fsync(fd) != 0) {
        failure = errno;
    }
    if (close(fd) != 0 && failure == 0) {
        failure = errno;
    }
    if (failure == 0 && rename(temp, path) != 0) {
        failure = errno;
    }
    if (failure != 0) {
        unlink(temp);
    }
    return failure;
}

/* Makes the rename last through a power cut. dir holds path and is cut to its directory here. File systems that
 * cannot sync a directory say EINVAL: nothing more can be done there. */
static int sync_directory(char *dir)
{
    char *slash = strrchr(dir, '/');
    if (slash == NULL) {
        memcpy(dir, ".", 2);
    } else {
        slash[slash == dir ? 1 : 0] = '\0';
    }
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    int failure = fsync(fd) != 0 && errno != EINVAL ? errno : 0;
    close(fd);
    return failure;
}

sluice_status os_file_replace(const char *path, const void *data, size_t len, sluice_error *err)
{
    size_t cap = strlen(path) + TEMP_SUFFIX_CAP;
    char *temp = mem_zalloc(cap, 1);
    if (temp == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "%s: out of memory for its path", path);
    }
    int failure;
    int fd = open_temp(path, temp, cap);
    if (fd < 0) {
        failure = errno;
    } else {
        failure = finish_temp(fd, temp, path, data, len);
    }
    if (failure == 0) {
        failure = sync_directory(temp);
    }
    free(temp);
    if (failure != 0) {
        return error_set_errno(err, SLUICE_IO, failure, "%s: cannot be written", path);
    }
    return SLUICE_OK;
}
