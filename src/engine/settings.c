/* Defaults and bounds of sluice_engine_options.
 *
 * The bounds are far above any use; they keep later products of sizes small and turn a mistyped number
 * into one clear line. The number of prompt tokens computed at once never exceeds the context, and the
 * rows of an evaluation never exceed LOGITS_ROWS: a row of logits is as long as the vocabulary, and the
 * kernels gain nothing beyond that width. */
#include "engine/settings.h"

#include "os/cpu.h"

#define DEFAULT_CONTEXT 8192
#define DEFAULT_PREFILL_ROWS 64
#define LOGITS_ROWS 16

#define MAX_SESSIONS 4096
#define MAX_THREADS 1024
#define MAX_PREFILL_ROWS 4096

struct log settings_log(const sluice_engine_options *options)
{
    struct log log = {0};
    if (options != NULL) {
        log.message = options->message;
        log.progress = options->progress;
        log.user = options->user;
    }
    return log;
}

static sluice_status check_at_most(const char *field, uint32_t value, uint32_t most, sluice_error *err)
{
    if (value > most) {
        return error_set(err, SLUICE_INVALID, "%s %u: the most is %u", field, value, most);
    }
    return SLUICE_OK;
}

static sluice_status check_options(const sluice_engine_options *options, const struct model_config *config,
                                   sluice_error *err)
{
    if (options->numerics != SLUICE_NUMERICS_F32) {
        return error_set(err, SLUICE_INVALID, "numerics %d: unknown mode", (int)options->numerics);
    }
    if (options->device != SLUICE_DEVICE_CPU) {
        return error_set(err, SLUICE_INVALID, "device %d: unknown device", (int)options->device);
    }
    if (options->context > config->max_position_embeddings) {
        return error_set(err, SLUICE_INVALID, "context %u: the model's limit is %u", options->context,
                         config->max_position_embeddings);
    }
    TRY(check_at_most("sessions", options->sessions, MAX_SESSIONS, err));
    TRY(check_at_most("threads", options->threads, MAX_THREADS, err));
    return check_at_most("prefill_chunk", options->prefill_chunk, MAX_PREFILL_ROWS, err);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t value_or(uint32_t value, uint32_t otherwise)
{
    return value != 0 ? value : otherwise;
}

sluice_status settings_resolve(struct engine_settings *out, const sluice_engine_options *options,
                               const struct model_config *config, sluice_error *err)
{
    TRY(check_options(options, config, err));
    uint32_t features = cpu_features();
    if (options->cpu_features != NULL) {
        uint32_t mask = 0;
        TRY(cpu_features_parse(options->cpu_features, &mask, err));
        features &= mask;
    }
    struct engine_settings settings = {
        .memory_limit = options->memory_limit,
        .context = value_or(options->context, smaller(DEFAULT_CONTEXT, config->max_position_embeddings)),
        .sessions = value_or(options->sessions, 1),
        .threads = value_or(options->threads, smaller(cpu_count(), MAX_THREADS)),
        .cpu_features = features,
    };
    settings.prefill_rows = smaller(value_or(options->prefill_chunk, DEFAULT_PREFILL_ROWS), settings.context);
    settings.logits_rows = smaller(LOGITS_ROWS, settings.prefill_rows);
    *out = settings;
    return SLUICE_OK;
}
