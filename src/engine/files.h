/* The tokenizer of a container directory. */
#ifndef SLUICE_ENGINE_FILES_H
#define SLUICE_ENGINE_FILES_H

#include "base/error.h"
#include "base/log.h"
#include "container/container.h"
#include "text/tokenizer.h"

/* Opens `dir`/tokenizer.json; *out becomes NULL, with SLUICE_OK, if there is no such file. */
sluice_status files_open_tokenizer(struct tokenizer **out, const char *dir, sluice_error *err);

/* The same for the tokenizer of a model: its absence is told to the log, and one that speaks of ids the model lacks
 * belongs to another model (SLUICE_FORMAT). */
sluice_status files_open_model_tokenizer(struct tokenizer **out, const struct container *container,
                                         const struct log *log, sluice_error *err);

#endif
