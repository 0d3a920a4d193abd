/* Finding stop strings in text that arrives in pieces.
 *
 * Text that may yet become a stop string is held back; everything before it is released. The result depends on the
 * text alone, never on how it was cut: the stop string that ends first wins, the longest among those that end
 * together. Pieces and stop strings are whole UTF-8 characters, so what is released is too. */
#ifndef SLUICE_ENGINE_STOP_H
#define SLUICE_ENGINE_STOP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"

struct stop_pattern;

struct stop_matcher {
    struct arena memory;
    struct stop_pattern *patterns; /* [n] */
    size_t n;
    char *text;    /* held text, then the piece being looked at */
    size_t held;   /* bytes held back */
    size_t parted; /* bytes released by the last push, still in front of the held ones */
};

/* strings [n] are borrowed until close; a push brings at most max_piece bytes. n = 0 allocates nothing.
 * SLUICE_INVALID for a string that is empty or not UTF-8. */
sluice_status stop_matcher_open(struct stop_matcher *out, const char *const *strings, size_t n, size_t max_piece,
                                sluice_error *err);
void stop_matcher_close(struct stop_matcher *matcher);

/* Looks at the next piece. True when a stop string is complete: the text before it is released, the rest dropped.
 * *released stays valid until the next push; its length may be 0. */
bool stop_matcher_push(struct stop_matcher *matcher, const char *piece, size_t len, const char **released,
                       size_t *released_len);

/* Ends the text: releases what was held back. */
void stop_matcher_flush(struct stop_matcher *matcher, const char **released, size_t *released_len);

#endif
