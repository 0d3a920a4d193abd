/* One printable line.
 *
 * Messages quote names, keys and paths that come from untrusted files. A newline among them would break the
 * promise of one line, an escape sequence would reach the user's terminal, half a character would make the
 * message unreadable for whoever parses it as UTF-8. So everything is formatted first and then passed through
 * one filter that keeps valid, printable UTF-8 and turns each other byte into '?'. */
#include "base/line.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes a UTF-8 sequence has, by its first byte; 0 for a byte that starts none. */
static size_t sequence_length(unsigned char first)
{
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xC2 && first <= 0xDF) {
        return 2;
    }
    if (first >= 0xE0 && first <= 0xEF) {
        return 3;
    }
    return first >= 0xF0 && first <= 0xF4 ? 4 : 0;
}

/* Code point of the sequence at text, -1 if it is broken: too short, overlong, a surrogate or out of range. */
static int32_t sequence_decode(const unsigned char *text, size_t len)
{
    static const int32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    int32_t code = len == 1 ? text[0] : text[0] & (0x7F >> len);
    for (size_t i = 1; i < len; i++) {
        if ((text[i] & 0xC0) != 0x80) {
            return -1;
        }
        code = code << 6 | (text[i] & 0x3F);
    }
    if (code < smallest[len] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
        return -1;
    }
    return code;
}

static int is_printable(int32_t code)
{
    return code >= 0x20 && !(code >= 0x7F && code <= 0x9F) && code != 0x2028 && code != 0x2029;
}

/* Replaces in place what does not belong on a line; text is zero-terminated. */
static void clean(char *text, size_t len)
{
    unsigned char *bytes = (unsigned char *)text;
    size_t i = 0;
    while (i < len) {
        size_t n = sequence_length(bytes[i]);
        if (n == 0 || n > len - i || sequence_decode(bytes + i, n) < 0) {
            bytes[i++] = '?';
            continue;
        }
        if (!is_printable(sequence_decode(bytes + i, n))) {
            memset(bytes + i, '?', n);
        }
        i += n;
    }
}

/* Shortens text of len bytes to end in "...", between two characters. */
static size_t shorten(char *text, size_t len)
{
    size_t end = len - 3;
    while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80) {
        end--;
    }
    memcpy(text + end, "...", 4);
    return end + 3;
}

size_t line_format(char *dst, size_t cap, const char *fmt, va_list args)
{
    int wanted = vsnprintf(dst, cap, fmt, args);
    if (wanted < 0) {
        wanted = snprintf(dst, cap, "%s", "(a message that cannot be formatted)");
    }
    size_t len = (size_t)wanted;
    if (len >= cap) {
        len = shorten(dst, cap - 1);
    }
    clean(dst, len);
    return len;
}
