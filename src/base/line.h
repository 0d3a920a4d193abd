/* Text of one printable line, made from text that may hold anything. */
#ifndef SLUICE_BASE_LINE_H
#define SLUICE_BASE_LINE_H

#include <stdarg.h>
#include <stddef.h>

/* Formats into dst (cap >= 4, result always terminated). Text that does not fit ends in "...". Each byte that is
 * not printable UTF-8 is replaced by '?': control characters, line and paragraph separators, broken sequences.
 * Arguments may overlap dst only when the caller formats into another place first. Returns the length. */
size_t line_format(char *dst, size_t cap, const char *fmt, va_list args) __attribute__((format(printf, 3, 0)));

#endif
