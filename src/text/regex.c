/* PCRE2 behind two handles: the compiled pattern, shared by all threads, and the matcher, one for each encoding.
 *
 * Searches are bounded: a pattern that backtracks without end on some text ends with SLUICE_LIMIT, never with a
 * hang or an overflowing stack. Where the just-in-time compiler is not available (the architecture, or a system that
 * forbids executable memory) the same pattern is interpreted. */
#define PCRE2_CODE_UNIT_WIDTH 8

#include "text/regex.h"

#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "text/regex_translate.h"

/* Backtracking steps one search may take; a search in a longer text may take proportionally more. */
#define STEPS_BASE 10000000u
#define STEPS_PER_BYTE 8u
/* Memory for backtracking: of the interpreter in KiB, of compiled code in bytes. */
#define HEAP_LIMIT_KIB (64u << 10)
#define STACK_START ((size_t)32 << 10)
#define STACK_LIMIT ((size_t)4 << 20)

struct regex {
    pcre2_code *code;
};

struct regex_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack; /* NULL: none could be had, compiled code then uses its small default */
};

/* ---- Compiling ------------------------------------------------------------------------------------- */

/* Compiles text for PCRE2; *offset is where it went wrong. Returns PCRE2's error number, 0 for success. */
static int compile_text(pcre2_code **out, const char *text, size_t len, uint32_t options, size_t *offset)
{
    int number = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (context == NULL) {
        return PCRE2_ERROR_NOMEMORY;
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    *out = pcre2_compile((PCRE2_SPTR)text, len, options | PCRE2_UTF, &number, offset, context);
    pcre2_compile_context_free(context);
    return *out != NULL ? 0 : number;
}

static sluice_status compile_failed(int number, const char *source, size_t offset, sluice_error *err)
{
    unsigned char text[128] = "";
    if (number == PCRE2_ERROR_NOMEMORY) {
        return error_set(err, SLUICE_NO_MEMORY, "%s: out of memory for its regular expression", source);
    }
    pcre2_get_error_message(number, text, sizeof text);
    return error_set(err, SLUICE_FORMAT, "%s: regular expression, offset %zu: %s", source, offset, (const char *)text);
}

/* Takes over `code`. Without a just-in-time compiler the pattern is interpreted: no error. */
static sluice_status wrap_code(struct regex **out, pcre2_code *code, const char *source, sluice_error *err)
{
    struct regex *regex = mem_zalloc(1, sizeof *regex);
    if (regex == NULL) {
        pcre2_code_free(code);
        return error_set(err, SLUICE_NO_MEMORY, "%s: out of memory for its regular expression", source);
    }
    regex->code = code;
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    *out = regex;
    return SLUICE_OK;
}

sluice_status regex_compile(struct regex **out, const char *pattern, size_t len, const char *source, sluice_error *err)
{
    if (len > REGEX_PATTERN_LIMIT) {
        return error_set(err, SLUICE_UNSUPPORTED, "%s: regular expression of %zu bytes, more than %d", source, len,
                         REGEX_PATTERN_LIMIT);
    }
    struct regex_translation translation;
    pcre2_code *code = NULL;
    sluice_status status = regex_translate(&translation, pattern, len, source, err);
    if (status == SLUICE_OK) {
        size_t offset = 0;
        const char *text = translation.text.len > 0 ? translation.text.data : "";
        int number = compile_text(&code, text, translation.text.len,
                                  PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE, &offset);
        if (number != 0) {
            status = compile_failed(number, source, regex_translation_origin(&translation, offset), err);
        }
    }
    regex_translation_free(&translation);
    return status == SLUICE_OK ? wrap_code(out, code, source, err) : status;
}

sluice_status regex_compile_literal(struct regex **out, const char *text, size_t len, const char *source,
                                    sluice_error *err)
{
    pcre2_code *code = NULL;
    size_t offset = 0;
    int number = compile_text(&code, text, len, PCRE2_LITERAL, &offset);
    if (number != 0) {
        return compile_failed(number, source, offset, err);
    }
    return wrap_code(out, code, source, err);
}

void regex_free(struct regex *regex)
{
    if (regex != NULL) {
        pcre2_code_free(regex->code);
        free(regex);
    }
}

/* ---- Searching ------------------------------------------------------------------------------------- */

sluice_status regex_matcher_open(struct regex_matcher **out, sluice_error *err)
{
    struct regex_matcher *matcher = mem_zalloc(1, sizeof *matcher);
    if (matcher == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "out of memory for splitting text");
    }
    matcher->data = pcre2_match_data_create(1, NULL);
    matcher->context = pcre2_match_context_create(NULL);
    if (matcher->data == NULL || matcher->context == NULL) {
        regex_matcher_close(matcher);
        return error_set(err, SLUICE_NO_MEMORY, "out of memory for splitting text");
    }
    pcre2_set_heap_limit(matcher->context, HEAP_LIMIT_KIB);
    matcher->stack = pcre2_jit_stack_create(STACK_START, STACK_LIMIT, NULL);
    if (matcher->stack != NULL) {
        pcre2_jit_stack_assign(matcher->context, NULL, matcher->stack);
    }
    *out = matcher;
    return SLUICE_OK;
}

void regex_matcher_close(struct regex_matcher *matcher)
{
    if (matcher != NULL) {
        pcre2_jit_stack_free(matcher->stack);
        pcre2_match_context_free(matcher->context);
        pcre2_match_data_free(matcher->data);
        free(matcher);
    }
}

static sluice_status search_failed(int number, size_t from, sluice_error *err)
{
    unsigned char text[128] = "";
    switch (number) {
    case PCRE2_ERROR_NOMEMORY:
        return error_set(err, SLUICE_NO_MEMORY, "out of memory for splitting text at byte %zu", from);
    case PCRE2_ERROR_MATCHLIMIT:
    case PCRE2_ERROR_HEAPLIMIT:
    case PCRE2_ERROR_DEPTHLIMIT:
    case PCRE2_ERROR_JIT_STACKLIMIT:
        return error_set(err, SLUICE_LIMIT, "the tokenizer's regular expression takes too long from byte %zu on", from);
    default:
        pcre2_get_error_message(number, text, sizeof text);
        return error_set(err, SLUICE_INVALID, "the tokenizer's regular expression fails at byte %zu: %s", from,
                         (const char *)text);
    }
}

sluice_status regex_find(struct regex_matcher *matcher, const struct regex *regex, const char *text, size_t len,
                         size_t from, bool *found, size_t *start, size_t *end, sluice_error *err)
{
    size_t steps = STEPS_BASE + (len < UINT32_MAX / 16 ? len : UINT32_MAX / 16) * STEPS_PER_BYTE;
    pcre2_set_match_limit(matcher->context, (uint32_t)steps);
    int number =
        pcre2_match(regex->code, (PCRE2_SPTR)text, len, from, PCRE2_NO_UTF_CHECK, matcher->data, matcher->context);
    if (number == PCRE2_ERROR_NOMATCH) {
        *found = false;
        return SLUICE_OK;
    }
    if (number < 0) {
        return search_failed(number, from, err);
    }
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(matcher->data);
    *found = true;
    *start = ends[0];
    *end = ends[1];
    return SLUICE_OK;
}
