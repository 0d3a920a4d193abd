/* Stop strings by one Knuth-Morris-Pratt automaton each, moved on byte by byte.
 *
 * An automaton's state is the length of its longest prefix that ends the text so far; the largest state of all
 * is exactly what must be held back. */
#include "engine/stop.h"

#include <string.h>

#include "text/utf8.h"

struct stop_pattern {
    const char *bytes;
    size_t len;
    size_t *shorter; /* [len]: longest proper prefix that also ends the first i + 1 bytes */
    size_t matched;  /* the state */
};

/* The next state after `byte` in state `matched`, which is less than the pattern's length. */
static size_t advance(const struct stop_pattern *pattern, size_t matched, char byte)
{
    while (matched > 0 && pattern->bytes[matched] != byte) {
        matched = pattern->shorter[matched - 1];
    }
    return pattern->bytes[matched] == byte ? matched + 1 : 0;
}

static sluice_status pattern_init(struct stop_pattern *pattern, const char *string, struct arena *memory,
                                  sluice_error *err)
{
    size_t len = string != NULL ? strlen(string) : 0;
    if (len == 0) {
        return error_set(err, SLUICE_INVALID, "a stop string is empty");
    }
    if (utf8_find_invalid(string, len) < len) {
        return error_set(err, SLUICE_INVALID, "a stop string is not UTF-8");
    }
    pattern->bytes = string;
    pattern->len = len;
    pattern->shorter = arena_alloc(memory, len, sizeof *pattern->shorter);
    if (pattern->shorter == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "stop strings: out of memory");
    }
    for (size_t i = 1; i < len; i++) {
        pattern->shorter[i] = advance(pattern, pattern->shorter[i - 1], string[i]);
    }
    return SLUICE_OK;
}

sluice_status stop_matcher_open(struct stop_matcher *out, const char *const *strings, size_t n, size_t max_piece,
                                sluice_error *err)
{
    struct stop_matcher matcher = {.n = n};
    sluice_status status = SLUICE_OK;
    size_t longest = 0;
    arena_init(&matcher.memory);
    if (n > 0) {
        matcher.patterns = arena_alloc(&matcher.memory, n, sizeof *matcher.patterns);
        if (matcher.patterns == NULL) {
            status = error_set(err, SLUICE_NO_MEMORY, "stop strings: out of memory");
            goto fail;
        }
    }
    for (size_t i = 0; i < n; i++) {
        status = pattern_init(&matcher.patterns[i], strings[i], &matcher.memory, err);
        if (status != SLUICE_OK) {
            goto fail;
        }
        longest = matcher.patterns[i].len > longest ? matcher.patterns[i].len : longest;
    }
    if (n > 0) {
        matcher.text = arena_alloc(&matcher.memory, longest + max_piece, 1);
        if (matcher.text == NULL) {
            status = error_set(err, SLUICE_NO_MEMORY, "stop strings: out of memory");
            goto fail;
        }
    }
    *out = matcher;
    return SLUICE_OK;
fail:
    arena_free(&matcher.memory);
    return status;
}

void stop_matcher_close(struct stop_matcher *matcher)
{
    arena_free(&matcher->memory);
    *matcher = (struct stop_matcher){0};
}

/* Moves every automaton on. Returns the length of the longest stop string that is now complete, 0 if none is;
 * *hold gets the largest state. */
static size_t feed(struct stop_matcher *matcher, char byte, size_t *hold)
{
    size_t complete = 0;
    *hold = 0;
    for (size_t i = 0; i < matcher->n; i++) {
        struct stop_pattern *pattern = &matcher->patterns[i];
        pattern->matched = advance(pattern, pattern->matched, byte);
        *hold = pattern->matched > *hold ? pattern->matched : *hold;
        if (pattern->matched == pattern->len && pattern->len > complete) {
            complete = pattern->len;
        }
    }
    return complete;
}

/* Drops what the last push released. */
static void close_gap(struct stop_matcher *matcher)
{
    if (matcher->parted > 0 && matcher->held > 0) {
        memmove(matcher->text, matcher->text + matcher->parted, matcher->held);
    }
    matcher->parted = 0;
}

bool stop_matcher_push(struct stop_matcher *matcher, const char *piece, size_t len, const char **released,
                       size_t *released_len)
{
    if (matcher->n == 0 || len == 0) {
        *released = piece;
        *released_len = len;
        return false;
    }
    close_gap(matcher);
    memcpy(matcher->text + matcher->held, piece, len);
    size_t end = matcher->held + len;
    size_t hold = 0;
    for (size_t i = matcher->held; i < end; i++) {
        size_t complete = feed(matcher, matcher->text[i], &hold);
        if (complete > 0) {
            matcher->held = 0;
            *released = matcher->text;
            *released_len = i + 1 - complete;
            return true;
        }
    }
    matcher->held = hold;
    matcher->parted = end - hold;
    *released = matcher->text;
    *released_len = matcher->parted;
    return false;
}

void stop_matcher_flush(struct stop_matcher *matcher, const char **released, size_t *released_len)
{
    close_gap(matcher);
    *released = matcher->text;
    *released_len = matcher->held;
    matcher->held = 0;
}
