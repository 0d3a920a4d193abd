/* Memory limits and use, from /proc and the cgroup file systems.
 *
 * A process is in one cgroup of the unified hierarchy (v2) and, on hosts that still mount it, in one of the memory
 * controller (v1). A limit set anywhere between that group and the root of its hierarchy binds, so the walk goes up
 * to the mount point. Inside a container the path in /proc/self/cgroup may name a place outside what is mounted;
 * then the mount point itself is the container's group. Nothing here allocates: statistics are taken while decoding. */
#include "os/memory.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "os/memory_sources.h"

#define LINE_CAP 8192

/* ---- Lines of a file ------------------------------------------------------------------------------ */

/* Reads a file line by line within a fixed buffer. Longer lines are left out: the ones wanted here are short. */
struct line_reader {
    int fd;
    bool ended;
    size_t begin; /* unread bytes are buf[begin, end) */
    size_t end;
    char buf[LINE_CAP];
};

static bool line_reader_open(struct line_reader *reader, const char *path)
{
    reader->fd = open(path, O_RDONLY | O_CLOEXEC);
    reader->ended = false;
    reader->begin = reader->end = 0;
    return reader->fd >= 0;
}

/* Moves the unread bytes to the front and reads more behind them. */
static void line_reader_fill(struct line_reader *reader)
{
    memmove(reader->buf, reader->buf + reader->begin, reader->end - reader->begin);
    reader->end -= reader->begin;
    reader->begin = 0;
    ssize_t n;
    do {
        n = read(reader->fd, reader->buf + reader->end, LINE_CAP - 1 - reader->end);
    } while (n < 0 && errno == EINTR);
    reader->ended = n <= 0;
    reader->end += n > 0 ? (size_t)n : 0;
}

/* Next line without its newline, NULL at the end. Valid until the next call. */
static char *line_reader_next(struct line_reader *reader)
{
    bool too_long = false;
    for (;;) {
        char *line = reader->buf + reader->begin;
        char *newline = memchr(line, '\n', reader->end - reader->begin);
        if (newline == NULL && reader->ended && reader->begin < reader->end) {
            newline = reader->buf + reader->end; /* the last line may lack its newline; buf has room for the zero */
        }
        if (newline != NULL) {
            *newline = '\0';
            size_t after = (size_t)(newline - reader->buf) + 1;
            reader->begin = after < reader->end ? after : reader->end;
            if (!too_long) {
                return line;
            }
            too_long = false;
            continue;
        }
        if (reader->ended) {
            return NULL;
        }
        if (reader->end - reader->begin == LINE_CAP - 1) {
            too_long = true;
            reader->begin = reader->end;
        }
        line_reader_fill(reader);
    }
}

static void line_reader_close(struct line_reader *reader)
{
    close(reader->fd);
}

bool memory_read_field(const char *path, const char *name, uint64_t *out)
{
    struct line_reader reader;
    bool found = false;
    size_t len = strlen(name);
    if (!line_reader_open(&reader, path)) {
        return false;
    }
    for (char *line = line_reader_next(&reader); line != NULL && !found; line = line_reader_next(&reader)) {
        if (strncmp(line, name, len) == 0) {
            char *end;
            unsigned long long kib = strtoull(line + len, &end, 10);
            found = strcmp(end, " kB") == 0 && kib <= UINT64_MAX / 1024;
            if (found) {
                *out = (uint64_t)kib * 1024;
            }
        }
    }
    line_reader_close(&reader);
    return found;
}

/* ---- Control groups ------------------------------------------------------------------------------- */

enum hierarchy { CGROUP_V1, CGROUP_V2 };

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The number in dir/name; UINT64_MAX for "max", and where there is no such file. */
static uint64_t read_limit(const char *dir, const char *name)
{
    struct line_reader reader;
    char path[PATH_MAX];
    uint64_t limit = UINT64_MAX;
    int len = snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (len < 0 || (size_t)len >= sizeof(path) || !line_reader_open(&reader, path)) {
        return limit;
    }
    const char *line = line_reader_next(&reader);
    if (line != NULL && isdigit((unsigned char)line[0])) {
        limit = strtoull(line, NULL, 10); /* ULLONG_MAX when out of range: no limit either */
    }
    line_reader_close(&reader);
    return limit;
}

/* Limits of one group. memory.high counts: above it the kernel slows a process to a crawl. */
static uint64_t group_limit(enum hierarchy hierarchy, const char *dir)
{
    if (hierarchy == CGROUP_V1) {
        return read_limit(dir, "memory.limit_in_bytes");
    }
    return smaller(read_limit(dir, "memory.max"), read_limit(dir, "memory.high"));
}

/* Smallest limit from mount + group up to mount. */
static uint64_t walk_up(enum hierarchy hierarchy, const char *mount, const char *group)
{
    char dir[PATH_MAX];
    size_t root = strlen(mount);
    uint64_t limit = UINT64_MAX;
    int len = snprintf(dir, sizeof(dir), "%s%s", mount, group);
    if (len < 0 || (size_t)len >= sizeof(dir)) {
        return group_limit(hierarchy, mount);
    }
    for (;;) {
        limit = smaller(limit, group_limit(hierarchy, dir));
        char *slash = strrchr(dir, '/');
        if (strlen(dir) <= root || slash == NULL) {
            return limit;
        }
        dir[(size_t)(slash - dir) < root ? root : (size_t)(slash - dir)] = '\0';
    }
}

static bool is_octal(char c)
{
    return c >= '0' && c <= '7';
}

/* Decodes \040 and the like in place: mountinfo writes spaces, tabs, newlines and backslashes so. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        if (from[0] == '\\' && is_octal(from[1]) && is_octal(from[2]) && is_octal(from[3])) {
            *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* True if word is an item of a list separated by commas. */
static bool list_has(const char *list, const char *word)
{
    size_t len = strlen(word);
    while (*list != '\0') {
        size_t item = strcspn(list, ",");
        if (item == len && strncmp(list, word, len) == 0) {
            return true;
        }
        list += item + (list[item] == ',');
    }
    return false;
}

/* Path of this process's group in a hierarchy, into group[PATH_MAX]. Lines are "id:controllers:path". */
static bool find_group(const char *self_cgroup, enum hierarchy hierarchy, char *group)
{
    struct line_reader reader;
    bool found = false;
    if (!line_reader_open(&reader, self_cgroup)) {
        return false;
    }
    for (char *line = line_reader_next(&reader); line != NULL && !found; line = line_reader_next(&reader)) {
        char *controllers = strchr(line, ':');
        char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        size_t len = path != NULL ? strlen(path + 1) : PATH_MAX;
        if (len >= PATH_MAX) {
            continue;
        }
        *path = '\0';
        controllers++;
        found = hierarchy == CGROUP_V2 ? controllers[0] == '\0' : list_has(controllers, "memory");
        if (found) {
            memcpy(group, path + 1, len + 1);
        }
    }
    line_reader_close(&reader);
    return found;
}

/* Part of group below the mounted root, "" where the group is not inside it. */
static const char *group_below(const char *group, const char *root)
{
    size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);
    bool inside = strncmp(group, root, len) == 0 && (group[len] == '/' || group[len] == '\0');
    if (!inside || strstr(group, "/..") != NULL || strcmp(group + len, "/") == 0) {
        return "";
    }
    return group + len;
}

/* Fields of a mountinfo line: "id parent dev root mount options ... - type source superoptions". */
struct mount_line {
    char *root;
    char *mount;
    char *type;
    char *options;
};

static bool mount_line_split(char *line, struct mount_line *out)
{
    char *separator = strstr(line, " - ");
    if (separator == NULL) {
        return false;
    }
    *separator = '\0';
    char *state;
    char *fields[5];
    for (size_t i = 0; i < 5; i++) {
        fields[i] = strtok_r(i == 0 ? line : NULL, " ", &state);
        if (fields[i] == NULL) {
            return false;
        }
    }
    out->root = fields[3];
    out->mount = fields[4];
    out->type = strtok_r(separator + 3, " ", &state);
    char *source = strtok_r(NULL, " ", &state);
    out->options = strtok_r(NULL, " ", &state);
    return out->type != NULL && source != NULL && out->options != NULL;
}

/* Smallest limit of one hierarchy, over all places it is mounted at. */
static uint64_t hierarchy_limit(const struct memory_sources *sources, enum hierarchy hierarchy)
{
    struct line_reader reader;
    char group[PATH_MAX];
    uint64_t limit = UINT64_MAX;
    if (!find_group(sources->self_cgroup, hierarchy, group) || !line_reader_open(&reader, sources->mountinfo)) {
        return limit;
    }
    for (char *line = line_reader_next(&reader); line != NULL; line = line_reader_next(&reader)) {
        struct mount_line mount;
        if (!mount_line_split(line, &mount)) {
            continue;
        }
        bool wanted = hierarchy == CGROUP_V2 ? strcmp(mount.type, "cgroup2") == 0
                                             : strcmp(mount.type, "cgroup") == 0 && list_has(mount.options, "memory");
        if (wanted) {
            unescape(mount.root);
            unescape(mount.mount);
            limit = smaller(limit, walk_up(hierarchy, mount.mount, group_below(group, mount.root)));
        }
    }
    line_reader_close(&reader);
    return limit;
}

/* ---- Figures -------------------------------------------------------------------------------------- */

uint64_t memory_limit_from(const struct memory_sources *sources)
{
    uint64_t physical = UINT64_MAX;
    memory_read_field(sources->meminfo, "MemTotal:", &physical);
    return smaller(physical, smaller(hierarchy_limit(sources, CGROUP_V1), hierarchy_limit(sources, CGROUP_V2)));
}

uint64_t memory_limit_bytes(void)
{
    static const struct memory_sources sources = {
        .meminfo = "/proc/meminfo", .self_cgroup = "/proc/self/cgroup", .mountinfo = "/proc/self/mountinfo"};
    uint64_t limit = memory_limit_from(&sources);
    if (limit == UINT64_MAX) {
        limit = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    }
    return limit;
}

uint64_t memory_peak_rss_bytes(void)
{
    uint64_t bytes = 0;
    if (!memory_read_field("/proc/self/status", "VmHWM:", &bytes)) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        bytes = (uint64_t)usage.ru_maxrss * 1024;
    }
    return bytes;
}

uint64_t memory_rss_bytes(void)
{
    uint64_t bytes = 0;
    if (!memory_read_field("/proc/self/status", "VmRSS:", &bytes)) {
        bytes = memory_peak_rss_bytes();
    }
    return bytes;
}
