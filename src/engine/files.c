/* The tokenizer of a container directory.
 *
 * A container without tokenizer.json is complete as far as ids go, so its absence is told apart from a file
 * that is there and cannot be used. */
#include "engine/files.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/buffer.h"

sluice_status files_open_tokenizer(struct tokenizer **out, const char *dir, sluice_error *err)
{
    struct buffer path;
    buffer_init(&path, PATH_MAX);
    sluice_status status = buffer_printf(&path, err, "%s/tokenizer.json", dir);
    if (status != SLUICE_OK) {
        buffer_free(&path);
        return status;
    }
    if (access(path.data, F_OK) != 0 && errno == ENOENT) {
        *out = NULL;
    } else {
        status = tokenizer_open(out, path.data, err);
    }
    buffer_free(&path);
    return status;
}

sluice_status files_open_model_tokenizer(struct tokenizer **out, const struct container *container,
                                         const struct log *log, sluice_error *err)
{
    struct tokenizer *tokenizer;
    TRY(files_open_tokenizer(&tokenizer, container->dir, err));
    if (tokenizer == NULL) {
        log_message(log, "%s: no tokenizer.json, so there is no text, only ids", container->dir);
    } else if (tokenizer_vocab_size(tokenizer) > container->config.vocab_size) {
        size_t ids = tokenizer_vocab_size(tokenizer);
        tokenizer_close(&tokenizer);
        return error_set(err, SLUICE_FORMAT, "%s/tokenizer.json: %zu ids, but vocab_size is %u in config.json",
                         container->dir, ids, container->config.vocab_size);
    }
    *out = tokenizer;
    return SLUICE_OK;
}
