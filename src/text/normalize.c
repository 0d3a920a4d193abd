/* NFC over utf8proc's tables.
 *
 * utf8proc's own whole-text function orders combining marks by exchanging neighbours, which a text of a hundred
 * thousand marks turns into hours. Here each character is decomposed on its own, runs of marks are sorted by merging
 * (stable, as canonical ordering demands), and only the final composition, which is one pass, is utf8proc's. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "text/tokenizer_internal.h"
#include "text/utf8.h"

/* Most characters one character decomposes into (Unicode promises 4; utf8proc is asked for room first). */
#define DECOMPOSED_MAX 16

struct characters {
    utf8proc_int32_t *items;
    size_t n, cap;
};

static sluice_status characters_reserve(struct characters *list, size_t extra, sluice_error *err)
{
    if (extra <= list->cap - list->n) {
        return SLUICE_OK;
    }
    size_t cap = list->cap + list->cap / 2 + extra;
    utf8proc_int32_t *items = cap < SIZE_MAX / sizeof *items ? realloc(list->items, cap * sizeof *items) : NULL;
    if (items == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "out of memory for normalising text");
    }
    list->items = items;
    list->cap = cap;
    return SLUICE_OK;
}

static sluice_status decompose(const char *text, size_t len, struct characters *list, sluice_error *err)
{
    TRY(characters_reserve(list, len + DECOMPOSED_MAX, err));
    for (size_t at = 0; at < len;) {
        size_t used;
        int boundary = 0;
        uint32_t character = utf8_decode(text + at, &used);
        TRY(characters_reserve(list, DECOMPOSED_MAX, err));
        utf8proc_ssize_t n =
            utf8proc_decompose_char((utf8proc_int32_t)character, list->items + list->n, DECOMPOSED_MAX,
                                    (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &boundary);
        if (n < 0 || n > DECOMPOSED_MAX) {
            return error_set(err, SLUICE_INVALID, "the character U+%04X cannot be normalised", character);
        }
        list->n += (size_t)n;
        at += used;
    }
    return SLUICE_OK;
}

static unsigned combining_class(utf8proc_int32_t character)
{
    return (unsigned)utf8proc_get_property(character)->combining_class;
}

/* Stable sort of one run of marks by combining class; `spare` holds as many. */
static void sort_run(utf8proc_int32_t *run, size_t n, utf8proc_int32_t *spare)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t left = 0; left + width < n; left += 2 * width) {
            size_t middle = left + width, end = middle + width < n ? middle + width : n;
            size_t a = left, b = middle, out = left;
            while (a < middle && b < end) {
                spare[out++] = combining_class(run[b]) < combining_class(run[a]) ? run[b++] : run[a++];
            }
            memcpy(spare + out, run + a, (middle - a) * sizeof *run);
            memcpy(spare + out + (middle - a), run + b, (end - b) * sizeof *run);
            memcpy(run + left, spare + left, (end - left) * sizeof *run);
        }
    }
}

static sluice_status order_marks(struct characters *list, sluice_error *err)
{
    utf8proc_int32_t *spare = NULL;
    size_t spare_cap = 0;
    for (size_t start = 0, end; start < list->n; start = end) {
        end = start + 1;
        if (combining_class(list->items[start]) == 0) {
            continue;
        }
        while (end < list->n && combining_class(list->items[end]) != 0) {
            end++;
        }
        if (end - start > spare_cap) {
            free(spare);
            spare_cap = 2 * (end - start);
            spare = mem_zalloc(spare_cap, sizeof *spare);
            if (spare == NULL) {
                return error_set(err, SLUICE_NO_MEMORY, "out of memory for normalising text");
            }
        }
        sort_run(list->items + start, end - start, spare);
    }
    free(spare);
    return SLUICE_OK;
}

static sluice_status append_composed(struct characters *list, struct buffer *out, sluice_error *err)
{
    utf8proc_ssize_t n = utf8proc_normalize_utf32(list->items, (utf8proc_ssize_t)list->n,
                                                  (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (n < 0) {
        return error_set(err, SLUICE_INVALID, "text cannot be normalised: %s", utf8proc_errmsg(n));
    }
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        utf8proc_uint8_t bytes[4];
        utf8proc_ssize_t len = utf8proc_encode_char(list->items[i], bytes);
        TRY(buffer_append(out, bytes, (size_t)len, err));
    }
    return SLUICE_OK;
}

static bool is_ascii(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len && (unsigned char)text[i] < 0x80) {
        i++;
    }
    return i == len;
}

sluice_status normalize_nfc(const char *text, size_t len, struct buffer *out, sluice_error *err)
{
    if (is_ascii(text, len)) {
        return buffer_append(out, text, len, err);
    }
    struct characters list = {0};
    sluice_status status = decompose(text, len, &list, err);
    if (status == SLUICE_OK) {
        status = order_marks(&list, err);
    }
    if (status == SLUICE_OK) {
        status = append_composed(&list, out, err);
    }
    free(list.items);
    return status;
}
