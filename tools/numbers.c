/* Numbers of the command line: see numbers.h.
 *
 * strtoull and strtod alone are too kind for this: they skip blanks, take signs, stop at the first odd
 * character and know infinities. So the characters are checked first. */
#include "numbers.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static bool digit_is(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads digits at *text and moves *text past them. */
static bool digits_take(const char **text, uint64_t *out)
{
    const char *at = *text;
    uint64_t value = 0;

    if (!digit_is(*at)) {
        return false;
    }
    for (; digit_is(*at); at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *text = at;
    *out = value;
    return true;
}

bool number_parse_u64(const char *text, uint64_t *out)
{
    uint64_t value;

    if (!digits_take(&text, &value) || *text != '\0') {
        return false;
    }
    *out = value;
    return true;
}

bool number_parse_real(const char *text, double *out)
{
    char *end;
    double value;

    if (text[0] == '\0' || text[strspn(text, "0123456789.eE+-")] != '\0') {
        return false;
    }
    errno = 0;
    value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value)) {
        return false;
    }
    *out = value;
    return true;
}

/* Reads up to six digits behind a point at *text as millionths and moves *text past them; without a point, 0. */
static bool fraction_take(const char **text, uint64_t *millionths)
{
    const char *at = *text;
    uint64_t value = 0, unit = 1000000;

    if (*at == '.') {
        at++;
        if (!digit_is(*at)) {
            return false;
        }
        for (; digit_is(*at); at++) {
            if (unit == 1) {
                return false;
            }
            unit /= 10;
            value += (uint64_t)(*at - '0') * unit;
        }
    }
    *text = at;
    *millionths = value;
    return true;
}

bool number_parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    uint64_t value, millionths;

    if (!digits_take(&text, &value) || !fraction_take(&text, &millionths)) {
        return false;
    }
    if (*text == '\0') {
        if (millionths > 0) {
            return false; /* a part of a byte */
        }
        *out = value;
        return true;
    }
    const char *unit = strchr(units, *text);
    if (unit == NULL || (text[1] != '\0' && strcmp(text + 1, "iB") != 0)) {
        return false;
    }
    unsigned shift = 10 * (unsigned)(unit - units + 1);
    if (value > UINT64_MAX >> shift) {
        return false;
    }
    *out = (value << shift) + (millionths << shift) / 1000000;
    return true;
}

bool number_parse_ids(const char *text, uint32_t **ids, size_t *n)
{
    size_t count = 1, filled = 0;
    uint32_t *list;

    for (const char *at = text; *at != '\0'; at++) {
        count += *at == ',';
    }
    list = mem_zalloc(count, sizeof *list);
    if (list == NULL) {
        return false;
    }
    while (filled < count) {
        uint64_t id;
        if (!digits_take(&text, &id) || id > UINT32_MAX || (*text != ',' && *text != '\0')) {
            free(list);
            return false;
        }
        list[filled++] = (uint32_t)id;
        text += *text == ',';
    }
    *ids = list;
    *n = count;
    return true;
}

void number_format_bytes(uint64_t bytes, char *out, size_t cap)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;

    if (bytes < 1024) {
        snprintf(out, cap, "%" PRIu64 " B", bytes);
        return;
    }
    value /= 1024;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(out, cap, "%.2f %s", value, units[unit]);
}
