/* Opening and closing an engine, and the facts about it.
 *
 * Opening goes from what is cheap to what is large: the catalogue and the tokenizer are checked, threads
 * started, the memory plan made and perhaps refused; only then is a weight read. Every step is undone by the
 * same function, engine_free, whatever has been reached. */
#include "engine/engine.h"

#include <assert.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "device/cpu/cpu_device.h"
#include "engine/files.h"
#include "os/memory.h"

const char *sluice_version(void)
{
    return SLUICE_VERSION;
}

void sluice_engine_options_init(sluice_engine_options *options)
{
    *options = (sluice_engine_options){0};
}

struct plan_subject engine_plan_subject(const sluice_engine *engine)
{
    return (struct plan_subject){
        .container = engine->container,
        .settings = &engine->settings,
        .kernels = &engine->kernels,
        .pool = engine->pool,
        .text_bytes = engine->tokenizer != NULL ? detokenizer_max_bytes(engine->tokenizer) : 0,
        .loading_peak = engine->loading_peak,
    };
}

/* Everything that comes before the plan. Reading headers and tokenizer takes and returns a multiple of what it keeps:
 * the heap gives that back to the system, and the plan hears of the peak. */
static sluice_status open_catalogue(sluice_engine *engine, const sluice_engine_options *options, sluice_error *err)
{
    if (options == NULL || options->model_dir == NULL) {
        return error_set(err, SLUICE_INVALID, "no model directory given");
    }
    engine->log = settings_log(options);
    uint64_t peak = memory_peak_rss_bytes();
    TRY(container_open(&engine->container, options->model_dir, true, &engine->log, err));
    TRY(settings_resolve(&engine->settings, options, &engine->container->config, err));
    TRY(files_open_model_tokenizer(&engine->tokenizer, engine->container, &engine->log, err));
    kernel_table_init(&engine->kernels, engine->settings.cpu_features);
    TRY(thread_pool_open(&engine->pool, engine->settings.threads, err));
    engine->loading_peak = memory_peak_rss_bytes() > peak ? memory_peak_rss_bytes() : 0;
    malloc_trim(0);
    struct plan_subject subject = engine_plan_subject(engine);
    return plan_make(&engine->plan, &subject, err);
}

static void describe_reader(sluice_engine *engine)
{
    const struct container *container = engine->container;
    uint32_t direct = 0;
    for (uint32_t i = 0; i < container->n_shards; i++) {
        direct += container->shards[i].fd_direct >= 0;
    }
    const char *how = direct == 0 ? "buffered" : direct == container->n_shards ? "O_DIRECT" : "O_DIRECT in part";
    snprintf(engine->reader_text, sizeof engine->reader_text, "%s (%s)", async_reader_name(engine->reader), how);
}

static sluice_status open_experts(sluice_engine *engine, const struct plan_subject *subject, sluice_error *err)
{
    struct cpu_device_limits limits = plan_device_limits(subject);
    struct executor_options options = plan_executor_options(subject);
    TRY(async_reader_open(&engine->reader, PLAN_READER_THREADS, err));
    describe_reader(engine);
    TRY(cpu_device_open(&engine->device, &engine->kernels, engine->pool, &limits, err));
    TRY(expert_store_open(&engine->store, engine->container, engine->reader, engine->plan.expert_slots, err));
    options.store = engine->store;
    options.device = engine->device;
    return executor_open(&engine->executor, &options, err);
}

static sluice_status open_locks(sluice_engine *engine, sluice_error *err)
{
    TRY(turn_init(&engine->evaluation, err));
    sluice_status status = turn_init(&engine->compute, err);
    if (status != SLUICE_OK) {
        turn_destroy(&engine->evaluation);
        return status;
    }
    engine->turns_ready = true;
    int failed = pthread_mutex_init(&engine->lock, NULL);
    if (failed != 0) {
        return error_set_errno(err, SLUICE_NO_MEMORY, failed, "engine lock");
    }
    engine->lock_ready = true;
    return SLUICE_OK;
}

static sluice_status open_parts(sluice_engine *engine, sluice_error *err)
{
    struct plan_subject subject = engine_plan_subject(engine);
    struct model_options model = plan_model_options(&subject, engine->settings.context);
    model.log = &engine->log;
    TRY(open_locks(engine, err));
    TRY(open_experts(engine, &subject, err));
    TRY(model_open(&engine->model, &model, err));
    size_t vocab_size = engine->container->config.vocab_size;
    engine->rows = mem_alloc_aligned(engine->settings.logits_rows * vocab_size, sizeof(float));
    if (engine->rows == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "no memory for the logits of an evaluation");
    }
    return SLUICE_OK;
}

/* Safe at every stage of opening. */
static void engine_free(sluice_engine *engine)
{
    free(engine->rows);
    model_close(&engine->model);
    executor_close(&engine->executor);
    if (engine->store != NULL) {
        sluice_status status = expert_store_close(&engine->store, NULL);
        assert(status == SLUICE_OK); /* a lease outlives no call, and no call is in progress */
        (void)status;
    }
    device_close(&engine->device);
    async_reader_close(&engine->reader);
    thread_pool_close(&engine->pool);
    tokenizer_close(&engine->tokenizer);
    container_close(&engine->container);
    if (engine->turns_ready) {
        turn_destroy(&engine->compute);
        turn_destroy(&engine->evaluation);
    }
    if (engine->lock_ready) {
        pthread_mutex_destroy(&engine->lock);
    }
    free(engine);
}

static sluice_status engine_allocate(sluice_engine **out, sluice_error *err)
{
    *out = mem_zalloc(1, sizeof **out);
    return *out != NULL ? SLUICE_OK : error_set(err, SLUICE_NO_MEMORY, "no memory for an engine");
}

sluice_status sluice_engine_open(sluice_engine **out, const sluice_engine_options *options, sluice_error *error)
{
    if (out == NULL) {
        return error_set(error, SLUICE_INVALID, "no place for the result given");
    }
    sluice_engine *engine;
    TRY(engine_allocate(&engine, error));
    sluice_status status = open_catalogue(engine, options, error);
    if (status == SLUICE_OK) {
        status = plan_check(&engine->plan, error);
    }
    if (status == SLUICE_OK) {
        status = open_parts(engine, error);
    }
    if (status != SLUICE_OK) {
        engine_free(engine);
        return status;
    }
    *out = engine;
    return SLUICE_OK;
}

sluice_status sluice_engine_close(sluice_engine **engine, sluice_error *error)
{
    if (engine == NULL || *engine == NULL) {
        return SLUICE_OK;
    }
    pthread_mutex_lock(&(*engine)->lock);
    uint32_t sessions = (*engine)->open_sessions;
    pthread_mutex_unlock(&(*engine)->lock);
    if (sessions > 0) {
        return error_set(error, SLUICE_BUSY, "the engine cannot be closed: sessions are open (%u)", sessions);
    }
    engine_free(*engine);
    *engine = NULL;
    return SLUICE_OK;
}

sluice_status sluice_plan_compute(sluice_plan *out, const sluice_engine_options *options, sluice_error *error)
{
    if (out == NULL) {
        return error_set(error, SLUICE_INVALID, "no place for the result given");
    }
    sluice_engine *engine;
    TRY(engine_allocate(&engine, error));
    sluice_status status = open_catalogue(engine, options, error);
    if (status == SLUICE_OK) {
        *out = engine->plan;
    }
    engine_free(engine);
    return status;
}

sluice_status engine_enter_session(sluice_engine *engine, sluice_error *err)
{
    pthread_mutex_lock(&engine->lock);
    bool room = engine->open_sessions < engine->settings.sessions;
    engine->open_sessions += room;
    pthread_mutex_unlock(&engine->lock);
    if (!room) {
        return error_set(err, SLUICE_LIMIT, "all sessions of the engine are open (%u)", engine->settings.sessions);
    }
    return SLUICE_OK;
}

void engine_leave_session(sluice_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->open_sessions--;
    pthread_mutex_unlock(&engine->lock);
}

void engine_count(sluice_engine *engine, const struct engine_counters *more)
{
    pthread_mutex_lock(&engine->lock);
    engine->counters.prefill_tokens += more->prefill_tokens;
    engine->counters.decode_tokens += more->decode_tokens;
    engine->counters.prefill_seconds += more->prefill_seconds;
    engine->counters.decode_seconds += more->decode_seconds;
    pthread_mutex_unlock(&engine->lock);
}

void sluice_engine_get_info(const sluice_engine *engine, sluice_engine_info *out)
{
    const struct model_config *config = &engine->container->config;
    uint32_t sparse = 0;
    for (uint32_t i = 0; i < config->num_hidden_layers; i++) {
        sparse += engine->container->layers[i].sparse;
    }
    *out = (sluice_engine_info){
        .vocab_size = config->vocab_size,
        .hidden_size = config->hidden_size,
        .layers = config->num_hidden_layers,
        .sparse_layers = sparse,
        .experts = config->n_routed_experts,
        .experts_per_token = config->num_experts_per_tok,
        .context = engine->settings.context,
        .threads = engine->settings.threads,
        .planned_bytes = engine->plan.total,
        .expert_slots = expert_store_slots(engine->store),
        .numerics = "f32",
        .device = engine->device->ops->name,
        .cpu_kernels = engine->kernels.name,
        .reader = engine->reader_text,
        .has_mtp = engine->container->has_mtp,
        .has_indexer = engine->container->has_indexer,
        .has_tokenizer = engine->tokenizer != NULL,
    };
}

bool sluice_engine_is_eos(const sluice_engine *engine, uint32_t id)
{
    const struct model_config *config = &engine->container->config;
    for (uint32_t i = 0; i < config->n_eos; i++) {
        if (config->eos_token_id[i] == id) {
            return true;
        }
    }
    return false;
}

/* The lock is part of the engine's inner state, which a caller who only looks does not change. */
void sluice_engine_get_stats(const sluice_engine *engine, sluice_stats *out)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&engine->lock;
    struct expert_store_stats experts;
    expert_store_get_stats(engine->store, &experts);
    pthread_mutex_lock(lock);
    struct engine_counters counters = engine->counters;
    pthread_mutex_unlock(lock);
    *out = (sluice_stats){
        .prefill_tokens = counters.prefill_tokens,
        .decode_tokens = counters.decode_tokens,
        .prefill_seconds = counters.prefill_seconds,
        .decode_seconds = counters.decode_seconds,
        .expert_hits = experts.hits,
        .expert_misses = experts.misses,
        .bytes_read = experts.bytes_read,
        .disk_wait_seconds = experts.wait_seconds,
        .peak_rss_bytes = memory_peak_rss_bytes(),
        .planned_bytes = engine->plan.total,
    };
}
