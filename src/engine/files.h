/* The tokenizer of a container directory. */
#ifndef SLUICE_ENGINE_FILES_H
#define SLUICE_ENGINE_FILES_H

#include "base/error.h"
#include "text/tokenizer.h"

/* Opens `dir`/tokenizer.json; *out becomes NULL, with SLUICE_OK, if there is no such file. */
sluice_status files_open_tokenizer(struct tokenizer **out, const char *dir, sluice_error *err);

#endif
