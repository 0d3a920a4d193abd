/* Strict readers of numbers typed on a command line.
 *
 * The whole text must be the number: no blanks, no sign where none makes sense, nothing behind it. They
 * return false and leave *out alone when it is not, or when it does not fit. */
#ifndef SLUICE_TOOLS_NUMBERS_H
#define SLUICE_TOOLS_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits only. */
bool number_parse_u64(const char *text, uint64_t *out);

/* A decimal number such as 0.7, 1 or 1e-3: finite, not hexadecimal. */
bool number_parse_real(const char *text, double *out);

/* Bytes: digits, or a number of at most six decimals with one of K, M, G, T (powers of 1024, "iB" may follow). */
bool number_parse_size(const char *text, uint64_t *out);

/* "1,2,3" into a new array that free() releases: at least one id, each below 2^32. */
bool number_parse_ids(const char *text, uint32_t **ids, size_t *n);

/* "512 B", "24.00 MiB", "3.50 GiB": for people. cap of 32 is enough. */
void number_format_bytes(uint64_t bytes, char *out, size_t cap);

#endif
