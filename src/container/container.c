/* Opening a container.
 *
 * 1. The shards are listed, opened, and their headers parsed one at a time into a catalogue of all tensors.
 * 2. Every name that speaks of a layer or expert must be one that the config has.
 * 3. Presence: every tensor of the main graph must be there; the indexers and the MTP layer are there as a whole or
 *    are left off. Only now is memory taken for layers and experts: as many as tensors were found for.
 * 4. Each tensor is resolved: dtype, shape, kind.
 * The catalogue is then thrown away; names stay in the container's arena. */
#include "container/container.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "container/catalogue.h"
#include "container/identity.h"
#include "container/layout.h"
#include "container/resolve.h"
#include "container/shards.h"
#include "container/state.h"

/* What the steps of opening share. */
struct opening {
    struct container *container;
    struct catalogue catalogue;
    const char *const *names; /* of shards, [n_shards] */
    const struct log *log;
};

static sluice_status no_memory(const struct container *container, sluice_error *err)
{
    return error_set(err, SLUICE_NO_MEMORY, "%s: no memory for its description", container->dir);
}

/* ---- Shards ------------------------------------------------------------------------------------------ */

static sluice_status open_shards(struct opening *opening, bool direct, sluice_error *err)
{
    struct container *container = opening->container;
    uint32_t n;
    TRY(shards_list(container->dir, &container->memory->arena, &opening->names, &n, err));
    container->shards = arena_alloc(&container->memory->arena, n, sizeof(*container->shards));
    size_t cap = strlen(container->dir) + 512;
    char *path = arena_alloc(&container->memory->arena, cap, 1);
    if (container->shards == NULL || path == NULL) {
        return no_memory(container, err);
    }
    size_t dir_len = strlen(container->dir);
    memcpy(path, container->dir, dir_len);
    path[dir_len] = '/';
    for (uint32_t i = 0; i < n; i++) {
        memcpy(path + dir_len + 1, opening->names[i], strlen(opening->names[i]) + 1); /* names have at most 255 bytes */
        TRY(os_file_open(&container->shards[i], path, direct, err));
        container->n_shards = i + 1;
    }
    return SLUICE_OK;
}

static sluice_status read_shard(struct opening *opening, uint32_t shard, struct identity *identity, sluice_error *err)
{
    const struct os_file *file = &opening->container->shards[shard];
    char *text;
    size_t len;
    TRY(safetensors_read_header(file, &text, &len, err));
    identity_add_shard(identity, opening->names[shard], text, len, file->size);
    sluice_status status = catalogue_add_shard(&opening->catalogue, shard, text, len, err);
    free(text);
    return status;
}

static sluice_status read_headers(struct opening *opening, sluice_error *err)
{
    struct container *container = opening->container;
    struct identity *identity;
    TRY(identity_open(&identity, container->dir, err));
    catalogue_init(&opening->catalogue, container->shards, &container->memory->arena);
    sluice_status status = SLUICE_OK;
    for (uint32_t i = 0; i < container->n_shards && status == SLUICE_OK; i++) {
        status = read_shard(opening, i, identity, err);
    }
    if (status == SLUICE_OK) {
        identity_digest(identity, container->identity);
        container->n_tensors = opening->catalogue.n;
    }
    identity_close(&identity);
    return status;
}

/* ---- Names against the config ------------------------------------------------------------------------ */

/* Reads "<prefix><number>." off the start of a name; NULL if it has another form. A number beyond all bounds
 * becomes UINT32_MAX. */
static const char *take_index(const char *name, const char *prefix, uint32_t *index)
{
    size_t len = strlen(prefix);
    if (strncmp(name, prefix, len) != 0 || name[len] < '0' || name[len] > '9') {
        return NULL;
    }
    uint64_t value = 0;
    const char *p = name + len;
    for (; *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (uint64_t)(*p - '0');
        value = value < UINT32_MAX ? value : UINT32_MAX;
    }
    *index = (uint32_t)value;
    return *p == '.' ? p + 1 : NULL;
}

static sluice_status check_name(const struct opening *opening, const struct safetensors_entry *entry, sluice_error *err)
{
    const struct model_config *config = &opening->container->config;
    const char *path = opening->container->shards[entry->shard].path;
    uint32_t layer, expert;
    const char *suffix = take_index(entry->name, "model.layers.", &layer);
    if (suffix == NULL) {
        return SLUICE_OK;
    }
    if (layer > config->num_hidden_layers) {
        return error_set(err, SLUICE_FORMAT, "%s: tensor %s is in layer %u, but config.json has num_hidden_layers %u",
                         path, entry->name, layer, config->num_hidden_layers);
    }
    if (layer == config->num_hidden_layers && config->num_nextn_predict_layers == 0) {
        return error_set(err, SLUICE_FORMAT,
                         "%s: tensor %s is in layer %u, but config.json has num_hidden_layers %u and "
                         "num_nextn_predict_layers 0",
                         path, entry->name, layer, config->num_hidden_layers);
    }
    if (layer < config->num_hidden_layers && layout_is_mtp_suffix(suffix)) {
        return error_set(err, SLUICE_FORMAT,
                         "%s: tensor %s makes layer %u the MTP layer, but config.json has num_hidden_layers %u", path,
                         entry->name, layer, config->num_hidden_layers);
    }
    if (take_index(suffix, "mlp.experts.", &expert) != NULL && expert >= config->n_routed_experts) {
        return error_set(err, SLUICE_FORMAT, "%s: tensor %s is of expert %u, but config.json has n_routed_experts %u",
                         path, entry->name, expert, config->n_routed_experts);
    }
    return SLUICE_OK;
}

static sluice_status check_names(const struct opening *opening, sluice_error *err)
{
    for (size_t i = 0; i < opening->catalogue.n; i++) {
        TRY(check_name(opening, &opening->catalogue.entries[i], err));
    }
    return SLUICE_OK;
}

/* ---- Presence ---------------------------------------------------------------------------------------- */

struct presence {
    const struct catalogue *catalogue;
    struct completeness *result;
};

static sluice_status visit_presence(void *user, const struct layout_place *place, sluice_error *err)
{
    (void)err;
    const struct presence *presence = user;
    struct completeness *result = presence->result;
    const char *suffix;
    result->required++;
    if (!resolve_is_present(presence->catalogue, place->name, place->form == LAYOUT_MATRIX, &suffix)) {
        if (result->missing == 0) {
            snprintf(result->first_missing, sizeof(result->first_missing), "%s%s", place->name, suffix);
        }
        result->missing++;
    }
    return SLUICE_OK;
}

static struct completeness find_part(const struct opening *opening, unsigned part)
{
    struct completeness result = {0};
    struct presence presence = {&opening->catalogue, &result};
    layout_visit(&opening->container->config, part, visit_presence, &presence, NULL);
    return result;
}

static sluice_status check_main(const struct opening *opening, sluice_error *err)
{
    struct completeness main = find_part(opening, LAYOUT_MAIN);
    if (main.missing == 0) {
        return SLUICE_OK;
    }
    char more[32] = "";
    if (main.missing > 1) {
        snprintf(more, sizeof(more), ", and %u more", main.missing - 1);
    }
    return error_set(err, SLUICE_INCOMPLETE, "%s: tensor %s is missing%s (incomplete download?)",
                     opening->container->dir, main.first_missing, more);
}

static void check_mtp(struct opening *opening)
{
    struct container *container = opening->container;
    if (container->config.num_nextn_predict_layers == 0) {
        return;
    }
    struct completeness mtp = find_part(opening, LAYOUT_MTP);
    container->memory->mtp = mtp;
    container->has_mtp = mtp.missing == 0;
    if (mtp.missing > 0 && mtp.missing < mtp.required) {
        log_message(opening->log, "%s: the MTP layer lacks %u of %u tensors (first %s): it is left off", container->dir,
                    mtp.missing, mtp.required, mtp.first_missing);
    }
}

static void check_indexer(struct opening *opening)
{
    struct container *container = opening->container;
    struct completeness indexer = find_part(opening, LAYOUT_INDEXER);
    container->memory->indexer = indexer;
    container->has_indexer = indexer.missing == 0;
    if (indexer.missing == indexer.required) {
        log_message(opening->log, "%s: no indexer tensors: runs dense attention", container->dir);
    } else if (indexer.missing > 0) {
        log_message(opening->log,
                    "%s: the indexer lacks %u of %u tensors (first %s): it is left off, runs dense attention",
                    container->dir, indexer.missing, indexer.required, indexer.first_missing);
    }
}

/* Indexer tensors of layers that need none are known, though unused. */
static bool is_unknown(const struct safetensors_entry *entry)
{
    uint32_t layer;
    const char *suffix = take_index(entry->name, "model.layers.", &layer);
    return !entry->used && (suffix == NULL || !layout_is_indexer_suffix(suffix));
}

static void report_unknown(struct opening *opening)
{
    const struct catalogue *catalogue = &opening->catalogue;
    const char *first = NULL;
    uint64_t n = 0;
    for (size_t i = 0; i < catalogue->n; i++) {
        if (is_unknown(&catalogue->entries[i])) {
            first = first == NULL ? catalogue->entries[i].name : first;
            n++;
        }
    }
    opening->container->memory->n_unknown = n;
    if (n > 0) {
        log_message(opening->log, "%s: %" PRIu64 " tensors are not part of the graph and are ignored (first %s)",
                    opening->container->dir, n, first);
    }
}

/* ---- Resolving --------------------------------------------------------------------------------------- */

static sluice_status allocate_layer(struct container *container, uint32_t index, struct stored_layer *layer,
                                    sluice_error *err)
{
    const struct model_config *config = &container->config;
    layer->sparse = index >= config->first_k_dense_replace;
    layer->has_indexer = index < config->num_hidden_layers && container->has_indexer && config->index_full[index];
    if (layer->sparse) {
        layer->experts = arena_alloc(&container->memory->arena, config->n_routed_experts, sizeof(*layer->experts));
        if (layer->experts == NULL) {
            return no_memory(container, err);
        }
    }
    return SLUICE_OK;
}

static sluice_status allocate_layers(struct container *container, sluice_error *err)
{
    struct arena *arena = &container->memory->arena;
    uint32_t n = container->config.num_hidden_layers;
    container->layers = arena_alloc(arena, n, sizeof(*container->layers));
    if (container->layers == NULL) {
        return no_memory(container, err);
    }
    for (uint32_t i = 0; i < n; i++) {
        TRY(allocate_layer(container, i, &container->layers[i], err));
    }
    if (container->has_mtp) {
        container->mtp = arena_alloc(arena, 1, sizeof(*container->mtp));
        if (container->mtp == NULL) {
            return no_memory(container, err);
        }
        TRY(allocate_layer(container, n, &container->mtp->layer, err));
    }
    return SLUICE_OK;
}

static sluice_status visit_resolve(void *user, const struct layout_place *place, sluice_error *err)
{
    const struct opening *opening = user;
    /* the container is ours to fill: layout_stored is const only for its other callers */
    void *target = (void *)layout_stored(opening->container, place);
    if (place->form == LAYOUT_VECTOR) {
        return resolve_vector(&opening->catalogue, place->name, place->cols, target, err);
    }
    return resolve_matrix(&opening->catalogue, place->name, place->rows, place->cols,
                          place->form == LAYOUT_PLAIN_MATRIX, target, err);
}

static sluice_status resolve_all(struct opening *opening, sluice_error *err)
{
    struct container *container = opening->container;
    TRY(check_names(opening, err));
    TRY(check_main(opening, err));
    check_mtp(opening);
    check_indexer(opening);
    report_unknown(opening);
    TRY(allocate_layers(container, err));
    unsigned parts = LAYOUT_MAIN;
    parts |= container->has_indexer ? LAYOUT_INDEXER : 0;
    parts |= container->has_mtp ? LAYOUT_MTP : 0;
    TRY(layout_visit(&container->config, parts, visit_resolve, opening, err));
    /* embedding and hidden halves of eh_proj differ 20 to 30 times in size, which one scale a row cannot hold */
    if (container->has_mtp && container->mtp->eh_proj.kind == QUANT_INT4_ROW) {
        log_message(opening->log, "%s: tensor %s is int4 with one scale a row: drafts will be poor", container->dir,
                    container->mtp->eh_proj.weights.name);
    }
    return SLUICE_OK;
}

/* ---- Open and close ---------------------------------------------------------------------------------- */

/* NULL when memory is out. */
static struct container *container_alloc(const char *dir)
{
    struct container *container = mem_zalloc(1, sizeof(*container));
    struct container_memory *memory = mem_zalloc(1, sizeof(*memory));
    if (container == NULL || memory == NULL) {
        free(container);
        free(memory);
        return NULL;
    }
    arena_init(&memory->arena);
    container->memory = memory;
    container->dir = arena_strndup(&memory->arena, dir, strlen(dir));
    if (container->dir == NULL) {
        container_close(&container);
    }
    return container;
}

static sluice_status open_steps(struct opening *opening, bool direct, sluice_error *err)
{
    TRY(open_shards(opening, direct, err));
    TRY(config_load(&opening->container->config, opening->container->dir, err));
    TRY(read_headers(opening, err));
    return resolve_all(opening, err);
}

sluice_status container_open(struct container **out, const char *dir, bool direct, const struct log *log,
                             sluice_error *err)
{
    struct opening opening = {.container = container_alloc(dir), .log = log};
    if (opening.container == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "%s: no memory to open it", dir);
    }
    sluice_status status = open_steps(&opening, direct, err);
    catalogue_free(&opening.catalogue);
    if (status != SLUICE_OK) {
        container_close(&opening.container);
        return status;
    }
    *out = opening.container;
    return SLUICE_OK;
}

void container_close(struct container **container)
{
    if (*container == NULL) {
        return;
    }
    struct container_memory *memory = (*container)->memory;
    for (uint32_t i = 0; i < (*container)->n_shards; i++) {
        os_file_close(&(*container)->shards[i]);
    }
    arena_free(&memory->arena);
    free(memory);
    free(*container);
    *container = NULL;
}
