/* config.json and generation_config.json.
 *
 * Integers are read by a table of (field, smallest, largest). The bounds are wide enough for any model of this
 * family and narrow enough that later products – heads times head dimension, vocabulary times hidden size, bytes of
 * a matrix – fit their types without further checks. Then come the relations between fields, then what
 * this implementation of the graph does not handle, each refused by name.
 *
 * A field that is missing is an error unless the graph has exactly one meaning without it; such defaults are
 * marked "default:" where they are applied. Fields that do not change the computation are ignored. */
#include "container/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

#define CONFIG_FILE_MAX ((size_t)4 << 20)
#define CONFIG_PATH_MAX 4096

/* A parsed file and the name that messages call it by. */
struct source {
    const json_t *json;
    const char *path;
};

/* ---- Integers ---------------------------------------------------------------------------------------- */

struct integer_field {
    const char *name;
    size_t offset;
    int64_t min, max;
};

#define INTEGER(field, min, max)                               \
    {                                                          \
#field, offsetof(struct model_config, field), min, max \
    }
/* One layer fewer than CONFIG_MAX_LAYERS: the MTP layer takes the next index. */
static const struct integer_field integer_fields[] = {
    INTEGER(vocab_size, 1, 1 << 22),
    INTEGER(hidden_size, 8, 1 << 16),
    INTEGER(intermediate_size, 8, 1 << 20),
    INTEGER(moe_intermediate_size, 8, 1 << 16),
    INTEGER(num_hidden_layers, 1, CONFIG_MAX_LAYERS - 1),
    INTEGER(num_attention_heads, 1, 1024),
    INTEGER(q_lora_rank, 1, 1 << 16),
    INTEGER(kv_lora_rank, 1, 1 << 16),
    INTEGER(qk_nope_head_dim, 1, 4096),
    INTEGER(qk_rope_head_dim, 2, 4096),
    INTEGER(v_head_dim, 1, 4096),
    INTEGER(n_routed_experts, 1, 4096),
    INTEGER(num_experts_per_tok, 1, 256),
    INTEGER(n_shared_experts, 1, 16),
    INTEGER(index_n_heads, 1, 1024),
    INTEGER(index_head_dim, 2, 4096),
    INTEGER(index_topk, 1, 1 << 24),
    INTEGER(max_position_embeddings, 1, 1 << 24),
};
#undef INTEGER

static sluice_status read_integers(struct model_config *config, const struct source *source, sluice_error *err)
{
    for (size_t i = 0; i < sizeof(integer_fields) / sizeof(integer_fields[0]); i++) {
        const struct integer_field *field = &integer_fields[i];
        int64_t value;
        TRY(json_get_int(source->json, source->path, field->name, field->min, field->max, &value, err));
        *(uint32_t *)((char *)config + field->offset) = (uint32_t)value;
    }
    /* default: 1. Public configs have it; without it the tensors decide whether there is an MTP layer. */
    int64_t mtp = 1;
    if (json_has(source->json, "num_nextn_predict_layers")) {
        TRY(json_get_int(source->json, source->path, "num_nextn_predict_layers", 0, 1, &mtp, err));
    }
    config->num_nextn_predict_layers = (uint32_t)mtp;
    return SLUICE_OK;
}

static sluice_status check_integers(const struct model_config *config, const struct source *source, sluice_error *err)
{
    if (config->num_experts_per_tok > config->n_routed_experts) {
        return error_set(err, SLUICE_FORMAT, "%s: num_experts_per_tok is %u, but n_routed_experts is only %u",
                         source->path, config->num_experts_per_tok, config->n_routed_experts);
    }
    if (config->qk_rope_head_dim % 2 != 0) {
        return error_set(err, SLUICE_FORMAT, "%s: qk_rope_head_dim is %u, must be even", source->path,
                         config->qk_rope_head_dim);
    }
    if (config->index_head_dim < config->qk_rope_head_dim) {
        return error_set(err, SLUICE_FORMAT, "%s: index_head_dim is %u, must be at least qk_rope_head_dim, %u",
                         source->path, config->index_head_dim, config->qk_rope_head_dim);
    }
    return SLUICE_OK;
}

/* ---- Reals and booleans ------------------------------------------------------------------------------ */

static sluice_status read_real(const struct source *source, const char *field, double min, double max, double *out,
                               sluice_error *err)
{
    double value;
    TRY(json_get_real(source->json, source->path, field, &value, err));
    if (!(value >= min && value <= max)) {
        return error_set(err, SLUICE_FORMAT, "%s: field \"%s\" is %g, must be from %g to %g", source->path, field,
                         value, min, max);
    }
    *out = value;
    return SLUICE_OK;
}

static sluice_status read_reals(struct model_config *config, const struct source *source, sluice_error *err)
{
    double eps = 0.0, scale = 0.0;
    TRY(read_real(source, "rms_norm_eps", 1e-30, 1.0, &eps, err));
    TRY(read_real(source, "routed_scaling_factor", 1e-6, 1e6, &scale, err));
    TRY(json_get_bool(source->json, source->path, "norm_topk_prob", &config->norm_topk_prob, err));
    config->rms_norm_eps = (float)eps;
    config->routed_scaling_factor = (float)scale;
    return SLUICE_OK;
}

/* rope_theta stands at the top level, inside rope_parameters, or equal in both. */
static sluice_status read_rope_theta(struct model_config *config, const struct source *source, sluice_error *err)
{
    const double min = 1.0, max = 1e12;
    const struct source inner = {json_object_get(source->json, "rope_parameters"), source->path};
    if (inner.json == NULL || !json_has(inner.json, "rope_theta")) {
        return read_real(source, "rope_theta", min, max, &config->rope_theta, err);
    }
    double theta = 0.0;
    TRY(read_real(&inner, "rope_theta", min, max, &theta, err));
    if (json_has(source->json, "rope_theta")) {
        double top = 0.0;
        TRY(read_real(source, "rope_theta", min, max, &top, err));
        if (top != theta) {
            return error_set(err, SLUICE_FORMAT, "%s: rope_theta is %g, but rope_parameters.rope_theta is %g",
                             source->path, top, theta);
        }
    }
    config->rope_theta = theta;
    return SLUICE_OK;
}

/* ---- Dense and sparse layers ------------------------------------------------------------------------- */

/* Entry i of a list of strings, NULL if it is none. */
static const char *list_text(const json_t *list, size_t i)
{
    return json_string_value(json_array_get(list, i));
}

/* A list with one entry a layer; an entry for the MTP layer may follow. */
static sluice_status check_list_length(const struct model_config *config, const struct source *source,
                                       const char *field, size_t len, sluice_error *err)
{
    if (len != config->num_hidden_layers &&
        len != (size_t)config->num_hidden_layers + config->num_nextn_predict_layers) {
        return error_set(err, SLUICE_FORMAT, "%s: field \"%s\" has %zu entries, but num_hidden_layers is %u",
                         source->path, field, len, config->num_hidden_layers);
    }
    return SLUICE_OK;
}

/* Number of leading "dense" entries of mlp_layer_types; all that follow must be "sparse". */
static sluice_status read_layer_types(const struct model_config *config, const struct source *source, uint32_t *dense,
                                      sluice_error *err)
{
    const char *field = "mlp_layer_types";
    const json_t *list = json_object_get(source->json, field);
    if (!json_is_array(list)) {
        return error_set(err, SLUICE_FORMAT, "%s: field \"%s\" must be a list", source->path, field);
    }
    TRY(check_list_length(config, source, field, json_array_size(list), err));
    uint32_t n = 0;
    for (uint32_t i = 0; i < config->num_hidden_layers; i++) {
        const char *type = list_text(list, i);
        if (type != NULL && strcmp(type, "dense") == 0 && n == i) {
            n++;
        } else if (type == NULL || strcmp(type, "sparse") != 0) {
            return error_set(err, SLUICE_FORMAT,
                             "%s: %s[%u] is \"%s\": expected \"dense\" for the first layers, then \"sparse\"",
                             source->path, field, i, type != NULL ? type : "no string");
        }
    }
    *dense = n;
    return SLUICE_OK;
}

static sluice_status read_dense_layers(struct model_config *config, const struct source *source, sluice_error *err)
{
    bool has_types = json_has(source->json, "mlp_layer_types");
    uint32_t from_types = 0;
    if (has_types) {
        TRY(read_layer_types(config, source, &from_types, err));
    }
    if (has_types && !json_has(source->json, "first_k_dense_replace")) {
        config->first_k_dense_replace = from_types;
        return SLUICE_OK;
    }
    int64_t dense;
    TRY(json_get_int(source->json, source->path, "first_k_dense_replace", 0, config->num_hidden_layers, &dense, err));
    if (has_types && dense != from_types) {
        return error_set(err, SLUICE_FORMAT, "%s: first_k_dense_replace is %" PRId64 ", but mlp_layer_types has %u",
                         source->path, dense, from_types);
    }
    config->first_k_dense_replace = (uint32_t)dense;
    return SLUICE_OK;
}

/* ---- Indexer schedule -------------------------------------------------------------------------------- */

static sluice_status schedule_from_types(struct model_config *config, const struct source *source, sluice_error *err)
{
    const char *field = "indexer_types";
    const json_t *list = json_object_get(source->json, field);
    if (!json_is_array(list)) {
        return error_set(err, SLUICE_FORMAT, "%s: field \"%s\" must be a list", source->path, field);
    }
    TRY(check_list_length(config, source, field, json_array_size(list), err));
    for (uint32_t i = 0; i < config->num_hidden_layers; i++) {
        const char *type = list_text(list, i);
        if (type == NULL || (strcmp(type, "full") != 0 && strcmp(type, "shared") != 0)) {
            return error_set(err, SLUICE_FORMAT, "%s: %s[%u] is \"%s\", expected \"full\" or \"shared\"", source->path,
                             field, i, type != NULL ? type : "no string");
        }
        config->index_full[i] = type[0] == 'f';
    }
    return SLUICE_OK;
}

static sluice_status schedule_from_pattern(struct model_config *config, const struct source *source, sluice_error *err)
{
    const char *field = "index_topk_pattern";
    const char *pattern = json_string_value(json_object_get(source->json, field));
    if (pattern == NULL) {
        return error_set(err, SLUICE_FORMAT, "%s: field \"%s\" must be a string of F and S", source->path, field);
    }
    TRY(check_list_length(config, source, field, strlen(pattern), err));
    for (uint32_t i = 0; i < config->num_hidden_layers; i++) {
        if (pattern[i] != 'F' && pattern[i] != 'S') {
            return error_set(err, SLUICE_FORMAT, "%s: %s has \"%c\" for layer %u, expected F or S", source->path, field,
                             pattern[i], i);
        }
        config->index_full[i] = pattern[i] == 'F';
    }
    return SLUICE_OK;
}

static sluice_status schedule_from_frequency(struct model_config *config, const struct source *source,
                                             sluice_error *err)
{
    /* default: 1 and 2, every layer full, as GLM-5 and 5.1 are */
    int64_t freq = 1, offset = 2;
    if (json_has(source->json, "index_topk_freq")) {
        TRY(json_get_int(source->json, source->path, "index_topk_freq", 1, CONFIG_MAX_LAYERS, &freq, err));
    }
    if (json_has(source->json, "index_skip_topk_offset")) {
        TRY(json_get_int(source->json, source->path, "index_skip_topk_offset", 0, CONFIG_MAX_LAYERS, &offset, err));
    }
    for (int64_t i = 0; i < config->num_hidden_layers; i++) {
        int64_t step = i - offset + 1 > 0 ? i - offset + 1 : 0;
        config->index_full[i] = step % freq == 0;
    }
    return SLUICE_OK;
}

/* A shared layer uses the selection of the nearest full layer below, so the lowest must be full. */
static sluice_status read_schedule(struct model_config *config, const struct source *source, sluice_error *err)
{
    const char *field = "index_skip_topk_offset";
    if (json_has(source->json, "indexer_types")) {
        field = "indexer_types";
        TRY(schedule_from_types(config, source, err));
    } else if (json_has(source->json, "index_topk_pattern")) {
        field = "index_topk_pattern";
        TRY(schedule_from_pattern(config, source, err));
    } else {
        TRY(schedule_from_frequency(config, source, err));
    }
    if (!config->index_full[0]) {
        return error_set(err, SLUICE_FORMAT, "%s: %s makes layer 0 a shared layer, but it has no full layer below it",
                         source->path, field);
    }
    return SLUICE_OK;
}

/* ---- What this graph does not handle ----------------------------------------------------------------- */

/* A field that, if present, must hold this text. `object` names the field's object in messages ("" at the top). */
static sluice_status require_text(const struct source *source, const char *object, const char *field,
                                  const char *expected, sluice_error *err)
{
    if (!json_has(source->json, field)) {
        return SLUICE_OK;
    }
    const char *text = json_string_value(json_object_get(source->json, field));
    if (text == NULL || strcmp(text, expected) != 0) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: %s%s is \"%s\", only \"%s\" is supported", source->path, object,
                         field, text != NULL ? text : "no string", expected);
    }
    return SLUICE_OK;
}

static sluice_status require_bool(const struct source *source, const char *field, bool expected, sluice_error *err)
{
    if (!json_has(source->json, field)) {
        return SLUICE_OK;
    }
    bool value;
    TRY(json_get_bool(source->json, source->path, field, &value, err));
    if (value != expected) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: %s is %s, only %s is supported", source->path, field,
                         value ? "true" : "false", expected ? "true" : "false");
    }
    return SLUICE_OK;
}

static sluice_status require_int(const struct source *source, const char *field, int64_t expected, sluice_error *err)
{
    if (!json_has(source->json, field)) {
        return SLUICE_OK;
    }
    int64_t value;
    TRY(json_get_int(source->json, source->path, field, INT64_MIN, INT64_MAX, &value, err));
    if (value != expected) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: %s is %" PRId64 ", only %" PRId64 " is supported", source->path,
                         field, value, expected);
    }
    return SLUICE_OK;
}

static sluice_status refuse_rope_scaling(const struct source *source, const char *object, sluice_error *err)
{
    if (!json_has(source->json, object)) {
        return SLUICE_OK;
    }
    const struct source inner = {json_object_get(source->json, object), source->path};
    if (!json_is_object(inner.json)) {
        return error_set(err, SLUICE_FORMAT, "%s: field \"%s\" must be an object", source->path, object);
    }
    char prefix[64];
    snprintf(prefix, sizeof(prefix), "%s.", object);
    TRY(require_text(&inner, prefix, "rope_type", "default", err));
    return require_text(&inner, prefix, "type", "default", err);
}

/* default: every field here may be missing, which means the one value that is supported. model_type alone must
 * be there: it is what tells this architecture from another one. */
static sluice_status refuse_unsupported(const struct source *source, sluice_error *err)
{
    if (!json_has(source->json, "model_type")) {
        return error_set(err, SLUICE_FORMAT, "%s: field \"model_type\" is missing", source->path);
    }
    TRY(require_text(source, "", "model_type", "glm_moe_dsa", err));
    TRY(require_text(source, "", "scoring_func", "sigmoid", err));
    TRY(require_text(source, "", "topk_method", "noaux_tc", err));
    TRY(require_text(source, "", "hidden_act", "silu", err));
    TRY(require_bool(source, "attention_bias", false, err));
    TRY(require_bool(source, "tie_word_embeddings", false, err));
    TRY(require_bool(source, "rope_interleave", true, err));
    TRY(require_bool(source, "indexer_rope_interleave", true, err));
    TRY(require_int(source, "n_group", 1, err));
    TRY(require_int(source, "topk_group", 1, err));
    TRY(require_int(source, "moe_layer_freq", 1, err));
    TRY(refuse_rope_scaling(source, "rope_parameters", err));
    return refuse_rope_scaling(source, "rope_scaling", err);
}

/* Fields that repeat what others say must agree with them. */
static sluice_status check_repeated(const struct model_config *config, const struct source *source, sluice_error *err)
{
    TRY(require_int(source, "num_key_value_heads", config->num_attention_heads, err));
    return require_int(source, "qk_head_dim", (int64_t)config->qk_nope_head_dim + config->qk_rope_head_dim, err);
}

/* ---- End-of-text ids --------------------------------------------------------------------------------- */

static sluice_status add_eos(struct model_config *config, const struct source *source, const json_t *value,
                             sluice_error *err)
{
    json_int_t id = json_integer_value(value);
    if (!json_is_integer(value) || id < 0 || id >= config->vocab_size) {
        return error_set(err, SLUICE_FORMAT, "%s: eos_token_id must hold ids below vocab_size, %u", source->path,
                         config->vocab_size);
    }
    for (uint32_t i = 0; i < config->n_eos; i++) {
        if (config->eos_token_id[i] == (uint32_t)id) {
            return SLUICE_OK;
        }
    }
    if (config->n_eos == CONFIG_MAX_EOS) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: eos_token_id: more than %d ids", source->path, CONFIG_MAX_EOS);
    }
    config->eos_token_id[config->n_eos++] = (uint32_t)id;
    return SLUICE_OK;
}

/* One id or a list of ids; missing or null adds none. */
static sluice_status read_eos(struct model_config *config, const struct source *source, sluice_error *err)
{
    if (!json_has(source->json, "eos_token_id")) {
        return SLUICE_OK;
    }
    const json_t *value = json_object_get(source->json, "eos_token_id");
    if (!json_is_array(value)) {
        return add_eos(config, source, value, err);
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        TRY(add_eos(config, source, json_array_get(value, i), err));
    }
    return SLUICE_OK;
}

/* ---- Files ------------------------------------------------------------------------------------------- */

static sluice_status read_config(struct model_config *config, const struct source *source, sluice_error *err)
{
    if (!json_is_object(source->json)) {
        return error_set(err, SLUICE_FORMAT, "%s: not a JSON object", source->path);
    }
    TRY(refuse_unsupported(source, err));
    TRY(read_integers(config, source, err));
    TRY(check_integers(config, source, err));
    TRY(check_repeated(config, source, err));
    TRY(read_reals(config, source, err));
    TRY(read_rope_theta(config, source, err));
    TRY(read_dense_layers(config, source, err));
    TRY(read_schedule(config, source, err));
    return read_eos(config, source, err);
}

static sluice_status config_path(char *path, const char *dir, const char *name, sluice_error *err)
{
    int len = snprintf(path, CONFIG_PATH_MAX, "%s/%s", dir, name);
    if (len < 0 || len >= CONFIG_PATH_MAX) {
        return error_set(err, SLUICE_INVALID, "%s: path too long", dir);
    }
    return SLUICE_OK;
}

static sluice_status load_main(struct model_config *config, const char *dir, sluice_error *err)
{
    char path[CONFIG_PATH_MAX];
    TRY(config_path(path, dir, "config.json", err));
    json_t *json;
    TRY(json_parse_file(path, CONFIG_FILE_MAX, &json, err));
    const struct source source = {json, path};
    sluice_status status = read_config(config, &source, err);
    json_decref(json);
    return status;
}

/* default: no generation_config.json adds no eos id; any other failure to read it is an error. */
static sluice_status load_generation(struct model_config *config, const char *dir, sluice_error *err)
{
    char path[CONFIG_PATH_MAX];
    TRY(config_path(path, dir, "generation_config.json", err));
    json_t *json;
    sluice_error failure;
    sluice_status status = json_parse_file(path, CONFIG_FILE_MAX, &json, &failure);
    if (status == SLUICE_IO && failure.os_errno == ENOENT) {
        return SLUICE_OK;
    }
    if (status != SLUICE_OK) {
        if (err != NULL) {
            *err = failure;
        }
        return status;
    }
    const struct source source = {json, path};
    status = json_is_object(json) ? read_eos(config, &source, err)
                                  : error_set(err, SLUICE_FORMAT, "%s: not a JSON object", path);
    json_decref(json);
    return status;
}

sluice_status config_load(struct model_config *out, const char *dir, sluice_error *err)
{
    struct model_config config;
    memset(&config, 0, sizeof(config));
    TRY(load_main(&config, dir, err));
    TRY(load_generation(&config, dir, err));
    if (config.n_eos == 0) {
        return error_set(err, SLUICE_FORMAT, "%s/config.json: field \"eos_token_id\" is missing", dir);
    }
    *out = config;
    return SLUICE_OK;
}
