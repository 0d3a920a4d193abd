/* A directory of its own for a test that needs files, and files with given contents in it. */
#ifndef SLUICE_TESTS_TEMP_DIR_H
#define SLUICE_TESTS_TEMP_DIR_H

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct temp_dir {
    char path[64];
};

/* 0 on success, so that it can end a cmocka set-up function. */
static inline int temp_dir_make(struct temp_dir *dir)
{
    memcpy(dir->path, "/tmp/sluice-test-XXXXXX", sizeof("/tmp/sluice-test-XXXXXX"));
    return mkdtemp(dir->path) == NULL ? -1 : 0;
}

static inline int temp_dir_remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

/* Removes the directory with all it holds. */
static inline int temp_dir_remove(const struct temp_dir *dir)
{
    return nftw(dir->path, temp_dir_remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* "<dir>/<name>" in one of eight buffers that take turns. */
static inline const char *temp_dir_path(const struct temp_dir *dir, const char *name)
{
    static char paths[8][512];
    static unsigned turn;
    char *path = paths[turn++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", dir->path, name);
    return path;
}

/* Writes a file and returns its path. Directories on the way to it are made. */
static inline const char *temp_dir_write(const struct temp_dir *dir, const char *name, const void *data, size_t len)
{
    const char *path = temp_dir_path(dir, name);
    char parent[512];
    for (const char *slash = strchr(path + strlen(dir->path) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
        mkdir(parent, 0755);
    }
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, len, file) != len || fclose(file) != 0) {
        perror(path);
        abort();
    }
    return path;
}

#endif
