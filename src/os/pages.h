/* Large page-aligned memory, on 2 MiB pages where the system grants them. */
#ifndef SLUICE_OS_PAGES_H
#define SLUICE_OS_PAGES_H

#include <stddef.h>

#include "base/error.h"

struct os_pages {
    void *data;  /* aligned to 16 KiB at least, 2 MiB when size reaches it; zero-filled, committed on first touch */
    size_t size; /* bytes asked for */
    void *map;   /* the mapping that data lies in */
    size_t map_size;
};

sluice_status os_pages_alloc(struct os_pages *out, size_t size, sluice_error *err); /* size 0: data NULL */
void os_pages_free(struct os_pages *pages); /* safe on a zeroed one; zeroes it */

#endif
