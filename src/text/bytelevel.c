/* The byte alphabet of GPT-2's vocabulary files.
 *
 * A byte that is a printable Latin-1 character (0x21-0x7E, 0xA1-0xAC, 0xAE-0xFF) is spelled as that character. The 68
 * others, in ascending order, are spelled U+0100, U+0101, ... U+0143. A space is therefore U+0120. */
#include "text/bytelevel.h"

#include <stdint.h>

#include "text/utf8.h"

/* The byte a character spells, -1 for a character outside the alphabet. */
static int byte_of(uint32_t character)
{
    if ((character >= 0x21 && character <= 0x7E) || (character >= 0xA1 && character <= 0xFF && character != 0xAD)) {
        return (int)character;
    }
    if (character >= 0x100 && character <= 0x120) {
        return (int)(character - 0x100); /* 0x00-0x20 */
    }
    if (character >= 0x121 && character <= 0x142) {
        return (int)(character - 0x121) + 0x7F; /* 0x7F-0xA0 */
    }
    return character == 0x143 ? 0xAD : -1;
}

bool bytelevel_decode(const char *text, size_t len, char *out, size_t *n_out)
{
    size_t n = 0;
    for (size_t at = 0; at < len;) {
        size_t used;
        int byte = byte_of(utf8_decode(text + at, &used));
        if (byte < 0) {
            return false;
        }
        out[n++] = (char)byte;
        at += used;
    }
    *n_out = n;
    return true;
}

size_t bytelevel_count(const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        n += ((unsigned char)text[i] & 0xC0) != 0x80;
    }
    return n;
}
