/* What is in a container, after its values have been checked.
 *
 * Two walks over the layout: the first adds up bytes and counts by role and kind, the second reads whatever must be
 * finite, in pieces of one small buffer, so that the largest container needs no more memory than the smallest. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "container/layout.h"
#include "container/read.h"
#include "container/safetensors.h"
#include "container/state.h"

#define CHUNK_ELEMENTS ((size_t)1 << 18)
#define KINDS_MAX 16 /* three plain dtypes, two kinds with a scale a row, eight group sizes */
#define LABEL_MAX 32

/* ---- Counting ---------------------------------------------------------------------------------------- */

struct kind_count {
    char label[LABEL_MAX]; /* "int4 group 64" */
    uint64_t n;
};

struct role_summary {
    uint64_t bytes;
    struct kind_count kinds[KINDS_MAX];
    size_t n_kinds;
};

struct summary {
    const struct container *container;
    struct role_summary roles[ROLE_COUNT];
    uint64_t bytes_to_check;
};

static void role_count(struct role_summary *role, const char *label)
{
    size_t i = 0;
    while (i < role->n_kinds && strcmp(role->kinds[i].label, label) != 0) {
        i++;
    }
    if (i == role->n_kinds) {
        assert(i < KINDS_MAX);
        snprintf(role->kinds[i].label, LABEL_MAX, "%s", label);
        role->n_kinds++;
    }
    role->kinds[i].n++;
}

static void matrix_label(const struct stored_matrix *matrix, char label[LABEL_MAX])
{
    if (matrix->kind == QUANT_F32) {
        snprintf(label, LABEL_MAX, "%s", safetensors_dtype_name(matrix->weights.dtype));
    } else if (matrix->kind == QUANT_INT4_GROUP) {
        snprintf(label, LABEL_MAX, "%s %" PRIu32, quant_kind_name(matrix->kind), matrix->group);
    } else {
        snprintf(label, LABEL_MAX, "%s", quant_kind_name(matrix->kind));
    }
}

/* What of a tensor must be finite: all of a plain one, the scales of a quantised one. */
static const struct tensor_ref *checked_ref(const struct container *container, const struct layout_place *place)
{
    if (place->form == LAYOUT_VECTOR) {
        const struct stored_vector *vector = layout_stored(container, place);
        return &vector->data;
    }
    const struct stored_matrix *matrix = layout_stored(container, place);
    return matrix->kind == QUANT_F32 ? &matrix->weights : &matrix->scales;
}

static sluice_status visit_count(void *user, const struct layout_place *place, sluice_error *err)
{
    (void)err;
    struct summary *summary = user;
    struct role_summary *role = &summary->roles[place->role];
    if (place->form == LAYOUT_VECTOR) {
        const struct stored_vector *vector = layout_stored(summary->container, place);
        role->bytes += vector->data.bytes;
        role_count(role, safetensors_dtype_name(vector->data.dtype));
    } else {
        const struct stored_matrix *matrix = layout_stored(summary->container, place);
        char label[LABEL_MAX];
        matrix_label(matrix, label);
        role->bytes += matrix->weights.bytes + matrix->scales.bytes;
        role_count(role, label);
    }
    summary->bytes_to_check += checked_ref(summary->container, place)->bytes;
    return SLUICE_OK;
}

/* ---- Checking values --------------------------------------------------------------------------------- */

struct checking {
    const struct container *container;
    const struct log *log;
    float *chunk; /* [CHUNK_ELEMENTS] */
    uint64_t done, total;
    uint64_t reported; /* value of done at the last progress message */
};

static sluice_status visit_check(void *user, const struct layout_place *place, sluice_error *err)
{
    struct checking *checking = user;
    const struct tensor_ref *ref = checked_ref(checking->container, place);
    uint64_t n = ref->bytes / safetensors_dtype_size(ref->dtype);
    for (uint64_t first = 0; first < n; first += CHUNK_ELEMENTS) {
        size_t count = n - first < CHUNK_ELEMENTS ? (size_t)(n - first) : CHUNK_ELEMENTS;
        TRY(read_f32_range(checking->container, ref, first, count, checking->chunk, err));
    }
    checking->done += ref->bytes;
    if (checking->done - checking->reported >= checking->total / 256 || checking->done == checking->total) {
        checking->reported = checking->done;
        log_progress(checking->log, "checking", checking->done, checking->total);
    }
    return SLUICE_OK;
}

static unsigned present_parts(const struct container *container)
{
    unsigned parts = LAYOUT_MAIN;
    parts |= container->has_indexer ? LAYOUT_INDEXER : 0;
    parts |= container->has_mtp ? LAYOUT_MTP : 0;
    return parts;
}

static sluice_status check_values(const struct container *container, uint64_t total, const struct log *log,
                                  sluice_error *err)
{
    struct checking checking = {.container = container, .log = log, .total = total};
    checking.chunk = mem_alloc_aligned(CHUNK_ELEMENTS, sizeof(*checking.chunk));
    if (checking.chunk == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "%s: no memory to check its values", container->dir);
    }
    sluice_status status = layout_visit(&container->config, present_parts(container), visit_check, &checking, err);
    free(checking.chunk);
    return status;
}

/* ---- JSON -------------------------------------------------------------------------------------------- */

/* jansson's setters release a value that they cannot store and accept NULL for one that could not be made; what is
 * lost shows as a failing result, added up in *failed. */
static void put(json_t *object, const char *key, json_t *value, int *failed)
{
    *failed |= json_object_set_new(object, key, value);
}

static json_t *describe_completeness(const struct completeness *part, bool complete, bool wanted, const char *unwanted)
{
    const char *state = complete ? "complete" : "partial";
    char reason[2 * LAYOUT_NAME_MAX] = "";
    if (!wanted) {
        state = "absent";
        snprintf(reason, sizeof(reason), "%s", unwanted);
    } else if (part->missing == part->required) {
        state = "absent";
        snprintf(reason, sizeof(reason), "none of its %" PRIu32 " tensors is there", part->required);
    } else if (!complete) {
        snprintf(reason, sizeof(reason), "%" PRIu32 " of %" PRIu32 " tensors are missing, first %s", part->missing,
                 part->required, part->first_missing);
    }
    return reason[0] == '\0' ? json_pack("{s:s}", "state", state)
                             : json_pack("{s:s, s:s}", "state", state, "reason", reason);
}

static json_t *describe_role(const struct role_summary *role, int *failed)
{
    json_t *kinds = json_object();
    for (size_t i = 0; i < role->n_kinds; i++) {
        put(kinds, role->kinds[i].label, json_integer((json_int_t)role->kinds[i].n), failed);
    }
    return json_pack("{s:I, s:o}", "bytes", (json_int_t)role->bytes, "tensors", kinds);
}

static json_t *describe_roles(const struct summary *summary, int *failed)
{
    json_t *roles = json_object();
    for (unsigned role = 0; role < ROLE_COUNT; role++) {
        if (summary->roles[role].n_kinds > 0) {
            put(roles, layout_role_name(role), describe_role(&summary->roles[role], failed), failed);
        }
    }
    return roles;
}

static json_t *describe_shards(const struct container *container)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < container->n_shards; i++) {
        bytes += container->shards[i].size;
    }
    return json_pack("{s:i, s:I}", "count", (int)container->n_shards, "bytes", (json_int_t)bytes);
}

static json_t *describe_eos(const struct model_config *config, int *failed)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < config->n_eos; i++) {
        *failed |= json_array_append_new(list, json_integer(config->eos_token_id[i]));
    }
    return list;
}

static json_t *describe_geometry(const struct model_config *c, int *failed)
{
    const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {
        {"vocab_size", c->vocab_size},
        {"hidden_size", c->hidden_size},
        {"intermediate_size", c->intermediate_size},
        {"moe_intermediate_size", c->moe_intermediate_size},
        {"num_hidden_layers", c->num_hidden_layers},
        {"first_k_dense_replace", c->first_k_dense_replace},
        {"n_routed_experts", c->n_routed_experts},
        {"num_experts_per_tok", c->num_experts_per_tok},
        {"n_shared_experts", c->n_shared_experts},
        {"num_attention_heads", c->num_attention_heads},
        {"q_lora_rank", c->q_lora_rank},
        {"kv_lora_rank", c->kv_lora_rank},
        {"qk_nope_head_dim", c->qk_nope_head_dim},
        {"qk_rope_head_dim", c->qk_rope_head_dim},
        {"v_head_dim", c->v_head_dim},
        {"index_n_heads", c->index_n_heads},
        {"index_head_dim", c->index_head_dim},
        {"index_topk", c->index_topk},
        {"max_position_embeddings", c->max_position_embeddings},
    };
    json_t *geometry = json_object();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        put(geometry, sizes[i].name, json_integer(sizes[i].value), failed);
    }
    uint32_t full = 0;
    for (uint32_t i = 0; i < c->num_hidden_layers; i++) {
        full += c->index_full[i];
    }
    put(geometry, "full_indexer_layers", json_integer(full), failed);
    put(geometry, "rope_theta", json_real(c->rope_theta), failed);
    put(geometry, "rms_norm_eps", json_real(c->rms_norm_eps), failed);
    put(geometry, "routed_scaling_factor", json_real(c->routed_scaling_factor), failed);
    put(geometry, "norm_topk_prob", json_boolean(c->norm_topk_prob), failed);
    put(geometry, "eos_token_id", describe_eos(c, failed), failed);
    return geometry;
}

static void identity_hex(const uint8_t identity[16], char hex[33])
{
    for (size_t i = 0; i < 16; i++) {
        snprintf(hex + 2 * i, 3, "%02x", identity[i]);
    }
}

/* NULL when memory is out. */
static char *describe_json(const struct container *container, const struct summary *summary)
{
    const struct container_memory *memory = container->memory;
    char hex[33];
    identity_hex(container->identity, hex);
    int failed = 0;
    json_t *json = json_object();
    put(json, "model_type", json_string("glm_moe_dsa"), &failed);
    put(json, "identity", json_string(hex), &failed);
    put(json, "geometry", describe_geometry(&container->config, &failed), &failed);
    put(json, "shards", describe_shards(container), &failed);
    put(json, "tensors", json_integer((json_int_t)container->n_tensors), &failed);
    put(json, "unknown_tensors", json_integer((json_int_t)memory->n_unknown), &failed);
    put(json, "roles", describe_roles(summary, &failed), &failed);
    put(json, "indexer", describe_completeness(&memory->indexer, container->has_indexer, true, ""), &failed);
    put(json, "mtp",
        describe_completeness(&memory->mtp, container->has_mtp, container->config.num_nextn_predict_layers > 0,
                              "num_nextn_predict_layers is 0"),
        &failed);
    char *text = failed ? NULL : json_dumps(json, JSON_INDENT(1) | JSON_REAL_PRECISION(7));
    json_decref(json);
    return text;
}

sluice_status container_describe(const struct container *container, const struct log *log, char **json,
                                 sluice_error *err)
{
    struct summary summary = {.container = container};
    TRY(layout_visit(&container->config, present_parts(container), visit_count, &summary, err));
    TRY(check_values(container, summary.bytes_to_check, log, err));
    char *text = describe_json(container, &summary);
    if (text == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "%s: no memory to describe it", container->dir);
    }
    *json = text;
    return SLUICE_OK;
}
