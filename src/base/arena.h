/* A bump allocator for things that live and die together (a loaded catalogue, a request). */
#ifndef SLUICE_BASE_ARENA_H
#define SLUICE_BASE_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first */
    size_t used;                /* bytes handed out, padding included */
    size_t reserved;            /* bytes taken from the system */
};

void arena_init(struct arena *arena);
void arena_free(struct arena *arena); /* safe on a zeroed one */

/* `n` items of `size` bytes, zeroed, aligned for any type; NULL on overflow or when memory is out. */
void *arena_alloc(struct arena *arena, size_t n, size_t size);

/* Copy of `len` bytes plus a terminating zero. */
char *arena_strndup(struct arena *arena, const char *text, size_t len);

#endif
