/* The argument parser: see args.h. Every message names the option as it was typed. */
#include "args.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"

void arg_ids_free(struct arg_ids *ids)
{
    free(ids->ids);
    *ids = (struct arg_ids){0};
}

/* ---- Looking options up ---- */

static bool option_is_positional(const struct arg_option *option)
{
    return option->name[0] != '-';
}

static bool option_takes_next(const struct arg_option *option)
{
    return option->kind != ARG_FLAG && option->kind != ARG_MAYBE;
}

/* The option spelled by the first `len` bytes of `word`. */
static const struct arg_option *option_find(const struct arg_command *command, const char *word, size_t len)
{
    for (size_t t = 0; t < ARG_TABLES_MAX && command->tables[t] != NULL; t++) {
        for (const struct arg_option *option = command->tables[t]; option->name != NULL; option++) {
            if (!option_is_positional(option) && strlen(option->name) == len && memcmp(option->name, word, len) == 0) {
                return option;
            }
        }
    }
    return NULL;
}

/* The positional argument number `wanted`. */
static const struct arg_option *positional_find(const struct arg_command *command, size_t wanted)
{
    for (size_t t = 0; t < ARG_TABLES_MAX && command->tables[t] != NULL; t++) {
        for (const struct arg_option *option = command->tables[t]; option->name != NULL; option++) {
            if (option_is_positional(option) && wanted-- == 0) {
                return option;
            }
        }
    }
    return NULL;
}

/* ---- Storing values ---- */

static sluice_status whole_store(const struct arg_option *option, const char *text, void *at, sluice_error *err)
{
    bool is_size = option->kind == ARG_SIZE;
    uint64_t widest = option->kind == ARG_U32 ? UINT32_MAX : UINT64_MAX;
    uint64_t max = option->max != 0 ? option->max : widest;
    uint64_t value;

    if (!(is_size ? number_parse_size : number_parse_u64)(text, &value)) {
        return error_set(err, SLUICE_INVALID, "%s: '%s' is not a %s", option->name, text,
                         is_size ? "size: bytes, or a number with K, M, G or T" : "whole number");
    }
    if (value < option->min && option->max == 0) {
        return error_set(err, SLUICE_INVALID, "%s: %s is below %" PRIu64, option->name, text, option->min);
    }
    if (value < option->min || value > max) {
        return error_set(err, SLUICE_INVALID, "%s: %s is outside %" PRIu64 "..%" PRIu64, option->name, text,
                         option->min, max);
    }
    if (option->kind == ARG_U32) {
        *(uint32_t *)at = (uint32_t)value;
    } else {
        *(uint64_t *)at = value;
    }
    return SLUICE_OK;
}

static sluice_status real_store(const struct arg_option *option, const char *text, float *at, sluice_error *err)
{
    double value;

    if (!number_parse_real(text, &value)) {
        return error_set(err, SLUICE_INVALID, "%s: '%s' is not a number", option->name, text);
    }
    if (value < option->real_min || value > option->real_max) {
        return error_set(err, SLUICE_INVALID, "%s: %s is outside %g..%g", option->name, text, option->real_min,
                         option->real_max);
    }
    *at = (float)value;
    return SLUICE_OK;
}

static sluice_status choice_store(const struct arg_option *option, const char *text, int *at, sluice_error *err)
{
    char known[128] = "";
    size_t used = 0;

    for (int i = 0; option->choices[i] != NULL; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            *at = i;
            return SLUICE_OK;
        }
        int wrote = snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", option->choices[i]);
        if (wrote > 0 && (size_t)wrote < sizeof known - used) {
            used += (size_t)wrote;
        }
    }
    return error_set(err, SLUICE_INVALID, "%s: '%s' is none of: %s", option->name, text, known);
}

static sluice_status text_store(const struct arg_option *option, const char *text, void *at, sluice_error *err)
{
    if (text[0] == '\0' && option->kind != ARG_ANY) {
        return error_set(err, SLUICE_INVALID, "%s: the value is empty", option->name);
    }
    if (option->kind != ARG_TEXTS) {
        *(const char **)at = text;
        return SLUICE_OK;
    }
    struct arg_texts *texts = at;
    if (texts->n == ARG_TEXTS_MAX) {
        return error_set(err, SLUICE_INVALID, "%s: given more than %d times", option->name, ARG_TEXTS_MAX);
    }
    texts->items[texts->n++] = text;
    return SLUICE_OK;
}

static sluice_status ids_store(const struct arg_option *option, const char *text, struct arg_ids *at, sluice_error *err)
{
    struct arg_ids ids;

    if (!number_parse_ids(text, &ids.ids, &ids.n)) {
        return error_set(err, SLUICE_INVALID, "%s: '%.40s' is not a list of token ids such as 1,2,3", option->name,
                         text);
    }
    arg_ids_free(at);
    *at = ids;
    return SLUICE_OK;
}

static sluice_status option_store(const struct arg_option *option, const char *text, void *options, sluice_error *err)
{
    void *at = (char *)options + option->offset;

    switch (option->kind) {
    case ARG_FLAG:
        *(bool *)at = true;
        return SLUICE_OK;
    case ARG_TEXT:
    case ARG_ANY:
    case ARG_TEXTS:
        return text_store(option, text, at, err);
    case ARG_U32:
    case ARG_U64:
    case ARG_SIZE:
        return whole_store(option, text, at, err);
    case ARG_REAL:
        return real_store(option, text, at, err);
    case ARG_IDS:
        return ids_store(option, text, at, err);
    case ARG_MAYBE:
        if (text == NULL) {
            *(int *)at = 1;
            return SLUICE_OK;
        }
        return choice_store(option, text, at, err);
    case ARG_CHOICE:
        return choice_store(option, text, at, err);
    }
    return error_set(err, SLUICE_INVALID, "%s: unknown kind", option->name);
}

/* ---- Parsing ---- */

/* Reads the option at argv[*i], moving *i to its last word. */
static sluice_status option_take(const struct arg_command *command, int argc, char *const *argv, int *i, void *options,
                                 sluice_error *err)
{
    const char *word = argv[*i];
    const char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
    size_t len = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const struct arg_option *option = option_find(command, word, len);
    const char *value = equals != NULL ? equals + 1 : NULL;

    if (option == NULL) {
        return error_set(err, SLUICE_INVALID, "unknown option %.*s", (int)(len < 60 ? len : 60), word);
    }
    if (option->kind == ARG_FLAG && value != NULL) {
        return error_set(err, SLUICE_INVALID, "%s takes no value", option->name);
    }
    if (option_takes_next(option) && value == NULL) {
        if (*i + 1 >= argc) {
            return error_set(err, SLUICE_INVALID, "%s needs a value: %s", option->name, option->value);
        }
        value = argv[++*i];
    }
    return option_store(option, value, options, err);
}

static bool help_is_wanted(const struct arg_command *command, int argc, char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
        const struct arg_option *option = option_find(command, argv[i], strlen(argv[i]));
        if (option != NULL && option_takes_next(option)) {
            i++;
        }
    }
    return false;
}

sluice_status args_parse(const struct arg_command *command, int argc, char *const *argv, void *options, bool *help,
                         sluice_error *err)
{
    bool only_positional = false;
    size_t n_positional = 0;

    *help = help_is_wanted(command, argc, argv);
    if (*help) {
        return SLUICE_OK;
    }
    for (int i = 0; i < argc; i++) {
        if (!only_positional && strcmp(argv[i], "--") == 0) {
            only_positional = true;
        } else if (!only_positional && argv[i][0] == '-' && argv[i][1] != '\0') {
            TRY(option_take(command, argc, argv, &i, options, err));
        } else {
            const struct arg_option *option = positional_find(command, n_positional++);
            if (option == NULL) {
                return error_set(err, SLUICE_INVALID, "unexpected argument '%.60s'", argv[i]);
            }
            TRY(option_store(option, argv[i], options, err));
        }
    }
    const struct arg_option *missing = positional_find(command, n_positional);
    if (missing != NULL) {
        return error_set(err, SLUICE_INVALID, "%s is missing: %s", missing->name, missing->help);
    }
    return SLUICE_OK;
}

/* ---- Help ---- */

static void option_print(FILE *out, const struct arg_option *option)
{
    char left[64];
    const char *value = option->value != NULL ? option->value : "";

    if (option_is_positional(option) || option->kind == ARG_FLAG) {
        snprintf(left, sizeof left, "%s", option->name);
    } else if (option->kind == ARG_MAYBE) {
        snprintf(left, sizeof left, "%s[=%s]", option->name, value);
    } else {
        snprintf(left, sizeof left, "%s %s", option->name, value);
    }
    fprintf(out, "  %-22s %s\n", left, option->help);
}

void args_print_help(FILE *out, const struct arg_command *command)
{
    fprintf(out, "usage: sluice %s %s\n%s\n", command->name, command->usage, command->summary);
    if (command->tables[0] == NULL) {
        fputc('\n', out);
    }
    for (size_t t = 0; t < ARG_TABLES_MAX && command->tables[t] != NULL; t++) {
        if (command->tables[t]->name == NULL) {
            continue;
        }
        fputc('\n', out);
        for (const struct arg_option *option = command->tables[t]; option->name != NULL; option++) {
            option_print(out, option);
        }
    }
    fprintf(out, "  %-22s %s\n", "--help", "this text");
}
