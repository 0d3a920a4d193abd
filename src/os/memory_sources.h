/* Where the figures of os/memory.h come from, named so that tests can point elsewhere. */
#ifndef SLUICE_OS_MEMORY_SOURCES_H
#define SLUICE_OS_MEMORY_SOURCES_H

#include <stdbool.h>
#include <stdint.h>

struct memory_sources {
    const char *meminfo;     /* /proc/meminfo */
    const char *self_cgroup; /* /proc/self/cgroup */
    const char *mountinfo;   /* /proc/self/mountinfo */
};

/* Smallest limit that the sources state, UINT64_MAX when they state none. */
uint64_t memory_limit_from(const struct memory_sources *sources);

/* Value in bytes of a line such as "VmRSS:   123 kB" of a /proc file, where name is "VmRSS:"; false when it is not
 * there. */
bool memory_read_field(const char *path, const char *name, uint64_t *out);

#endif
