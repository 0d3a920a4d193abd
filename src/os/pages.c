/* Large memory on huge pages.
 *
 * A mapping is made larger than asked for by one alignment, and what lies before and behind the aligned range is
 * given back at once. So the kernel can use a 2 MiB page everywhere inside the range and none that reaches past
 * its end: resident memory never exceeds the size asked for by more than a page of rounding. */
#include "os/pages.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"

#define HUGE_PAGE ((size_t)2 << 20)
#define SMALL_ALIGN ((size_t)16 << 10)

static size_t round_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) & ~(multiple - 1);
}

/* Unmaps what lies outside [begin, begin + size). A part that cannot be unmapped stays reserved, untouched and
 * therefore not resident, until the whole is freed. */
static void trim(struct os_pages *pages, char *begin, size_t size)
{
    char *map = pages->map;
    size_t head = (size_t)(begin - map);
    size_t tail = pages->map_size - head - size;
    if (tail > 0 && munmap(begin + size, tail) == 0) {
        pages->map_size -= tail;
    }
    if (head > 0 && munmap(map, head) == 0) {
        pages->map = begin;
        pages->map_size -= head;
    }
}

sluice_status os_pages_alloc(struct os_pages *out, size_t size, sluice_error *err)
{
    struct os_pages pages = {.size = size};
    if (size == 0) {
        *out = pages;
        return SLUICE_OK;
    }
    size_t align = size >= HUGE_PAGE ? HUGE_PAGE : SMALL_ALIGN;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t padded;
    if (!size_add(size, align + page, &padded)) {
        return error_set(err, SLUICE_NO_MEMORY, "cannot map %zu bytes: more than the address space", size);
    }
    size_t used = round_up(size, page);
    pages.map_size = used + align;
    pages.map = mmap(NULL, pages.map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages.map == MAP_FAILED) {
        return error_set_errno(err, SLUICE_NO_MEMORY, errno, "cannot map %zu bytes", size);
    }
    pages.data = (void *)round_up((uintptr_t)pages.map, align);
    trim(&pages, pages.data, used);
    if (align == HUGE_PAGE) {
        madvise(pages.data, used, MADV_HUGEPAGE); /* a kernel without huge pages refuses: no harm */
    }
    *out = pages;
    return SLUICE_OK;
}

void os_pages_free(struct os_pages *pages)
{
    if (pages->map != NULL) {
        munmap(pages->map, pages->map_size);
    }
    *pages = (struct os_pages){0};
}
