/* Containers without an engine: describing one, and writing a random one. */
#include "container/container.h"
#include "engine/files.h"
#include "engine/settings.h"

sluice_status sluice_inspect(const char *model_dir, const sluice_engine_options *callbacks, char **json,
                             sluice_error *error)
{
    if (model_dir == NULL || json == NULL) {
        return error_set(error, SLUICE_INVALID, "no model directory given");
    }
    struct log log = settings_log(callbacks);
    struct container *container;
    struct tokenizer *tokenizer = NULL;
    TRY(container_open(&container, model_dir, false, &log, error));
    sluice_status status = files_open_model_tokenizer(&tokenizer, container, &log, error);
    if (status == SLUICE_OK) {
        status = container_describe(container, &log, json, error);
    }
    tokenizer_close(&tokenizer);
    container_close(&container);
    return status;
}

/* The published geometry with one dense and three sparse layers and a small vocabulary: about 15 GB. */
void sluice_synth_options_init(sluice_synth_options *options)
{
    *options = (sluice_synth_options){
        .hidden = 6144,
        .intermediate = 2048,
        .experts = 256,
        .top_k = 8,
        .layers = 4,
        .dense = 1,
        .vocab = 16384,
        .seed = 1,
    };
}

sluice_status sluice_synth(const char *dir, const sluice_synth_options *options, sluice_error *error)
{
    if (dir == NULL || options == NULL) {
        return error_set(error, SLUICE_INVALID, "no directory or no geometry given");
    }
    const struct synth_geometry geometry = {
        .hidden = options->hidden,
        .intermediate = options->intermediate,
        .experts = options->experts,
        .top_k = options->top_k,
        .layers = options->layers,
        .dense = options->dense,
        .vocab = options->vocab,
        .group = options->group,
        .mtp = options->mtp,
        .seed = options->seed,
    };
    const struct log log = {.progress = options->progress, .cancelled = options->cancelled, .user = options->user};
    return container_synth(dir, &geometry, &log, error);
}
