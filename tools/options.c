/* Shared option tables, the model directory, the engine: see options.h. */
#include "options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "console.h"
#include "numbers.h"
#include "progress.h"

/* Folders above the program that may hold models/demo: build, build/preset, and the checkout itself. */
#define DEMO_SEARCH_LEVELS 4

static const char *const device_names[] = {"cpu", "cuda", NULL};
static const char *const numerics_names[] = {"f32", "q16", NULL};
static const char *const stats_names[] = {"off", "table", "json", NULL};

#define MODEL(field) offsetof(struct model_choice, field)
#define ENGINE(field) offsetof(struct engine_choice, field)
#define GENERATION(field) offsetof(struct generation_choice, field)

const struct arg_option model_table[] = {
    {"-m", ARG_TEXT, MODEL(dir), "DIR", .help = "model directory (default: the demo model)"},
    {"--quiet", ARG_FLAG, MODEL(quiet), NULL, .help = "errors only on standard error"},
    {0},
};

const struct arg_option engine_table[] = {
    {"--memory", ARG_SIZE, ENGINE(memory), "SIZE", .help = "limit of the whole process: bytes, or 24G, 1.5G, 512M",
     .min = 1},
    {"--context", ARG_U32, ENGINE(context), "N", .help = "tokens a conversation can hold (default: up to 8192)",
     .min = 1},
    {"--threads", ARG_U32, ENGINE(threads), "N", .help = "computing threads (default: one a processor)", .min = 1,
     .max = 1024},
    {"--prefill-chunk", ARG_U32, ENGINE(prefill_chunk), "N", .help = "prompt tokens computed at once (default: 64)",
     .min = 1, .max = 4096},
    {"--device", ARG_CHOICE, ENGINE(device), "NAME", .help = "cpu, the default; cuda is not in this version",
     .choices = device_names},
    {"--numerics", ARG_CHOICE, ENGINE(numerics), "NAME", .help = "f32, the default; q16 is not in this version",
     .choices = numerics_names},
    {"--cpu-features", ARG_TEXT, ENGINE(cpu_features), "LIST",
     .help = "instruction sets to use: all, scalar, avx2 (for tests)"},
    {0},
};

const struct arg_option stats_table[] = {
    {"--stats", ARG_MAYBE, ENGINE(stats), "json", .help = "statistics at the end: a table, or one JSON line",
     .choices = stats_names},
    {0},
};

const struct arg_option generation_table[] = {
    {"-n", ARG_U32, GENERATION(max_tokens), "N", .help = "tokens to generate at most (default: what the context holds)",
     .min = 1},
    {"--temp", ARG_REAL, GENERATION(sampling.temperature), "T",
     .help = "temperature (default: 0, always the likeliest token)", .real_max = 1000},
    {"--top-p", ARG_REAL, GENERATION(sampling.top_p), "P",
     .help = "keep the likeliest tokens that sum to P (default: 1, off)", .real_min = 1e-6, .real_max = 1},
    {"--top-k", ARG_U32, GENERATION(sampling.top_k), "K", .help = "keep the K likeliest tokens (default: 0, off)"},
    {"--min-p", ARG_REAL, GENERATION(sampling.min_p), "P",
     .help = "drop tokens below P times the likeliest (default: 0, off)", .real_max = 1},
    {"--seed", ARG_U64, GENERATION(sampling.seed), "N",
     .help = "same seed, same tokens, on every machine (default: 0)"},
    {"--stop", ARG_TEXTS, GENERATION(stops), "TEXT", .help = "end the answer before this text; may be repeated"},
    {"--system", ARG_TEXT, GENERATION(system), "TEXT", .help = "system message of the conversation"},
    {"--think", ARG_FLAG, GENERATION(think), NULL, .help = "ask the model to think before it answers"},
    {0},
};

void generation_choice_init(struct generation_choice *choice)
{
    memset(choice, 0, sizeof *choice);
    sluice_sampling_init(&choice->sampling);
}

/* Cuts the last component off a path; false when none is left. */
static bool path_go_up(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash == NULL || slash == path) {
        return false;
    }
    *slash = '\0';
    return true;
}

/* True if base/below holds a config.json; buf then holds base/below. */
static bool demo_is_at(const char *base, const char *below, char *buf, size_t cap)
{
    char config[PATH_MAX + 64];
    int len = snprintf(buf, cap, "%s/%s", base, below);

    if (len < 0 || (size_t)len >= cap) {
        return false;
    }
    snprintf(config, sizeof config, "%s/config.json", buf);
    return access(config, R_OK) == 0;
}

sluice_status model_dir_find(const struct model_choice *choice, char *buf, size_t cap, const char **dir,
                             sluice_error *err)
{
    char at[PATH_MAX];

    if (choice->dir != NULL) {
        *dir = choice->dir;
        return SLUICE_OK;
    }
    ssize_t len = readlink("/proc/self/exe", at, sizeof at - 1);
    if (len < 0) {
        return error_set_errno(err, SLUICE_IO, errno, "/proc/self/exe");
    }
    at[len] = '\0';
    for (int level = 0; level < DEMO_SEARCH_LEVELS && path_go_up(at); level++) {
        if (demo_is_at(at, "models/demo", buf, cap) || demo_is_at(at, "share/sluice/models/demo", buf, cap)) {
            *dir = buf;
            return SLUICE_OK;
        }
    }
    return error_set(err, SLUICE_IO, "no model given: name one with -m DIR (the demo model is not near the program)");
}

sluice_status engine_choice_resolve(const struct engine_choice *choice, char *buf, size_t cap,
                                    sluice_engine_options *out, sluice_error *err)
{
    sluice_engine_options options;

    if (choice->device != 0) {
        return error_set(err, SLUICE_UNSUPPORTED, "--device %s: this build has no CUDA device",
                         device_names[choice->device]);
    }
    if (choice->numerics != 0) {
        return error_set(err, SLUICE_UNSUPPORTED, "--numerics %s: not available in this version",
                         numerics_names[choice->numerics]);
    }
    sluice_engine_options_init(&options);
    TRY(model_dir_find(&choice->model, buf, cap, &options.model_dir, err));
    options.memory_limit = choice->memory;
    options.context = choice->context;
    options.threads = choice->threads;
    options.prefill_chunk = choice->prefill_chunk;
    options.cpu_features = choice->cpu_features;
    options.message = console_message;
    options.progress = console_progress;
    *out = options;
    return SLUICE_OK;
}

const char *plan_limit_origin(const sluice_plan *plan)
{
    return strcmp(plan->limit_from, "memory_limit") == 0 ? "--memory" : plan->limit_from;
}

sluice_status plan_refuse(const sluice_plan *plan, sluice_error *err)
{
    char need[32], limit[32];

    number_format_bytes(plan->total, need, sizeof need);
    number_format_bytes(plan->limit, limit, sizeof limit);
    return error_set(err, SLUICE_LIMIT, "does not fit: needs %s, the limit is %s (%s): %s", need, limit,
                     plan_limit_origin(plan), plan->advice);
}

sluice_status engine_choice_open(const struct engine_choice *choice, sluice_engine **out, sluice_error *err)
{
    sluice_engine_options options;
    char buf[PATH_MAX + 64];

    console_set_quiet(choice->model.quiet);
    TRY(engine_choice_resolve(choice, buf, sizeof buf, &options, err));
    sluice_status status = sluice_engine_open(out, &options, err);
    if (status == SLUICE_OK) {
        progress_watch_engine(*out);
        return SLUICE_OK;
    }
    sluice_plan plan;
    options.message = NULL; /* warnings were shown already */
    if (status == SLUICE_LIMIT && sluice_plan_compute(&plan, &options, NULL) == SLUICE_OK && !plan.fits) {
        return plan_refuse(&plan, err);
    }
    return status;
}
