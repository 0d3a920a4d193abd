/* The alphabet of byte-level BPE: a vocabulary file spells each of the 256 bytes as one printable character. */
#ifndef SLUICE_TEXT_BYTELEVEL_H
#define SLUICE_TEXT_BYTELEVEL_H

#include <stdbool.h>
#include <stddef.h>

/* Turns `len` bytes of valid UTF-8 in that alphabet into the bytes they spell. `out` holds as many bytes as the text
 * has characters (len is always enough). False when a character is outside the alphabet. */
bool bytelevel_decode(const char *text, size_t len, char *out, size_t *n_out);

/* Number of characters of a valid text: the bytes its decoding needs. */
size_t bytelevel_count(const char *text, size_t len);

#endif
