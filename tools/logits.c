/* sluice logits: the logits of every position of a token sequence, in a safetensors file.
 *
 * "logits" F32 [n][vocab_size], then "argmax" I32 [n]. Rows are written as they are computed, into a
 * temporary file beside the target that takes its name only when it is complete and on the disk; after a
 * failure nothing is left and a file that was there before is untouched. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "command.h"
#include "console.h"
#include "interrupt.h"
#include "options.h"
#include "progress.h"

struct logits_options {
    struct engine_choice engine;
    struct arg_ids ids;
    const char *out;
};

struct logits_file {
    FILE *file;
    char temporary[PATH_MAX];
    size_t vocab_size;
    int32_t *argmax; /* [n] */
    int write_errno; /* of the first write that failed */
};

#define AT(field) offsetof(struct logits_options, field)

static const struct arg_option logits_table[] = {
    {"--ids", ARG_IDS, AT(ids), "LIST", .help = "the tokens, such as 1,2,3"},
    {"-o", ARG_TEXT, AT(out), "FILE", .help = "safetensors file to write"},
    {0},
};

static const struct arg_command logits_args = {
    "logits",
    "[-m DIR] --ids LIST -o FILE [options]",
    "Writes the logits of every position: \"logits\" F32 [n, vocab] and \"argmax\" I32 [n].",
    {logits_table, model_table, engine_table, stats_table},
};

/* ---- The file ---- */

static sluice_status file_create(struct logits_file *out, const char *path, sluice_error *err)
{
    struct stat found;
    int len = snprintf(out->temporary, sizeof out->temporary, "%s.XXXXXX", path);

    if (len < 0 || (size_t)len >= sizeof out->temporary) {
        return error_set(err, SLUICE_INVALID, "-o: the name is too long");
    }
    if (stat(path, &found) == 0 && !S_ISREG(found.st_mode)) {
        return error_set(err, SLUICE_INVALID, "%s: not a regular file", path);
    }
    int fd = mkostemp(out->temporary, O_CLOEXEC);
    if (fd < 0) {
        return error_set_errno(err, SLUICE_IO, errno, "%s", path);
    }
    mode_t mask = umask(0);
    umask(mask);
    out->file = fchmod(fd, 0666 & ~mask) == 0 ? fdopen(fd, "w") : NULL;
    if (out->file == NULL) {
        int saved = errno;
        close(fd);
        unlink(out->temporary);
        return error_set_errno(err, SLUICE_IO, saved, "%s", path);
    }
    return SLUICE_OK;
}

/* Pads the JSON with blanks, so that the data begins at a multiple of eight bytes. */
static sluice_status header_write(struct logits_file *out, size_t n, sluice_error *err)
{
    char header[512];
    size_t row_bytes, logits_bytes;

    if (!size_mul(out->vocab_size, sizeof(float), &row_bytes) || !size_mul(n, row_bytes, &logits_bytes)) {
        return error_set(err, SLUICE_INVALID, "--ids: too many tokens for one file");
    }
    int len = snprintf(header, sizeof header,
                       "{\"logits\":{\"dtype\":\"F32\",\"shape\":[%zu,%zu],\"data_offsets\":[0,%zu]},"
                       "\"argmax\":{\"dtype\":\"I32\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}}",
                       n, out->vocab_size, logits_bytes, n, logits_bytes, logits_bytes + n * sizeof(int32_t));
    uint64_t padded = ((uint64_t)len + 7) / 8 * 8;
    unsigned char prefix[8];

    for (size_t i = 0; i < sizeof prefix; i++) {
        prefix[i] = (unsigned char)(padded >> (8 * i));
    }
    memset(header + len, ' ', padded - (uint64_t)len);
    errno = 0;
    if (fwrite(prefix, 1, sizeof prefix, out->file) != sizeof prefix ||
        fwrite(header, 1, padded, out->file) != padded) {
        out->write_errno = errno != 0 ? errno : EIO;
    }
    return SLUICE_OK;
}

/* Index of the largest value; the lowest one of equals, as the sampler's. */
static int32_t row_argmax(const float *row, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++) {
        if (row[i] > row[best]) {
            best = i;
        }
    }
    return (int32_t)best;
}

static bool rows_write(void *user, size_t first, size_t n_rows, const float *logits)
{
    struct logits_file *out = user;

    for (size_t i = 0; i < n_rows; i++) {
        const float *row = logits + i * out->vocab_size;
        out->argmax[first + i] = row_argmax(row, out->vocab_size);
        errno = 0;
        if (fwrite(row, sizeof *row, out->vocab_size, out->file) != out->vocab_size) {
            out->write_errno = errno != 0 ? errno : EIO;
            return false;
        }
    }
    return true;
}

/* Makes the name's new meaning survive a power failure; a file system that cannot is left alone. */
static void folder_sync(const char *path)
{
    char copy[PATH_MAX];

    snprintf(copy, sizeof copy, "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
}

static sluice_status file_commit(struct logits_file *out, const char *path, size_t n, sluice_error *err)
{
    errno = 0;
    bool written = out->write_errno == 0 && fwrite(out->argmax, sizeof *out->argmax, n, out->file) == n &&
                   fflush(out->file) == 0 && fsync(fileno(out->file)) == 0;
    int saved = out->write_errno != 0 ? out->write_errno : errno;
    bool closed = fclose(out->file) == 0;

    out->file = NULL;
    if (!written || !closed) {
        unlink(out->temporary);
        return error_set_errno(err, SLUICE_IO, !written && saved != 0 ? saved : EIO, "%s", path);
    }
    if (rename(out->temporary, path) != 0) {
        saved = errno;
        unlink(out->temporary);
        return error_set_errno(err, SLUICE_IO, saved, "%s", path);
    }
    folder_sync(path);
    return SLUICE_OK;
}

static void file_abandon(struct logits_file *out)
{
    if (out->file != NULL) {
        fclose(out->file);
        unlink(out->temporary);
        out->file = NULL;
    }
}

/* ---- The command ---- */

static sluice_status ids_check(const struct arg_ids *ids, const sluice_engine_info *info, sluice_error *err)
{
    if (ids->n > info->context) {
        return error_set(err, SLUICE_CONTEXT_FULL, "--ids: %zu tokens, the context holds %" PRIu32, ids->n,
                         info->context);
    }
    return SLUICE_OK;
}

static sluice_status logits_compute(const struct logits_options *options, sluice_session *session,
                                    struct logits_file *out, sluice_error *err)
{
    TRY(header_write(out, options->ids.n, err));
    sluice_status status = sluice_session_evaluate(session, options->ids.ids, options->ids.n, rows_write, out, err);
    if (status == SLUICE_CANCELLED && out->write_errno == 0) {
        return error_set(err, status, "interrupted");
    }
    if (status != SLUICE_OK && out->write_errno == 0) {
        return status;
    }
    return file_commit(out, options->out, options->ids.n, err); /* reports a write that failed */
}

static sluice_status logits_with_engine(const struct logits_options *options, sluice_engine *engine, sluice_error *err)
{
    struct logits_file out = {0};
    sluice_session *session;
    sluice_engine_info info;

    sluice_engine_get_info(engine, &info);
    TRY(ids_check(&options->ids, &info, err));
    TRY(sluice_session_open(&session, engine, err));
    interrupt_watch(session, true);
    out.vocab_size = info.vocab_size;
    out.argmax = mem_zalloc(options->ids.n, sizeof *out.argmax);
    sluice_status status = out.argmax != NULL
                               ? file_create(&out, options->out, err)
                               : error_set(err, SLUICE_NO_MEMORY, "no memory for %zu tokens", options->ids.n);
    if (status == SLUICE_OK) {
        status = logits_compute(options, session, &out, err);
    }
    file_abandon(&out);
    free(out.argmax);
    interrupt_unwatch();
    sluice_session_close(&session);
    return status;
}

static sluice_status logits(const struct logits_options *options, sluice_error *err)
{
    sluice_engine *engine;

    TRY(engine_choice_open(&options->engine, &engine, err));
    sluice_status status = logits_with_engine(options, engine, err);
    if (status == SLUICE_OK) {
        stats_report(engine, options->engine.stats);
    }
    progress_watch_engine(NULL);
    sluice_engine_close(&engine, NULL);
    return status;
}

static int logits_run(int argc, char *const *argv)
{
    struct logits_options options = {0};
    sluice_error err;
    int result;

    if (command_parse(&logits_args, argc, argv, &options, &result)) {
        if (options.ids.n == 0 || options.out == NULL) {
            result = command_usage(&logits_args, "needs %s", options.ids.n == 0 ? "--ids LIST" : "-o FILE");
        } else {
            result = command_end(logits(&options, &err), &err);
        }
    }
    arg_ids_free(&options.ids);
    return result;
}

const struct command command_logits = {&logits_args, logits_run};
