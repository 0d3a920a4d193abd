/* The options that several commands share, and opening an engine from them.
 *
 * A command's struct begins with the widest of these that it uses, so that the offsets in the shared
 * tables fit: generation begins with engine, engine begins with model. */
#ifndef SLUICE_TOOLS_OPTIONS_H
#define SLUICE_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "args.h"
#include "base/error.h"
#include "sluice/sluice.h"

enum stats_form { STATS_OFF, STATS_TABLE, STATS_JSON };

struct model_choice {
    const char *dir; /* NULL: the demo model */
    bool quiet;
};

struct engine_choice {
    struct model_choice model;
    uint64_t memory; /* 0: what the machine allows */
    uint32_t context, threads, prefill_chunk;
    int device, numerics; /* indices into the choices of the table */
    const char *cpu_features;
    int stats; /* enum stats_form */
};

struct generation_choice {
    struct engine_choice engine;
    sluice_sampling sampling;
    uint32_t max_tokens; /* 0: as many as the context holds */
    struct arg_texts stops;
    const char *system;
    bool think;
};

extern const struct arg_option model_table[];      /* -m, --quiet */
extern const struct arg_option engine_table[];     /* --memory ... --cpu-features */
extern const struct arg_option stats_table[];      /* --stats */
extern const struct arg_option generation_table[]; /* -n, sampling, --stop, --system, --think */

void generation_choice_init(struct generation_choice *choice);

/* The model directory to use, in `buf` of `cap` bytes when it had to be looked for. Without -m the demo
 * model: models/demo in a folder above the program's own, or share/sluice/models/demo where it is installed. */
sluice_status model_dir_find(const struct model_choice *choice, char *buf, size_t cap, const char **dir,
                             sluice_error *err);

/* Fills engine options, refusing the device or the numerics that this version does not have. buf as above. */
sluice_status engine_choice_resolve(const struct engine_choice *choice, char *buf, size_t cap,
                                    sluice_engine_options *out, sluice_error *err);

sluice_status engine_choice_open(const struct engine_choice *choice, sluice_engine **out, sluice_error *err);

/* What gives the limit; the library names its own option, a command line has another name for it. */
const char *plan_limit_origin(const sluice_plan *plan);

/* Says why a plan does not fit, and what would: SLUICE_LIMIT. */
sluice_status plan_refuse(const sluice_plan *plan, sluice_error *err);

/* Statistics to standard error in the form asked for. */
void stats_report(const sluice_engine *engine, int form);

#endif
