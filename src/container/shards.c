/* Listing shards.
 *
 * A download that stopped between two files leaves a directory that looks whole. Shard names tell: they end in a
 * number of three digits or more, with or without a total ("-00003.safetensors", "-00003-of-00141.safetensors"). Files
 * with the same text before the number and the same total are one series. A series starts at 0 or 1, has no
 * gap, and reaches its total where one is given. Names without such a number are left alone. */
#include "container/shards.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define EXTENSION ".safetensors"
#define DIGITS_MIN 3
#define DIGITS_MAX 9 /* fits 32 bits */

/* ---- Numbering --------------------------------------------------------------------------------------- */

/* A shard name taken apart. Two names belong to one series if prefix and total are equal. */
struct shard_number {
    const char *prefix;
    size_t prefix_len;
    size_t digits; /* width of the number */
    uint32_t number;
    uint32_t total; /* 0 without "-of-N" */
};

/* Takes the digits that end text[0..*len) off it. False if they are too few or too many for a shard number. */
static bool take_number(const char *text, size_t *len, uint32_t *number, size_t *digits)
{
    size_t end = *len;
    while (end > 0 && text[end - 1] >= '0' && text[end - 1] <= '9') {
        end--;
    }
    size_t n = *len - end;
    if (n < DIGITS_MIN || n > DIGITS_MAX) {
        return false;
    }
    uint32_t value = 0;
    for (size_t i = end; i < *len; i++) {
        value = value * 10 + (uint32_t)(text[i] - '0');
    }
    *number = value;
    *digits = n;
    *len = end;
    return true;
}

static bool parse_name(const char *name, struct shard_number *out)
{
    static const char of[] = "-of-";
    const size_t of_len = sizeof(of) - 1;
    size_t len = strlen(name) - strlen(EXTENSION);
    struct shard_number result = {.prefix = name};
    if (!take_number(name, &len, &result.number, &result.digits)) {
        return false;
    }
    if (len > of_len && memcmp(name + len - of_len, of, of_len) == 0) {
        size_t before = len - of_len;
        uint32_t number;
        if (take_number(name, &before, &number, &result.digits)) {
            result.total = result.number;
            result.number = number;
            len = before;
        }
    }
    result.prefix_len = len;
    *out = result;
    return true;
}

static int compare_number(const void *a, const void *b)
{
    const struct shard_number *x = a, *y = b;
    size_t len = x->prefix_len < y->prefix_len ? x->prefix_len : y->prefix_len;
    int order = memcmp(x->prefix, y->prefix, len);
    if (order == 0 && x->prefix_len != y->prefix_len) {
        order = x->prefix_len < y->prefix_len ? -1 : 1;
    }
    if (order == 0 && x->total != y->total) {
        order = x->total < y->total ? -1 : 1;
    }
    if (order == 0) {
        order = (x->number > y->number) - (x->number < y->number);
    }
    return order;
}

static bool same_series(const struct shard_number *a, const struct shard_number *b)
{
    return a->prefix_len == b->prefix_len && memcmp(a->prefix, b->prefix, a->prefix_len) == 0 && a->total == b->total;
}

static sluice_status report_missing(const char *dir, const struct shard_number *like, uint32_t number, uint32_t missing,
                                    sluice_error *err)
{
    char of[32] = "";
    if (like->total > 0) {
        snprintf(of, sizeof(of), "-of-%0*u", (int)like->digits, like->total);
    }
    char more[48] = "";
    if (missing > 1) {
        snprintf(more, sizeof(more), ", and %u more of the series", missing - 1);
    }
    return error_set(err, SLUICE_INCOMPLETE, "%s: shard %.*s%0*u%s" EXTENSION " is missing%s (incomplete download?)",
                     dir, (int)like->prefix_len, like->prefix, (int)like->digits, number, of, more);
}

/* series[0..n) are sorted by number. */
static sluice_status check_series(const char *dir, const struct shard_number *series, size_t n, sluice_error *err)
{
    uint32_t first = series[0].number == 0 ? 0 : 1;
    uint32_t expected = first, present = 0, gap = 0;
    bool has_gap = false;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && series[i].number == series[i - 1].number) {
            continue;
        }
        if (!has_gap && series[i].number != expected) {
            has_gap = true;
            gap = expected;
        }
        expected = series[i].number + 1;
        present++;
    }
    uint32_t end = expected;
    if (series[0].total > 0 && first + series[0].total > end) {
        end = first + series[0].total;
        gap = has_gap ? gap : expected;
        has_gap = true;
    }
    return has_gap ? report_missing(dir, &series[0], gap, end - first - present, err) : SLUICE_OK;
}

sluice_status shards_check_numbering(const char *dir, const char *const *names, uint32_t n, sluice_error *err)
{
    struct shard_number *numbers = mem_zalloc(n + (size_t)1, sizeof(*numbers));
    if (numbers == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "%s: no memory for %u shard names", dir, n);
    }
    size_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        count += parse_name(names[i], &numbers[count]);
    }
    qsort(numbers, count, sizeof(*numbers), compare_number);
    sluice_status status = SLUICE_OK;
    for (size_t i = 0, next; i < count && status == SLUICE_OK; i = next) {
        for (next = i + 1; next < count && same_series(&numbers[i], &numbers[next]);) {
            next++;
        }
        status = check_series(dir, &numbers[i], next - i, err);
    }
    free(numbers);
    return status;
}

/* ---- Directory --------------------------------------------------------------------------------------- */

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_shard(const char *name)
{
    size_t len = strlen(name), extension = strlen(EXTENSION);
    return name[0] != '.' && len > extension && strcmp(name + len - extension, EXTENSION) == 0;
}

/* Appends the shard names of an open directory to names[SHARDS_MAX]. */
static sluice_status read_names(DIR *stream, const char *dir, struct arena *arena, const char **names, uint32_t *n,
                                sluice_error *err)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(stream);
        if (entry == NULL) {
            return errno == 0 ? SLUICE_OK : error_set_errno(err, SLUICE_IO, errno, "%s: cannot be listed", dir);
        }
        if (!is_shard(entry->d_name)) {
            continue;
        }
        if (*n == SHARDS_MAX) {
            return error_set(err, SLUICE_UNSUPPORTED, "%s: more than %d shards", dir, SHARDS_MAX);
        }
        names[*n] = arena_strndup(arena, entry->d_name, strlen(entry->d_name));
        if (names[*n] == NULL) {
            return error_set(err, SLUICE_NO_MEMORY, "%s: no memory for shard names", dir);
        }
        (*n)++;
    }
}

sluice_status shards_list(const char *dir, struct arena *arena, const char *const **out, uint32_t *n_out,
                          sluice_error *err)
{
    const char **names = arena_alloc(arena, SHARDS_MAX, sizeof(*names));
    if (names == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "%s: no memory for shard names", dir);
    }
    DIR *stream = opendir(dir);
    if (stream == NULL) {
        return error_set_errno(err, SLUICE_IO, errno, "%s: cannot be opened as a directory", dir);
    }
    uint32_t n = 0;
    sluice_status status = read_names(stream, dir, arena, names, &n, err);
    closedir(stream);
    TRY(status);
    if (n == 0) {
        return error_set(err, SLUICE_INCOMPLETE, "%s: no *" EXTENSION " file in it", dir);
    }
    qsort(names, n, sizeof(*names), compare_text);
    TRY(shards_check_numbering(dir, names, n, err));
    *out = names;
    *n_out = n;
    return SLUICE_OK;
}
