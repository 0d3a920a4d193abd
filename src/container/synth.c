/* A random container of any geometry.
 *
 * The dimensions that the caller does not give are those of GLM-5.2; a hidden size below 1024 scales them down, so
 * that a small geometry is small all round. The directory must be new or empty. A failure removes what was written,
 * and config.json comes last, so that a run cut short leaves nothing that could be taken for a container. */
#include "container/container.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "container/catalogue.h"
#include "container/resolve.h"
#include "container/synth.h"

#define SMALL_HIDDEN 1024
#define PATH_BYTES 4096

/* ---- Geometry ---------------------------------------------------------------------------------------- */

static sluice_status check_range(const char *what, uint32_t value, uint32_t min, uint32_t max, uint32_t multiple,
                                 sluice_error *err)
{
    if (value < min || value > max) {
        return error_set(err, SLUICE_INVALID, "%s is %" PRIu32 ", must be from %" PRIu32 " to %" PRIu32, what, value,
                         min, max);
    }
    if (value % multiple != 0) {
        return error_set(err, SLUICE_INVALID, "%s is %" PRIu32 ", must be a multiple of %" PRIu32, what, value,
                         multiple);
    }
    return SLUICE_OK;
}

/* A reader infers the group size from counts; a size that the counts do not tell from another one is refused. */
static sluice_status check_group(uint32_t group, const char *what, uint32_t cols, sluice_error *err)
{
    if (group == 0 || group >= cols) {
        return SLUICE_OK;
    }
    struct quant_guess guess;
    uint64_t scales = quant_row_scales(QUANT_INT4_GROUP, cols, group);
    if (resolve_kind(1, cols, quant_row_bytes(QUANT_INT4_GROUP, cols), scales, &guess) != QUANT_MATCH_ONE ||
        guess.group != group) {
        return error_set(err, SLUICE_INVALID,
                         "group is %" PRIu32 ", which no reader can tell from %s %" PRIu32 "'s counts", group, what,
                         cols);
    }
    return SLUICE_OK;
}

static sluice_status check_geometry(const struct synth_geometry *g, sluice_error *err)
{
    TRY(check_range("hidden", g->hidden, 64, 1 << 16, 8, err));
    TRY(check_range("intermediate", g->intermediate, 8, 1 << 16, 8, err));
    TRY(check_range("experts", g->experts, 1, 4096, 1, err));
    TRY(check_range("top_k", g->top_k, 1, g->experts < 256 ? g->experts : 256, 1, err));
    TRY(check_range("layers", g->layers, 1, CONFIG_MAX_LAYERS - 1, 1, err));
    TRY(check_range("dense", g->dense, 0, g->layers, 1, err));
    TRY(check_range("vocab", g->vocab, SYNTH_VOCAB_MIN, 1 << 22, 1, err));
    TRY(check_range("mtp", g->mtp, 0, 1, 1, err));
    TRY(check_range("group", g->group, 0, 256, 16, err));
    if ((uint64_t)(g->layers + g->mtp) * g->experts > CATALOGUE_TENSORS_MAX / 8) {
        return error_set(err, SLUICE_INVALID,
                         "%" PRIu32 " layers of %" PRIu32 " experts are more tensors than a container may have",
                         g->layers + g->mtp, g->experts);
    }
    TRY(check_group(g->group, "hidden", g->hidden, err));
    return check_group(g->group, "intermediate", g->intermediate, err);
}

static uint32_t at_least(uint32_t value, uint32_t min)
{
    return value < min ? min : value;
}

static void set_real_dims(struct model_config *config)
{
    config->num_attention_heads = 64;
    config->q_lora_rank = 2048;
    config->kv_lora_rank = 512;
    config->qk_nope_head_dim = 192;
    config->qk_rope_head_dim = 64;
    config->v_head_dim = 256;
    config->index_n_heads = 32;
    config->index_head_dim = 128;
    config->index_topk = 2048;
    config->max_position_embeddings = 1 << 20;
}

static void set_small_dims(struct model_config *config, uint32_t hidden)
{
    config->num_attention_heads = at_least(hidden / 64, 2);
    config->q_lora_rank = at_least(hidden / 16 * 8, 32);
    config->kv_lora_rank = at_least(hidden / 32 * 8, 64);
    config->qk_nope_head_dim = 32;
    config->qk_rope_head_dim = 16;
    config->v_head_dim = 32;
    config->index_n_heads = 4;
    config->index_head_dim = 32;
    config->index_topk = 64;
    config->max_position_embeddings = 1 << 13;
}

/* Full indexer layers as in GLM-5.2: 0, 1, 2, 6, 10, ... */
static void set_schedule(struct model_config *config)
{
    for (uint32_t i = 0; i < config->num_hidden_layers; i++) {
        config->index_full[i] = i < 3 || (i - 2) % 4 == 0;
    }
}

static void make_config(struct model_config *config, const struct synth_geometry *g)
{
    *config = (struct model_config){
        .vocab_size = g->vocab,
        .hidden_size = g->hidden,
        .intermediate_size = 2 * g->hidden,
        .moe_intermediate_size = g->intermediate,
        .num_hidden_layers = g->layers,
        .first_k_dense_replace = g->dense,
        .num_nextn_predict_layers = g->mtp,
        .n_routed_experts = g->experts,
        .num_experts_per_tok = g->top_k,
        .n_shared_experts = 1,
        .rms_norm_eps = 1e-5f,
        .routed_scaling_factor = 2.5f,
        .rope_theta = 8e6,
        .norm_topk_prob = true,
    };
    if (g->hidden < SMALL_HIDDEN) {
        set_small_dims(config, g->hidden);
    } else {
        set_real_dims(config);
    }
    set_schedule(config);
    synth_set_eos(config);
}

/* ---- Directory --------------------------------------------------------------------------------------- */

static sluice_status check_empty(const char *dir, sluice_error *err)
{
    DIR *stream = opendir(dir);
    if (stream == NULL) {
        return error_set_errno(err, SLUICE_IO, errno, "%s: cannot be opened as a directory", dir);
    }
    const struct dirent *entry;
    bool empty = true;
    while (empty && (entry = readdir(stream)) != NULL) {
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    }
    closedir(stream);
    return empty ? SLUICE_OK
                 : error_set(err, SLUICE_INVALID, "%s: not empty, a container needs a new or empty directory", dir);
}

static sluice_status prepare_dir(const char *dir, bool *created, sluice_error *err)
{
    *created = mkdir(dir, 0755) == 0;
    if (!*created && errno != EEXIST) {
        return error_set_errno(err, SLUICE_IO, errno, "%s: cannot be created", dir);
    }
    return *created ? SLUICE_OK : check_empty(dir, err);
}

static sluice_status join_path(char path[PATH_BYTES], const char *dir, const char *name, sluice_error *err)
{
    if (snprintf(path, PATH_BYTES, "%s/%s", dir, name) >= PATH_BYTES) {
        return error_set(err, SLUICE_INVALID, "%s: path too long", dir);
    }
    return SLUICE_OK;
}

/* The directory was empty, so whatever bears these names is ours. */
static void remove_written(const char *dir, const struct synth_plan *plan, bool created)
{
    static const char *const texts[] = {"tokenizer.json", "generation_config.json", "config.json"};
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (join_path(path, dir, texts[i], NULL) == SLUICE_OK) {
            unlink(path);
        }
    }
    for (size_t i = 0; i < plan->n_shards; i++) {
        if (join_path(path, dir, plan->shards[i].name, NULL) == SLUICE_OK) {
            unlink(path);
        }
    }
    if (created) {
        rmdir(dir);
    }
}

/* ---- Writing ----------------------------------------------------------------------------------------- */

static sluice_status write_all(const char *dir, const struct synth_plan *plan, const struct model_config *config,
                               uint64_t seed, const struct log *log, sluice_error *err)
{
    char path[PATH_BYTES];
    uint64_t done = 0;
    for (size_t i = 0; i < plan->n_shards; i++) {
        TRY(join_path(path, dir, plan->shards[i].name, err));
        TRY(synth_write_shard(path, plan, &plan->shards[i], seed, &done, log, err));
    }
    return synth_write_texts(dir, config, err);
}

/* Adds to the message of a failure that nothing was left behind. */
static sluice_status removed(sluice_status status, const sluice_error *failure, sluice_error *err)
{
    if (err != NULL) {
        error_set(err, status, "%s (what had been written is removed)", failure->message);
        err->os_errno = failure->os_errno;
    }
    return status;
}

sluice_status container_synth(const char *dir, const struct synth_geometry *geometry, const struct log *log,
                              sluice_error *err)
{
    TRY(check_geometry(geometry, err));
    struct model_config config;
    make_config(&config, geometry);
    struct synth_plan plan;
    TRY(synth_plan_make(&plan, &config, geometry->group, err));
    bool created;
    sluice_status status = prepare_dir(dir, &created, err);
    if (status == SLUICE_OK) {
        sluice_error failure;
        status = write_all(dir, &plan, &config, geometry->seed, log, &failure);
        if (status != SLUICE_OK) {
            remove_written(dir, &plan, created);
            removed(status, &failure, err);
        }
    }
    synth_plan_free(&plan);
    return status;
}
