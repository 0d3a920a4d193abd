/* Bump allocation from a list of blocks.
 *
 * Blocks double from 4 KiB to 1 MiB as the arena grows, so small arenas stay small and large ones take few system
 * calls. A request that is larger than the next block gets a block of its own, placed behind the current one,
 * whose rest stays in use. Blocks come zeroed from calloc and are never reused, so every item is zeroed. */
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define BLOCK_MIN ((size_t)4 << 10)
#define BLOCK_MAX ((size_t)1 << 20)
#define ITEM_ALIGN _Alignof(max_align_t)

struct arena_block {
    struct arena_block *next;
    size_t used; /* bytes of data handed out */
    size_t size; /* bytes of data */
    _Alignas(max_align_t) unsigned char data[];
};

void arena_init(struct arena *arena)
{
    *arena = (struct arena){0};
}

void arena_free(struct arena *arena)
{
    struct arena_block *block = arena->blocks;
    while (block != NULL) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    arena_init(arena);
}

/* Data bytes of the next block of the usual kind: as much as the arena holds already, within the bounds. */
static size_t next_block_size(const struct arena *arena)
{
    size_t size = arena->reserved < BLOCK_MIN ? BLOCK_MIN : arena->reserved;
    return (size > BLOCK_MAX ? BLOCK_MAX : size) - sizeof(struct arena_block);
}

/* Adds a block with room for `bytes` and returns it, NULL when memory is out. */
static struct arena_block *add_block(struct arena *arena, size_t bytes)
{
    size_t usual = next_block_size(arena);
    bool oversized = bytes > usual;
    size_t size = oversized ? bytes : usual;
    size_t total;
    if (!size_add(size, sizeof(struct arena_block), &total)) {
        return NULL;
    }
    struct arena_block *block = calloc(1, total);
    if (block == NULL) {
        return NULL;
    }
    block->size = size;
    if (oversized && arena->blocks != NULL) {
        block->next = arena->blocks->next;
        arena->blocks->next = block;
    } else {
        block->next = arena->blocks;
        arena->blocks = block;
    }
    arena->reserved += total;
    return block;
}

void *arena_alloc(struct arena *arena, size_t n, size_t size)
{
    size_t bytes;
    if (!size_mul(n, size, &bytes) || !size_add(bytes > 0 ? bytes : 1, ITEM_ALIGN - 1, &bytes)) {
        return NULL;
    }
    bytes &= ~(ITEM_ALIGN - 1);

    struct arena_block *block = arena->blocks;
    if (block == NULL || bytes > block->size - block->used) {
        block = add_block(arena, bytes);
        if (block == NULL) {
            return NULL;
        }
    }
    void *item = block->data + block->used;
    block->used += bytes;
    arena->used += bytes;
    return item;
}

char *arena_strndup(struct arena *arena, const char *text, size_t len)
{
    size_t size;
    if (!size_add(len, 1, &size)) {
        return NULL;
    }
    char *copy = arena_alloc(arena, size, 1);
    if (copy != NULL && len > 0) {
        memcpy(copy, text, len);
    }
    return copy;
}
