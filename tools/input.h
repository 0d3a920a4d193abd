/* The text a command works on: given in place, from a file, or from standard input. */
#ifndef SLUICE_TOOLS_INPUT_H
#define SLUICE_TOOLS_INPUT_H

#include "base/buffer.h"
#include "base/error.h"

#define INPUT_LIMIT ((size_t)64 << 20) /* bytes of text */

/* Appends the bytes of `text`, or of the file `path` ("-": standard input) when text is NULL. */
sluice_status input_read(struct buffer *out, const char *text, const char *path, sluice_error *err);

/* Puts the name of the file before what is wrong with its text: returns `status`. */
sluice_status input_blame(const char *path, sluice_status status, sluice_error *err);

#endif
