/* UTF-8 as this module needs it: one strict scanner for checking and streaming, and the two Unicode
 * properties that added tokens ask for. */
#ifndef SLUICE_TEXT_UTF8_H
#define SLUICE_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum utf8_scan {
    UTF8_COMPLETE, /* the text starts with a whole character of *used bytes */
    UTF8_PARTIAL,  /* all *used == len bytes start a character that the text does not finish */
    UTF8_BROKEN    /* *used bytes that can never become a character: the maximal subpart to replace by one U+FFFD */
};

/* Looks at the first character of len >= 1 bytes. Overlong forms, surrogates and values past U+10FFFF are broken. */
enum utf8_scan utf8_scan_first(const char *text, size_t len, size_t *used);

/* Offset of the first byte that is not part of a whole character; len when the text is valid. */
size_t utf8_find_invalid(const char *text, size_t len);

/* The character at text, which must be valid, and its length in bytes. */
uint32_t utf8_decode(const char *text, size_t *used);

/* Start of the character that ends just before offset `end` (> 0) of a valid text. */
size_t utf8_previous(const char *text, size_t end);

/* The White_Space property. */
bool utf8_is_space(uint32_t character);

/* A letter, mark, decimal digit, connector or joiner: what \w means in Unicode's regular expressions. */
bool utf8_is_word(uint32_t character);

/* Length of the longest prefix, or suffix, of a valid text that is white space. */
size_t utf8_space_prefix(const char *text, size_t len);
size_t utf8_space_suffix(const char *text, size_t len);

#endif
