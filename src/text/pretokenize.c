/* Cutting text into words.
 *
 * Whatever the file's pre-tokenizers are called, each comes down to one of two stages: cut at the matches of a regular
 * expression (Split, Digits, and ByteLevel's own pattern), or put a space before the piece (ByteLevel's
 * add_prefix_space). A piece runs through all stages before the next piece is cut, each stage seeing nothing but
 * its piece: look-behind ends at the piece's start, as in the reference implementation. ByteLevel's change of alphabet
 * needs no stage, since the vocabulary is kept as bytes. */
#include <string.h>

#include "text/tokenizer_internal.h"

/* Depth of Sequences within Sequences. */
#define NESTING_LIMIT 8u

/* The pattern that ByteLevel uses when use_regex is set. */
#define BYTELEVEL_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* ---- Loading --------------------------------------------------------------------------------------- */

static sluice_status check_room(const struct pretokenizer *pretokenizer, const char *source, sluice_error *err)
{
    if (pretokenizer->n == PRETOKENIZER_STAGES) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: more than %u pre-tokenizers", source, PRETOKENIZER_STAGES);
    }
    return SLUICE_OK;
}

static sluice_status add_pattern(struct pretokenizer *pretokenizer, const char *pattern, const char *source,
                                 sluice_error *err)
{
    TRY(check_room(pretokenizer, source, err));
    TRY(regex_compile(&pretokenizer->stages[pretokenizer->n].pattern, pattern, strlen(pattern), source, err));
    pretokenizer->n++;
    return SLUICE_OK;
}

static sluice_status load_split(struct pretokenizer *pretokenizer, const json_t *object, const char *source,
                                sluice_error *err)
{
    static const char *const known[] = {"type", "pattern", "behavior", "invert", NULL};
    static const char *const patterns[] = {"Regex", "String", NULL};
    const char *behavior, *text;
    bool invert;
    TRY(fields_check_known(object, source, known, err));
    TRY(fields_get_string(object, source, "behavior", &behavior, err));
    TRY(json_get_bool(object, source, "invert", &invert, err));
    if (strcmp(behavior, "Isolated") != 0) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: behavior \"%.64s\" is not supported", source, behavior);
    }
    if (invert) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: invert is not supported", source);
    }
    const json_t *pattern = json_object_get(object, "pattern");
    char place[SOURCE_CAP];
    source_join(place, source, "pattern");
    TRY(fields_check_known(pattern, place, patterns, err));
    if (json_object_size(pattern) != 1) {
        return error_set(err, SLUICE_FORMAT, "%s: must hold either \"Regex\" or \"String\"", place);
    }
    if (json_has(pattern, "Regex")) {
        TRY(fields_get_string(pattern, place, "Regex", &text, err));
        return add_pattern(pretokenizer, text, place, err);
    }
    TRY(fields_get_string(pattern, place, "String", &text, err));
    TRY(check_room(pretokenizer, source, err));
    TRY(regex_compile_literal(&pretokenizer->stages[pretokenizer->n].pattern, text, strlen(text), place, err));
    pretokenizer->n++;
    return SLUICE_OK;
}

static sluice_status load_digits(struct pretokenizer *pretokenizer, const json_t *object, const char *source,
                                 sluice_error *err)
{
    static const char *const known[] = {"type", "individual_digits", NULL};
    bool individual;
    TRY(fields_check_known(object, source, known, err));
    TRY(fields_get_bool(object, source, "individual_digits", false, &individual, err));
    return add_pattern(pretokenizer, individual ? "\\p{N}" : "\\p{N}+", source, err);
}

static sluice_status load_bytelevel(struct pretokenizer *pretokenizer, const json_t *object, const char *source,
                                    sluice_error *err)
{
    static const char *const known[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
    bool prefix, use_regex;
    TRY(fields_check_known(object, source, known, err));
    TRY(json_get_bool(object, source, "add_prefix_space", &prefix, err));
    TRY(fields_get_bool(object, source, "use_regex", true, &use_regex, err));
    if (prefix) {
        TRY(check_room(pretokenizer, source, err));
        pretokenizer->n++;
    }
    if (use_regex) {
        TRY(add_pattern(pretokenizer, BYTELEVEL_PATTERN, source, err));
    }
    pretokenizer->has_bytelevel = true;
    return SLUICE_OK;
}

static sluice_status load_any(struct pretokenizer *pretokenizer, const json_t *object, const char *source,
                              unsigned depth, sluice_error *err);

static sluice_status load_sequence(struct pretokenizer *pretokenizer, const json_t *object, const char *source,
                                   unsigned depth, sluice_error *err)
{
    static const char *const known[] = {"type", "pretokenizers", NULL};
    TRY(fields_check_known(object, source, known, err));
    const json_t *list = json_object_get(object, "pretokenizers");
    if (!json_is_array(list)) {
        return error_set(err, SLUICE_FORMAT, "%s: field \"pretokenizers\" must be an array", source);
    }
    if (depth == NESTING_LIMIT) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: Sequence nested too deeply", source);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        char place[SOURCE_CAP];
        source_join_index(place, source, "pretokenizers", i);
        TRY(load_any(pretokenizer, json_array_get(list, i), place, depth + 1, err));
    }
    return SLUICE_OK;
}

static sluice_status load_any(struct pretokenizer *pretokenizer, const json_t *object, const char *source,
                              unsigned depth, sluice_error *err)
{
    const char *type;
    if (!json_is_object(object)) {
        return error_set(err, SLUICE_FORMAT, "%s: must be an object", source);
    }
    TRY(fields_get_string(object, source, "type", &type, err));
    if (strcmp(type, "Sequence") == 0) {
        return load_sequence(pretokenizer, object, source, depth, err);
    }
    if (pretokenizer->has_bytelevel) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: \"%.64s\" after ByteLevel is not supported", source, type);
    }
    if (strcmp(type, "Split") == 0) {
        return load_split(pretokenizer, object, source, err);
    }
    if (strcmp(type, "Digits") == 0) {
        return load_digits(pretokenizer, object, source, err);
    }
    if (strcmp(type, "ByteLevel") == 0) {
        return load_bytelevel(pretokenizer, object, source, err);
    }
    return error_set(err, SLUICE_UNSUPPORTED, "%s: type \"%.64s\" is not supported", source, type);
}

sluice_status pretokenizer_load(struct pretokenizer *pretokenizer, const json_t *object, const char *source,
                                sluice_error *err)
{
    TRY(load_any(pretokenizer, object, source, 0, err));
    if (!pretokenizer->has_bytelevel) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: without ByteLevel is not supported", source);
    }
    return SLUICE_OK;
}

void pretokenizer_free(struct pretokenizer *pretokenizer)
{
    for (size_t i = 0; i < pretokenizer->n; i++) {
        regex_free(pretokenizer->stages[i].pattern);
    }
}

/* ---- Running --------------------------------------------------------------------------------------- */

static sluice_status run_stages(struct encoder *encoder, size_t stage, const char *text, size_t len, sluice_error *err);

/* A match, the text before it, then on from its end. An empty match cuts without taking a character; directly
 * after another match it does not count. */
static sluice_status cut_at_matches(struct encoder *encoder, size_t stage, const char *text, size_t len,
                                    sluice_error *err)
{
    const struct regex *pattern = encoder->tokenizer->pretokenizer.stages[stage].pattern;
    size_t done = 0, from = 0, last_end = SIZE_MAX;
    while (from <= len) {
        bool found;
        size_t start, end;
        TRY(regex_find(encoder->matcher, pattern, text, len, from, &found, &start, &end, err));
        if (!found) {
            break;
        }
        if (start == end && end == last_end) {
            do {
                from++;
            } while (from < len && ((unsigned char)text[from] & 0xC0) == 0x80);
            continue;
        }
        TRY(run_stages(encoder, stage + 1, text + done, start - done, err));
        TRY(run_stages(encoder, stage + 1, text + start, end - start, err));
        done = from = last_end = end;
    }
    return run_stages(encoder, stage + 1, text + done, len - done, err);
}

static sluice_status put_space_before(struct encoder *encoder, size_t stage, const char *text, size_t len,
                                      sluice_error *err)
{
    if (text[0] == ' ') {
        return run_stages(encoder, stage + 1, text, len, err);
    }
    buffer_clear(&encoder->prefixed);
    TRY(buffer_append(&encoder->prefixed, " ", 1, err));
    TRY(buffer_append(&encoder->prefixed, text, len, err));
    return run_stages(encoder, stage + 1, encoder->prefixed.data, encoder->prefixed.len, err);
}

/* Recursion is bounded by the number of stages. Empty pieces vanish. */
static sluice_status run_stages(struct encoder *encoder, size_t stage, const char *text, size_t len, sluice_error *err)
{
    const struct pretokenizer *pretokenizer = &encoder->tokenizer->pretokenizer;
    if (len == 0) {
        return SLUICE_OK;
    }
    if (stage == pretokenizer->n) {
        return bpe_encode_word(encoder, text, len, err);
    }
    if (pretokenizer->stages[stage].pattern == NULL) {
        return put_space_before(encoder, stage, text, len, err);
    }
    return cut_at_matches(encoder, stage, text, len, err);
}

sluice_status pretokenize_text(struct encoder *encoder, const char *text, size_t len, sluice_error *err)
{
    return run_stages(encoder, 0, text, len, err);
}
