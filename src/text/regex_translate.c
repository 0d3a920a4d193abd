/* Oniguruma to PCRE2.
 *
 * One pass over the pattern that copies what both libraries read alike, rewrites what has an equal in the other
 * syntax, and refuses the rest: a white list, so that nothing is ever read in another sense than its author's.
 * The differences that matter here:
 *   \s    PCRE2's holds U+180E, Unicode's White_Space does not: written out.
 *   \w    PCRE2 before 10.43 leaves out marks and connectors: written out.
 *   \v    a vertical tab, not a class. \uHHHH is \x{HHHH}.
 *   \p    a script name means the script itself, not its extensions.
 *   ^ $   always match at line ends (an option when compiling).
 *   (?i:  the libraries fold alike only within ASCII, except for "ss", "st", "ff", "fi", "fl", which Oniguruma also
 *         matches as one character.
 * Refused: sets within sets, POSIX brackets, back-references, conditions, inline options without a group, boundaries,
 * intervals followed by + (possessive in PCRE2 only). */
#include "text/regex_translate.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "text/utf8.h"

#define NESTING_LIMIT 64

/* White_Space, and what \w means, as members of a set. */
#define SPACE_SET "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define NOT_SPACE_SET                                                                                        \
    "\\x{0}-\\x{8}\\x{E}-\\x{1F}\\x{21}-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}" \
    "-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{10FFFF}"
#define WORD_SET                                                                                     \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}" \
    "\\x{1F170}-\\x{1F189}"

/* Outside a set, Oniguruma's \w also holds the superscript digits and fractions of Latin-1. */
#define WORD_ALONE WORD_SET "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"

struct translator {
    const char *in;
    size_t len, at;
    size_t item; /* where the construct in hand starts: for messages and origins */
    const char *source;
    sluice_error *err;
    struct regex_translation *out;
    bool caseless;
    bool outer_caseless[NESTING_LIMIT]; /* what to return to at each closing parenthesis */
    size_t depth;
    char previous; /* the literal ASCII letter just before, 0 if none */
};

static sluice_status refuse(const struct translator *t, const char *what)
{
    return error_set(t->err, SLUICE_UNSUPPORTED, "%s: regular expression, offset %zu: %s is not supported", t->source,
                     t->item, what);
}

static sluice_status emit(struct translator *t, const char *text, size_t len)
{
    uint32_t origin = (uint32_t)t->item;
    for (size_t i = 0; i < len; i++) {
        TRY(buffer_append(&t->out->origins, &origin, sizeof origin, t->err));
    }
    return buffer_append(&t->out->text, text, len, t->err);
}

static sluice_status emit_str(struct translator *t, const char *text)
{
    return emit(t, text, strlen(text));
}

/* The byte `ahead` of the current one, 0 past the end. */
static char peek(const struct translator *t, size_t ahead)
{
    return ahead < t->len - t->at ? t->in[t->at + ahead] : '\0';
}

static bool looking_at(const struct translator *t, const char *text)
{
    size_t len = strlen(text);
    return len <= t->len - t->at && memcmp(t->in + t->at, text, len) == 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static char to_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* ---- Characters ------------------------------------------------------------------------------------ */

static sluice_status emit_code_point(struct translator *t, uint32_t character)
{
    char text[16];
    int len = snprintf(text, sizeof text, "\\x{%X}", character);
    t->previous = 0;
    if (t->caseless && character >= 0x80) {
        return refuse(t, "a character beyond ASCII that ignores case");
    }
    return emit(t, text, (size_t)len);
}

/* Two letters that Oniguruma also matches as one character (a ligature or a sharp s) when case is ignored. */
static bool folds_to_one(char first, char second)
{
    return (first == 's' && (second == 's' || second == 't')) ||
           (first == 'f' && (second == 'f' || second == 'i' || second == 'l'));
}

/* One literal character as it stands. `in_set`: neighbours in a set are not neighbours in the text. */
static sluice_status copy_literal(struct translator *t, bool in_set)
{
    size_t used;
    uint32_t character = utf8_decode(t->in + t->at, &used);
    char letter = character < 0x80 ? to_lower((char)character) : 0;
    if (t->caseless && character >= 0x80) {
        return refuse(t, "a character beyond ASCII that ignores case");
    }
    if (t->caseless && !in_set && folds_to_one(t->previous, letter)) {
        return refuse(t, "a pair of letters that is also one character when case is ignored");
    }
    t->previous = letter;
    TRY(emit(t, t->in + t->at, used));
    t->at += used;
    return SLUICE_OK;
}

static int hex_value(char c)
{
    if (is_digit(c)) {
        return c - '0';
    }
    char lower = to_lower(c);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* \x{H...}, \xHH and \uHHHH; t->at stands on the x or u. */
static sluice_status translate_code_point(struct translator *t)
{
    bool unicode = peek(t, 0) == 'u', braces = !unicode && peek(t, 1) == '{';
    size_t most = unicode ? 4 : braces ? 6 : 2, n = 0;
    uint32_t character = 0;
    t->at += braces ? 2 : 1;
    while (n < most && hex_value(peek(t, 0)) >= 0) {
        character = character * 16 + (uint32_t)hex_value(peek(t, 0));
        t->at++;
        n++;
    }
    bool complete = braces ? n > 0 && peek(t, 0) == '}' : n == most;
    bool raw_byte = !unicode && !braces && character >= 0x80; /* Oniguruma takes \xHH as a byte of the encoding */
    if (!complete || raw_byte || character > 0x10FFFF || (character >= 0xD800 && character <= 0xDFFF)) {
        return refuse(t, "this character number");
    }
    t->at += braces;
    return emit_code_point(t, character);
}

/* ---- Properties ------------------------------------------------------------------------------------ */

static const char *const general_categories[] = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cs", "Co", "Cn", "Any"};

static bool names_equal(const char *name, const char *wanted)
{
    for (; *name != '\0' && to_lower(*name) == to_lower(*wanted); name++, wanted++) {
    }
    return *name == *wanted;
}

/* \p{...} and \P{...}; t->at stands on the p. Whatever is not a general category is taken as a script: PCRE2 refuses
 * it if it is none. */
static sluice_status translate_property(struct translator *t)
{
    char name[32], text[64];
    size_t n = 0;
    bool negated = peek(t, 0) == 'P';
    if (t->caseless) {
        return refuse(t, "a property that ignores case");
    }
    if (peek(t, 1) != '{') {
        return refuse(t, "a property without braces");
    }
    t->at += 2;
    if (peek(t, 0) == '^') {
        negated = !negated;
        t->at++;
    }
    while (n + 1 < sizeof name && (is_letter(peek(t, 0)) || peek(t, 0) == '_')) {
        name[n++] = peek(t, 0);
        t->at++;
    }
    name[n] = '\0';
    if (n == 0 || peek(t, 0) != '}') {
        return refuse(t, "this property");
    }
    t->at++;
    const char *prefix = "sc:", *value = name;
    for (size_t i = 0; i < sizeof general_categories / sizeof *general_categories; i++) {
        if (names_equal(name, general_categories[i])) {
            prefix = "";
            value = general_categories[i];
        }
    }
    snprintf(text, sizeof text, "\\%c{%s%s}", negated ? 'P' : 'p', prefix, value);
    return emit_str(t, text);
}

/* ---- Escapes --------------------------------------------------------------------------------------- */

/* \d \D \s \S \w \W as a whole item or as members of a set; t->at stands on the letter. */
static sluice_status translate_class_escape(struct translator *t, bool in_set)
{
    char letter = peek(t, 0);
    if (t->caseless && (letter == 'w' || letter == 'W')) {
        return refuse(t, "a word class that ignores case");
    }
    if (in_set && letter == 'W') {
        return refuse(t, "\\W within a set");
    }
    t->at++;
    switch (letter) {
    case 's':
        return emit_str(t, in_set ? SPACE_SET : "[" SPACE_SET "]");
    case 'S':
        return emit_str(t, in_set ? NOT_SPACE_SET : "[^" SPACE_SET "]");
    case 'w':
        return emit_str(t, in_set ? WORD_SET : "[" WORD_ALONE "]");
    case 'W':
        return emit_str(t, "[^" WORD_ALONE "]");
    case 'd':
        return emit_str(t, "\\p{Nd}");
    default:
        return emit_str(t, "\\P{Nd}");
    }
}

/* Names a construct by the escape itself. */
static sluice_status refuse_escape(struct translator *t)
{
    char what[32];
    char letter = peek(t, 0);
    if (letter > ' ' && letter < 0x7F) {
        snprintf(what, sizeof what, "the escape \\%c", letter);
        return refuse(t, what);
    }
    return refuse(t, letter == '\0' ? "a backslash at the end" : "this escape");
}

/* Anything after a backslash, which t->at has passed. *is_class: it stood for more than one character. */
static sluice_status translate_escape(struct translator *t, bool in_set, bool *is_class)
{
    char letter = peek(t, 0);
    *is_class = false;
    t->previous = 0;
    if (letter != '\0' && strchr("rntfae", letter) != NULL) {
        char text[2] = {'\\', letter};
        t->at++;
        return emit(t, text, 2);
    }
    switch (letter) {
    case 'v':
        t->at++;
        return emit_code_point(t, 0x0B);
    case 'x':
    case 'u':
        return translate_code_point(t);
    case 'd':
    case 'D':
    case 's':
    case 'S':
    case 'w':
    case 'W':
        *is_class = true;
        return translate_class_escape(t, in_set);
    case 'p':
    case 'P':
        *is_class = true;
        return translate_property(t);
    case 'A':
    case 'z':
    case 'Z':
        if (in_set) {
            break;
        }
        t->at++;
        return emit(t, t->in + t->at - 2, 2);
    default:
        if (letter >= ' ' && letter < 0x7F && !is_letter(letter) && !is_digit(letter)) {
            t->at++;
            return emit(t, t->in + t->at - 2, 2);
        }
        break;
    }
    return refuse_escape(t);
}

/* ---- Sets ------------------------------------------------------------------------------------------ */

enum set_member { SET_NOTHING, SET_CHARACTER, SET_CLASS };

/* A hyphen within a set: literal at its ends, else the middle of a range between two characters. */
static sluice_status translate_hyphen(struct translator *t, enum set_member previous)
{
    t->at++;
    if (previous == SET_NOTHING || peek(t, 0) == ']') {
        return emit_str(t, "\\-");
    }
    if (previous == SET_CLASS || (peek(t, 0) == '\\' && peek(t, 1) != '\0' && strchr("dDsSwWpP", peek(t, 1)) != NULL)) {
        return refuse(t, "a range from or to a class");
    }
    return emit_str(t, "-");
}

static sluice_status translate_member(struct translator *t, enum set_member *previous)
{
    bool is_class = false;
    t->item = t->at;
    switch (peek(t, 0)) {
    case '[':
        return refuse(t, "a set within a set");
    case '&':
        if (peek(t, 1) == '&') {
            return refuse(t, "an intersection of sets");
        }
        TRY(copy_literal(t, true));
        break;
    case '-':
        TRY(translate_hyphen(t, *previous));
        break;
    case '^':
        t->at++;
        TRY(emit_str(t, "\\^"));
        break;
    case '\\':
        t->at++;
        TRY(translate_escape(t, true, &is_class));
        break;
    default:
        TRY(copy_literal(t, true));
        break;
    }
    *previous = is_class ? SET_CLASS : SET_CHARACTER;
    return SLUICE_OK;
}

static sluice_status translate_set(struct translator *t)
{
    enum set_member previous = SET_NOTHING;
    size_t opening = t->at;
    t->at++;
    TRY(emit_str(t, "["));
    if (peek(t, 0) == '^') {
        t->at++;
        TRY(emit_str(t, "^"));
    }
    if (peek(t, 0) == ']') {
        return refuse(t, "an empty set");
    }
    while (t->at < t->len && t->in[t->at] != ']') {
        TRY(translate_member(t, &previous));
    }
    if (t->at == t->len) {
        t->item = opening;
        return refuse(t, "a set without its end");
    }
    t->item = t->at;
    t->at++;
    t->previous = 0;
    return emit_str(t, "]");
}

/* ---- Groups and repetition ------------------------------------------------------------------------- */

static sluice_status open_group(struct translator *t)
{
    static const char *const alike[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
    bool caseless = t->caseless;
    size_t len = 0;
    if (looking_at(t, "(?i:")) {
        caseless = true;
        len = 4;
    } else if (looking_at(t, "(?-i:")) {
        caseless = false;
        len = 5;
    } else if (peek(t, 1) == '*') {
        return refuse(t, "a verb or call-out");
    } else if (peek(t, 1) != '?') {
        len = 1;
    }
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        if (looking_at(t, alike[i])) {
            len = strlen(alike[i]);
        }
    }
    if (len == 0) {
        return refuse(t, "this kind of group");
    }
    if (t->depth == NESTING_LIMIT) {
        return refuse(t, "such deep nesting");
    }
    t->outer_caseless[t->depth++] = t->caseless;
    t->caseless = caseless;
    t->previous = 0;
    TRY(emit(t, t->in + t->at, len));
    t->at += len;
    return SLUICE_OK;
}

static sluice_status close_group(struct translator *t)
{
    if (t->depth == 0) {
        return refuse(t, "a closing parenthesis without its opening");
    }
    t->caseless = t->outer_caseless[--t->depth];
    t->previous = 0;
    t->at++;
    return emit_str(t, ")");
}

/* Length of {n}, {n,} or {n,m} at t->at, 0 if it is none: then the brace is an ordinary character. */
static size_t interval_length(const struct translator *t, bool *exact)
{
    size_t i = 1;
    *exact = true;
    while (is_digit(peek(t, i))) {
        i++;
    }
    if (i == 1) {
        return 0;
    }
    if (peek(t, i) == ',') {
        *exact = false;
        i++;
        while (is_digit(peek(t, i))) {
            i++;
        }
    }
    return peek(t, i) == '}' ? i + 1 : 0;
}

static sluice_status translate_interval(struct translator *t)
{
    bool exact;
    size_t len = interval_length(t, &exact);
    t->previous = 0;
    if (len == 0 && peek(t, 1) == ',') {
        return refuse(t, "an interval without its least count");
    }
    if (len == 0) {
        t->at++;
        return emit_str(t, "\\{");
    }
    if (peek(t, len) == '+' || (exact && peek(t, len) == '?')) {
        return refuse(t, "this suffix of an interval");
    }
    TRY(emit(t, t->in + t->at, len));
    t->at += len;
    return SLUICE_OK;
}

static sluice_status translate_item(struct translator *t)
{
    bool is_class;
    t->item = t->at;
    switch (peek(t, 0)) {
    case '\\':
        t->at++;
        return translate_escape(t, false, &is_class);
    case '[':
        return translate_set(t);
    case '(':
        return open_group(t);
    case ')':
        return close_group(t);
    case '{':
        return translate_interval(t);
    case '^':
    case '$':
    case '.':
    case '|':
    case '*':
    case '+':
    case '?':
        t->previous = 0;
        t->at++;
        return emit(t, t->in + t->at - 1, 1);
    default:
        return copy_literal(t, false);
    }
}

sluice_status regex_translate(struct regex_translation *out, const char *pattern, size_t len, const char *source,
                              sluice_error *err)
{
    struct translator t = {.in = pattern, .len = len, .source = source, .err = err, .out = out};
    buffer_init(&out->text, SIZE_MAX / 16);
    buffer_init(&out->origins, SIZE_MAX / 4);
    while (t.at < len) {
        TRY(translate_item(&t));
    }
    if (t.depth > 0) {
        t.item = len;
        return refuse(&t, "a group without its end");
    }
    return SLUICE_OK;
}

void regex_translation_free(struct regex_translation *translation)
{
    buffer_free(&translation->text);
    buffer_free(&translation->origins);
}

size_t regex_translation_origin(const struct regex_translation *translation, size_t offset)
{
    size_t n = translation->origins.len / sizeof(uint32_t);
    uint32_t origin = 0;
    if (n == 0) {
        return 0;
    }
    size_t at = offset < n ? offset : n - 1;
    memcpy(&origin, translation->origins.data + at * sizeof origin, sizeof origin);
    return origin;
}
