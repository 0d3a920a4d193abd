/* UTF-8 scanning and character properties.
 *
 * utf8_scan_first is the only place that knows which byte sequences are characters (Unicode, table 3-7).
 * Everything else in this module works on text that passed it. */
#include "text/utf8.h"

#include <utf8proc.h>

enum utf8_scan utf8_scan_first(const char *text, size_t len, size_t *used)
{
    unsigned char lead = (unsigned char)text[0];
    unsigned char low = 0x80, high = 0xBF; /* range of the second byte */
    size_t need;
    *used = 1;
    if (lead < 0x80) {
        return UTF8_COMPLETE;
    }
    if (lead >= 0xC2 && lead <= 0xDF) {
        need = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        need = 3;
        low = lead == 0xE0 ? 0xA0 : 0x80;
        high = lead == 0xED ? 0x9F : 0xBF;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        need = 4;
        low = lead == 0xF0 ? 0x90 : 0x80;
        high = lead == 0xF4 ? 0x8F : 0xBF;
    } else {
        return UTF8_BROKEN;
    }
    for (size_t i = 1; i < need; i++) {
        *used = i;
        if (i == len) {
            return UTF8_PARTIAL;
        }
        unsigned char byte = (unsigned char)text[i];
        if (byte < low || byte > high) {
            return UTF8_BROKEN;
        }
        low = 0x80;
        high = 0xBF;
    }
    *used = need;
    return UTF8_COMPLETE;
}

size_t utf8_find_invalid(const char *text, size_t len)
{
    size_t at = 0;
    while (at < len) {
        size_t used;
        if (utf8_scan_first(text + at, len - at, &used) != UTF8_COMPLETE) {
            break;
        }
        at += used;
    }
    return at;
}

uint32_t utf8_decode(const char *text, size_t *used)
{
    unsigned char lead = (unsigned char)text[0];
    if (lead < 0x80) {
        *used = 1;
        return lead;
    }
    size_t len = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    uint32_t character = lead & (0x7Fu >> len);
    for (size_t i = 1; i < len; i++) {
        character = character << 6 | ((unsigned char)text[i] & 0x3Fu);
    }
    *used = len;
    return character;
}

size_t utf8_previous(const char *text, size_t end)
{
    size_t at = end - 1;
    while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80) {
        at--;
    }
    return at;
}

bool utf8_is_space(uint32_t character)
{
    if ((character >= 0x09 && character <= 0x0D) || character == 0x85) {
        return true;
    }
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)character);
    return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

bool utf8_is_word(uint32_t character)
{
    switch (utf8proc_category((utf8proc_int32_t)character)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        break;
    }
    /* the joiners, and the symbols that count as alphabetic */
    return (character >= 0x200C && character <= 0x200D) || (character >= 0x24B6 && character <= 0x24E9) ||
           (character >= 0x1F130 && character <= 0x1F149) || (character >= 0x1F150 && character <= 0x1F169) ||
           (character >= 0x1F170 && character <= 0x1F189);
}

size_t utf8_space_prefix(const char *text, size_t len)
{
    size_t at = 0;
    while (at < len) {
        size_t used;
        if (!utf8_is_space(utf8_decode(text + at, &used))) {
            break;
        }
        at += used;
    }
    return at;
}

size_t utf8_space_suffix(const char *text, size_t len)
{
    size_t start = len;
    while (start > 0) {
        size_t used, previous = utf8_previous(text, start);
        if (!utf8_is_space(utf8_decode(text + previous, &used))) {
            break;
        }
        start = previous;
    }
    return len - start;
}
