/* sluice synth: a random container of any geometry, for measuring what no published model has.
 *
 * The space it needs is estimated first, from the experts and the embeddings, which are all but a few per
 * cent of it: a disk that cannot hold them is refused before anything is written. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "command.h"
#include "console.h"
#include "interrupt.h"
#include "numbers.h"
#include "options.h"

struct synth_options {
    struct model_choice model; /* only quiet is used */
    const char *out;
    sluice_synth_options geometry;
};

#define AT(field) offsetof(struct synth_options, field)

static const struct arg_option synth_table[] = {
    {"OUT", ARG_TEXT, AT(out), NULL, .help = "directory to write, new or empty"},
    {"--hidden", ARG_U32, AT(geometry.hidden), "N", .help = "hidden size (default: 6144)", .min = 1},
    {"--intermediate", ARG_U32, AT(geometry.intermediate), "N", .help = "an expert's inner size (default: 2048)",
     .min = 1},
    {"--experts", ARG_U32, AT(geometry.experts), "N", .help = "routed experts of a layer (default: 256)", .min = 1},
    {"--top-k", ARG_U32, AT(geometry.top_k), "K", .help = "experts of a token (default: 8)", .min = 1},
    {"--layers", ARG_U32, AT(geometry.layers), "N", .help = "layers, dense ones included (default: 4)", .min = 1},
    {"--dense", ARG_U32, AT(geometry.dense), "N", .help = "dense layers at the beginning (default: 1)"},
    {"--vocab", ARG_U32, AT(geometry.vocab), "N", .help = "vocabulary (default: 16384)", .min = 1},
    {"--group", ARG_U32, AT(geometry.group), "N", .help = "columns that share a scale; 0: one scale a row (default)"},
    {"--mtp", ARG_U32, AT(geometry.mtp), "N", .help = "draft layers, 0 or 1 (default: 0)", .max = 1},
    {"--seed", ARG_U64, AT(geometry.seed), "N", .help = "same seed, same container (default: 1)"},
    {"--quiet", ARG_FLAG, AT(model.quiet), NULL, .help = "errors only on standard error"},
    {0},
};

static const struct arg_command synth_args = {
    "synth",
    "OUT [options]",
    "Writes a random container of any geometry, shard by shard.",
    {synth_table},
};

/* Lower bound of the container's size. Doubles, because any geometry can be asked for. */
static double synth_bytes(const sluice_synth_options *geometry)
{
    double block = 3.0 * geometry->hidden * geometry->intermediate;
    double sparse = geometry->layers > geometry->dense ? geometry->layers - geometry->dense : 0;
    double experts = sparse * geometry->experts * block / 2;
    double drafts = (double)geometry->mtp * geometry->experts * block;

    return experts + drafts + 2.0 * geometry->vocab * geometry->hidden;
}

/* Space free where `path` will be: at itself, or at the nearest folder above it that exists. */
static sluice_status space_free(const char *path, double *out, sluice_error *err)
{
    struct statvfs found;
    char at[PATH_MAX];

    if (snprintf(at, sizeof at, "%s", path) >= (int)sizeof at) {
        return error_set(err, SLUICE_INVALID, "OUT: the name is too long");
    }
    char *above = at;
    while (statvfs(above, &found) != 0) {
        if (errno != ENOENT || strcmp(above, ".") == 0 || strcmp(above, "/") == 0) {
            return error_set_errno(err, SLUICE_IO, errno, "%s", path);
        }
        above = dirname(above);
    }
    *out = (double)found.f_bavail * (double)found.f_frsize;
    return SLUICE_OK;
}

static bool synth_cancelled(void *user)
{
    (void)user;
    return interrupt_happened();
}

static sluice_status synth(struct synth_options *options, sluice_error *err)
{
    double needed = synth_bytes(&options->geometry), available = 0;
    char need_text[32], have_text[32];

    console_set_quiet(options->model.quiet);
    TRY(space_free(options->out, &available, err));
    if (needed > available) {
        number_format_bytes(needed < 1e18 ? (uint64_t)needed : UINT64_MAX, need_text, sizeof need_text);
        number_format_bytes((uint64_t)available, have_text, sizeof have_text);
        return error_set(err, SLUICE_IO, "%s: needs at least %s, the disk has %s free", options->out, need_text,
                         have_text);
    }
    options->geometry.progress = console_progress;
    options->geometry.cancelled = synth_cancelled;
    interrupt_watch(NULL, true);
    return sluice_synth(options->out, &options->geometry, err);
}

static int synth_run(int argc, char *const *argv)
{
    struct synth_options options = {0};
    sluice_error err;
    int result;

    sluice_synth_options_init(&options.geometry);
    if (command_parse(&synth_args, argc, argv, &options, &result)) {
        result = command_end(synth(&options, &err), &err);
    }
    return result;
}

const struct command command_synth = {&synth_args, synth_run};
