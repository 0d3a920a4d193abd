/* Planning a random container: tensors and shards.
 *
 * Kinds follow the public files: int4 everywhere except embedding, lm_head, indexer and the MTP layer, which are
 * int8; norms and routers F32. Shards are filled layer by layer, in name order, up to a size; in a sparse layer
 * the cut is made inside an expert on purpose, since real containers have such experts and readers must cope. */
#include "container/synth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define SHARD_BYTES_MAX ((uint64_t)4800 << 20)

uint64_t synth_weight_bytes(const struct synth_tensor *tensor)
{
    return tensor->rows * (uint64_t)quant_row_bytes(tensor->kind, tensor->cols);
}

uint64_t synth_scale_bytes(const struct synth_tensor *tensor)
{
    return sizeof(float) * tensor->rows * (uint64_t)quant_row_scales(tensor->kind, tensor->cols, tensor->group);
}

/* ---- Tensors ----------------------------------------------------------------------------------------- */

struct planning {
    struct synth_plan *plan;
    uint32_t group;
};

static bool is_int8(enum layout_role role)
{
    return role == ROLE_EMBEDDING || role == ROLE_LM_HEAD || role == ROLE_INDEXER || role == ROLE_MTP;
}

static void choose_kind(struct synth_tensor *tensor, uint32_t group)
{
    tensor->kind = QUANT_F32;
    if (tensor->form == LAYOUT_MATRIX && is_int8(tensor->role)) {
        tensor->kind = QUANT_INT8_ROW;
    } else if (tensor->form == LAYOUT_MATRIX) {
        /* one group a row is one scale a row */
        bool grouped = group != 0 && group < tensor->cols;
        tensor->kind = grouped ? QUANT_INT4_GROUP : QUANT_INT4_ROW;
        tensor->group = grouped ? group : 0;
    }
}

static bool grow_tensors(struct synth_plan *plan)
{
    if (plan->n_tensors < plan->cap) {
        return true;
    }
    size_t cap = plan->cap == 0 ? 256 : 2 * plan->cap;
    struct synth_tensor *tensors = realloc(plan->tensors, cap * sizeof(*tensors));
    if (tensors == NULL) {
        return false;
    }
    plan->tensors = tensors;
    plan->cap = cap;
    return true;
}

static sluice_status visit_tensor(void *user, const struct layout_place *place, sluice_error *err)
{
    const struct planning *planning = user;
    struct synth_plan *plan = planning->plan;
    const char *name = arena_strndup(&plan->arena, place->name, strlen(place->name));
    if (name == NULL || !grow_tensors(plan)) {
        return error_set(err, SLUICE_NO_MEMORY, "no memory to plan the container");
    }
    struct synth_tensor *tensor = &plan->tensors[plan->n_tensors++];
    *tensor = (struct synth_tensor){.name = name,
                                    .layer = place->layer,
                                    .expert = place->expert,
                                    .is_expert = strstr(name, ".mlp.experts.") != NULL,
                                    .form = place->form,
                                    .role = place->role,
                                    .rows = place->rows,
                                    .cols = place->cols};
    choose_kind(tensor, planning->group);
    plan->total_bytes += synth_weight_bytes(tensor) + synth_scale_bytes(tensor);
    return SLUICE_OK;
}

static int compare_tensor(const void *a, const void *b)
{
    const struct synth_tensor *x = a, *y = b;
    if (x->layer != y->layer) {
        return x->layer < y->layer ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

/* ---- Shards ------------------------------------------------------------------------------------------ */

static bool same_expert(const struct synth_tensor *a, const struct synth_tensor *b)
{
    return a->is_expert && b->is_expert && a->layer == b->layer && a->expert == b->expert;
}

/* True if a shard of so many bytes ends between tensors i and i + 1: when it is full, inside the next expert or at the
 * end of the layer; when it is half full, inside the middle expert of a layer. */
static bool ends_here(const struct synth_plan *plan, const struct model_config *config, size_t i, uint64_t bytes,
                      uint64_t limit)
{
    const struct synth_tensor *tensor = &plan->tensors[i], *next = tensor + 1;
    if (same_expert(tensor, next)) {
        return bytes >= limit || (bytes >= limit / 2 && tensor->expert == config->n_routed_experts / 2);
    }
    return bytes >= limit && tensor->layer != next->layer;
}

/* The MTP layer has shards of its own, numbered from 0 again. */
static sluice_status cut_shards(struct synth_plan *plan, const struct model_config *config, sluice_error *err)
{
    uint32_t n_layers = config->num_hidden_layers + config->num_nextn_predict_layers;
    uint64_t limit = plan->total_bytes / n_layers;
    limit = limit < SHARD_BYTES_MAX ? limit : SHARD_BYTES_MAX;
    size_t cap = (size_t)(plan->total_bytes / (limit / 2)) + 3; /* all but the last of each series are half full */
    plan->shards = arena_alloc(&plan->arena, cap, sizeof(*plan->shards));
    if (plan->shards == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "no memory to plan the container");
    }
    unsigned main_number = 0, mtp_number = 0;
    uint64_t bytes = 0;
    struct synth_shard *shard = NULL;
    for (size_t i = 0; i < plan->n_tensors; i++) {
        const struct synth_tensor *tensor = &plan->tensors[i];
        bool mtp = tensor->layer == config->num_hidden_layers;
        bool mtp_starts = mtp && mtp_number == 0;
        if (shard == NULL || mtp_starts || ends_here(plan, config, i - 1, bytes, limit)) {
            shard = &plan->shards[plan->n_shards++];
            *shard = (struct synth_shard){.first = i};
            snprintf(shard->name, sizeof(shard->name), "out%s-%05u.safetensors", mtp ? "-mtp" : "",
                     mtp ? mtp_number++ : main_number++);
            bytes = 0;
        }
        shard->n++;
        bytes += synth_weight_bytes(tensor) + synth_scale_bytes(tensor);
    }
    return SLUICE_OK;
}

sluice_status synth_plan_make(struct synth_plan *plan, const struct model_config *config, uint32_t group,
                              sluice_error *err)
{
    *plan = (struct synth_plan){0};
    arena_init(&plan->arena);
    struct planning planning = {plan, group};
    unsigned parts = LAYOUT_MAIN | LAYOUT_INDEXER | (config->num_nextn_predict_layers > 0 ? LAYOUT_MTP : 0);
    sluice_status status = layout_visit(config, parts, visit_tensor, &planning, err);
    if (status == SLUICE_OK) {
        qsort(plan->tensors, plan->n_tensors, sizeof(*plan->tensors), compare_tensor);
        status = cut_shards(plan, config, err);
    }
    if (status != SLUICE_OK) {
        synth_plan_free(plan);
    }
    return status;
}

void synth_plan_free(struct synth_plan *plan)
{
    free(plan->tensors);
    arena_free(&plan->arena);
    *plan = (struct synth_plan){0};
}
