/* tokenizer.json, its top level: what each part may be. A part or field that would change ids and is not handled is
 * refused by name; the fields that only matter to other uses of the file (offsets, unknown tokens) are read over. */
#include <string.h>

#include "text/tokenizer_internal.h"

#define NORMALIZER_NESTING 8u

static sluice_status refuse_type(const char *source, const char *type, sluice_error *err)
{
    return error_set(err, SLUICE_UNSUPPORTED, "%s: type \"%.64s\" is not supported", source, type);
}

/* ---- Normalizer, post-processor, decoder ----------------------------------------------------------- */

static sluice_status load_normalizer(const json_t *object, const char *source, unsigned depth, bool *nfc,
                                     sluice_error *err)
{
    static const char *const known[] = {"type", "normalizers", NULL};
    const char *type;
    TRY(fields_check_known(object, source, known, err));
    TRY(fields_get_string(object, source, "type", &type, err));
    if (strcmp(type, "NFC") == 0) {
        *nfc = true;
        return SLUICE_OK;
    }
    if (strcmp(type, "Sequence") != 0) {
        return refuse_type(source, type, err);
    }
    const json_t *list = json_object_get(object, "normalizers");
    if (!json_is_array(list)) {
        return error_set(err, SLUICE_FORMAT, "%s: field \"normalizers\" must be an array", source);
    }
    if (depth == NORMALIZER_NESTING) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: Sequence nested too deeply", source);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        char place[SOURCE_CAP];
        source_join_index(place, source, "normalizers", i);
        TRY(load_normalizer(json_array_get(list, i), place, depth + 1, nfc, err));
    }
    return SLUICE_OK;
}

/* Post-processor and decoder must be ByteLevel, whose settings change no id and no text. */
static sluice_status check_bytelevel(const json_t *root, const char *path, const char *part, sluice_error *err)
{
    static const char *const known[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
    const char *type;
    char source[SOURCE_CAP];
    source_join(source, path, part);
    const json_t *object = json_object_get(root, part);
    if (!json_is_object(object)) {
        return error_set(err, SLUICE_FORMAT, "%s: must be an object", source);
    }
    TRY(fields_get_string(object, source, "type", &type, err));
    if (strcmp(type, "ByteLevel") != 0) {
        return refuse_type(source, type, err);
    }
    return fields_check_known(object, source, known, err);
}

/* ---- Model ----------------------------------------------------------------------------------------- */

/* null, or an empty string. */
static sluice_status check_empty(const json_t *object, const char *source, const char *field, sluice_error *err)
{
    const json_t *value = json_object_get(object, field);
    if (json_is_string(value) && json_string_length(value) == 0) {
        return SLUICE_OK;
    }
    return fields_check_null(object, source, field, err);
}

static sluice_status check_model(const json_t *model, const char *source, bool *ignore_merges, sluice_error *err)
{
    static const char *const known[] = {"type",
                                        "dropout",
                                        "unk_token",
                                        "fuse_unk",
                                        "byte_fallback",
                                        "continuing_subword_prefix",
                                        "ignore_merges",
                                        "vocab",
                                        "merges",
                                        "end_of_word_suffix",
                                        NULL};
    const char *type;
    bool byte_fallback, fuse_unk;
    if (!json_is_object(model)) {
        return error_set(err, SLUICE_FORMAT, "%s: %s", source, model == NULL ? "is missing" : "must be an object");
    }
    TRY(fields_get_string(model, source, "type", &type, err));
    if (strcmp(type, "BPE") != 0) {
        return refuse_type(source, type, err);
    }
    TRY(fields_check_known(model, source, known, err));
    TRY(fields_check_null(model, source, "dropout", err));
    TRY(fields_check_null(model, source, "unk_token", err));
    TRY(check_empty(model, source, "continuing_subword_prefix", err));
    TRY(check_empty(model, source, "end_of_word_suffix", err));
    TRY(fields_get_bool(model, source, "fuse_unk", false, &fuse_unk, err));
    TRY(fields_get_bool(model, source, "byte_fallback", false, &byte_fallback, err));
    if (byte_fallback) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: byte_fallback is not supported", source);
    }
    return fields_get_bool(model, source, "ignore_merges", false, ignore_merges, err);
}

/* ---- The whole ------------------------------------------------------------------------------------- */

static sluice_status check_top(const json_t *root, const char *path, sluice_error *err)
{
    static const char *const known[] = {"version",       "truncation", "padding", "added_tokens",   "normalizer",
                                        "pre_tokenizer", "model",      "decoder", "post_processor", NULL};
    TRY(fields_check_known(root, path, known, err));
    if (json_has(root, "version")) {
        const char *version;
        TRY(fields_get_string(root, path, "version", &version, err));
        if (strcmp(version, "1.0") != 0) {
            return error_set(err, SLUICE_UNSUPPORTED, "%s: version \"%.64s\" is not known", path, version);
        }
    }
    TRY(fields_check_null(root, path, "truncation", err));
    TRY(fields_check_null(root, path, "padding", err));
    if (json_has(root, "added_tokens") && !json_is_array(json_object_get(root, "added_tokens"))) {
        return error_set(err, SLUICE_FORMAT, "%s: field \"added_tokens\" must be an array", path);
    }
    return SLUICE_OK;
}

sluice_status tokenizer_load(struct tokenizer *tokenizer, json_t *root, const char *path, sluice_error *err)
{
    char source[SOURCE_CAP];
    TRY(check_top(root, path, err));
    if (json_has(root, "normalizer")) {
        source_join(source, path, "normalizer");
        TRY(load_normalizer(json_object_get(root, "normalizer"), source, 0, &tokenizer->normalize_nfc, err));
    }
    if (json_has(root, "post_processor")) {
        TRY(check_bytelevel(root, path, "post_processor", err));
    }
    TRY(check_bytelevel(root, path, "decoder", err));
    source_join(source, path, "pre_tokenizer");
    TRY(pretokenizer_load(&tokenizer->pretokenizer, json_object_get(root, "pre_tokenizer"), source, err));
    TRY(added_tokens_load(&tokenizer->added, json_object_get(root, "added_tokens"), tokenizer->normalize_nfc, path,
                          err));
    source_join(source, path, "model");
    json_t *model = json_object_get(root, "model");
    TRY(check_model(model, source, &tokenizer->ignore_merges, err));
    TRY(vocabulary_load(&tokenizer->vocabulary, model, &tokenizer->added, source, err));
    return vocabulary_load_merges(&tokenizer->vocabulary, model, source, err);
}
