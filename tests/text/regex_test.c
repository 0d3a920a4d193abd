/* Regular expressions: what is translated, what is refused and where, limits of searching. */
#include "tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "text/regex.h"
#include "text/regex_translate.h"

/* Writes the matches of a pattern as "[start,end)" one after another. */
static void list_matches(const char *pattern, const char *text, char *out, size_t cap)
{
    struct regex *regex = NULL;
    struct regex_matcher *matcher = NULL;
    sluice_error err;
    if (regex_compile(&regex, pattern, strlen(pattern), "p", &err) != SLUICE_OK) {
        fail_msg("%s: %s", pattern, err.message);
    }
    assert_int_equal(regex_matcher_open(&matcher, &err), SLUICE_OK);
    size_t at = 0, start, end, len = strlen(text), written = 0;
    bool found = true;
    out[0] = '\0';
    while (at <= len) {
        assert_int_equal(regex_find(matcher, regex, text, len, at, &found, &start, &end, &err), SLUICE_OK);
        if (!found) {
            break;
        }
        written += (size_t)snprintf(out + written, cap - written, "[%zu,%zu)", start, end);
        at = end > start ? end : end + 1;
    }
    regex_matcher_close(matcher);
    regex_free(regex);
}

struct match_case {
    const char *pattern, *text, *matches;
};

static void meaning(void **state)
{
    static const struct match_case cases[] = {
        {"\\s", "a \xE1\xA0\x8E\xC2\x85\xE2\x80\xA8", "[1,2)[5,7)[7,10)"}, /* not U+180E */
        {"[^\\s]+", " \xE1\xA0\x8E ", "[1,4)"},
        {"\\S+", " \xE1\xA0\x8E ", "[1,4)"},
        {"[\\S-]+", " \xE1\xA0\x8E- ", "[1,5)"},
        {"\\w+", "-a\xCC\x81_1\xE2\x80\xBF-", "[1,9)"}, /* marks and connectors */
        {"\\w+", "a\xC2\xBD", "[0,3)"},
        {"[\\w]+", "a\xC2\xBD", "[0,1)"},
        {"\\W+", "a\xC2\xBD-b", "[3,4)"},
        {"\\d+", "12\xD9\xA1\xC2\xB2", "[0,4)"},
        {"\\D+", "1a\xC2\xB2", "[1,4)"},
        {"a\\vb",
         "a\x0B"
         "b a\nb",
         "[0,3)"},
        {"\\u00e9\\x{E8}\\x41",
         "\xC3\xA9\xC3\xA8"
         "A",
         "[0,5)"},
        {"[\\u0041-\\x{43}]+", "@ABCD", "[1,4)"},
        {"^b$", "a\nb\nc", "[2,3)"},
        {".+", "ab\r\nc", "[0,3)[4,5)"},
        {"\\Ab|b\\z", "bb\nb", "[0,1)[3,4)"},
        {"(?i:'s)", "'S '\xC5\xBF", "[0,2)[3,6)"},
        {"(?i:a(?-i:b)c)", "AbC ABC", "[0,3)"},
        {"(?i:a)b", "AB Ab", "[3,5)"},
        {"\\p{Han}+", "a\xE4\xB8\x80\xE3\x80\x82", "[1,4)"}, /* script, not extensions */
        {"\\p{^Lu}", "Aa", "[1,2)"},
        {"\\P{^lu}", "Aa", "[0,1)"},
        {"\\p{N}{1,3}", "12345", "[0,3)[3,5)"},
        {"a{|x}", "a{x}", "[0,2)[2,4)"},
        {"[-a]+|[b-]+|[c\\-d]+", "-a b- c-d", "[0,2)[3,5)[6,9)"},
        {"[a^]+", "^a", "[0,2)"},
        {"a++|(?>b+)c", "aab bbc", "[0,2)[4,7)"},
        {"(?<=a)b|(?<!a)c", "ab c ac", "[1,2)[3,4)"},
        {"(a|b)(?=c)(?!d)", "acbd", "[0,1)"},
        {"", "ab", "[0,0)[1,1)[2,2)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char out[256];
        list_matches(cases[i].pattern, cases[i].text, out, sizeof(out));
        if (strcmp(out, cases[i].matches) != 0) {
            fail_msg("%s: matches %s, not %s", cases[i].pattern, out, cases[i].matches);
        }
    }
}

struct refusal {
    const char *pattern;
    size_t offset;
};

static void refusals(void **state)
{
    static const struct refusal cases[] = {
        {"a[b[c]]", 3},      {"[[:alpha:]]", 1}, {"[a&&b]", 2},
        {"ab\\b", 2},        {"\\1", 0},         {"x\\h", 1},
        {"\\R", 0},          {"\\X", 0},         {"\\K", 0},
        {"\\G", 0},          {"\\Qa\\E", 0},     {"\\k<a>", 0},
        {"\\pL", 0},         {"\\p{}", 0},       {"\\p{L", 0},
        {"\\x80", 0},        {"\\x{110000}", 0}, {"\\x{D800}", 0},
        {"\\x{}", 0},        {"\\u12", 0},       {"a\\", 1},
        {"(?i)a", 0},        {"(?m:a)", 0},      {"(?#c)", 0},
        {"(?<n>a)", 0},      {"(?(1)a)", 0},     {"(*FAIL)", 0},
        {"a(", 2},           {"a)", 1},          {"(?~a)", 0},
        {"a{2}+", 1},        {"a{2,3}+", 1},     {"a{2}?", 1},
        {"a{,2}", 1},        {"[]a]", 0},        {"[abc", 0},
        {"[a", 0},           {"[\\s-a]", 3},     {"[a-\\d]", 2},
        {"[\\W]", 1},        {"[\\z]", 1},       {"(?i:ss)", 5},
        {"(?i:sT)", 5},      {"(?i:fi)", 5},     {"(?i:\xC3\xA9)", 4},
        {"(?i:\\p{L})", 4},  {"(?i:\\w)", 4},    {"(?i:[\xC3\xA9])", 5},
        {"(?i:\\u00e9)", 4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct regex *regex = NULL;
        sluice_error err;
        char wanted[64];
        snprintf(wanted, sizeof(wanted), "file: regular expression, offset %zu: ", cases[i].offset);
        sluice_status status = regex_compile(&regex, cases[i].pattern, strlen(cases[i].pattern), "file", &err);
        if (status != SLUICE_UNSUPPORTED || strncmp(err.message, wanted, strlen(wanted)) != 0) {
            fail_msg("%s: %d, %s", cases[i].pattern, status, status != SLUICE_OK ? err.message : "accepted");
        }
        assert_null(regex);
    }
}

/* What only PCRE2 notices is reported at the offset in the pattern as written. */
static void compile_errors(void **state)
{
    static const struct refusal cases[] = {
        {"\\s\\s[b-a]", 7}, {"\\s**", 3}, {"\\w\\p{Nonsense}", 2}, {"\\s+(?<=a+)b", 3}, {"a{9,1}", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct regex *regex = NULL;
        sluice_error err;
        static const char start[] = "file: regular expression, offset ";
        assert_int_equal(regex_compile(&regex, cases[i].pattern, strlen(cases[i].pattern), "file", &err),
                         SLUICE_FORMAT);
        assert_int_equal(strncmp(err.message, start, sizeof(start) - 1), 0);
        size_t offset = strtoul(err.message + sizeof(start) - 1, NULL, 10);
        /* PCRE2 points at, or just behind, the culprit */
        if (offset < cases[i].offset || offset > cases[i].offset + 2) {
            fail_msg("%s: %s", cases[i].pattern, err.message);
        }
    }
}

static void sizes(void **state)
{
    static char pattern[REGEX_PATTERN_LIMIT + 2];
    struct regex *regex = NULL;
    sluice_error err;
    (void)state;
    memset(pattern, '(', 65);
    assert_int_equal(regex_compile(&regex, pattern, 65, "file", &err), SLUICE_UNSUPPORTED);
    assert_non_null(strstr(err.message, "offset 64"));
    memset(pattern, 'a', sizeof(pattern));
    assert_int_equal(regex_compile(&regex, pattern, REGEX_PATTERN_LIMIT + 1, "file", &err), SLUICE_UNSUPPORTED);
    assert_int_equal(regex_compile(&regex, pattern, REGEX_PATTERN_LIMIT, "file", &err), SLUICE_OK);
    regex_free(regex);
    regex = NULL;
    assert_int_equal(regex_compile(&regex, "((a{999}){999}){999}", 20, "file", &err), SLUICE_FORMAT);
    assert_true(fixture_is_one_line(&err));
    assert_int_equal(regex_compile_literal(&regex, ".*\\", 3, "file", &err), SLUICE_OK);
    struct regex_matcher *matcher = NULL;
    bool found = false;
    size_t start = 0, end = 0;
    assert_int_equal(regex_matcher_open(&matcher, &err), SLUICE_OK);
    assert_int_equal(regex_find(matcher, regex, "a.*\\b", 5, 0, &found, &start, &end, &err), SLUICE_OK);
    assert_true(found && start == 1 && end == 4);
    regex_matcher_close(matcher);
    regex_free(regex);
}

/* Patterns that backtrack without end: an error in bounded time, and the matcher stays usable. */
static void runaway_searches(void **state)
{
    static const char *const patterns[] = {"(a*)*b", "(a|aa)+$b", "(?:a?){64}a{64}b", "(?:(?:a|b)*c?)*d"};
    char *text = malloc(100001);
    struct regex_matcher *matcher = NULL;
    sluice_error err;
    (void)state;
    assert_non_null(text);
    memset(text, 'a', 100000);
    text[100000] = '\0';
    assert_int_equal(regex_matcher_open(&matcher, &err), SLUICE_OK);
    for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
        struct regex *regex = NULL;
        bool found = false;
        size_t start, end;
        assert_int_equal(regex_compile(&regex, patterns[i], strlen(patterns[i]), "file", &err), SLUICE_OK);
        sluice_status status = regex_find(matcher, regex, text, 5000, 0, &found, &start, &end, &err);
        /* the optimiser may see at once that the last letter is missing */
        assert_true(status == SLUICE_LIMIT || (status == SLUICE_OK && !found));
        text[5000] = 'c';
        status = regex_find(matcher, regex, text, 5001, 0, &found, &start, &end, &err);
        assert_true(status == SLUICE_LIMIT || (status == SLUICE_OK && !found));
        text[5000] = 'a';
        regex_free(regex);
    }
    struct regex *regex = NULL;
    bool found = false;
    size_t start = 1, end = 0;
    assert_int_equal(regex_compile(&regex, "(?:a|(?:b|c))+\\s", 16, "file", &err), SLUICE_OK);
    assert_int_equal(regex_find(matcher, regex, "aab c", 5, 0, &found, &start, &end, &err), SLUICE_OK);
    assert_true(found && start == 0 && end == 4);
    regex_free(regex);
    regex_matcher_close(matcher);
    free(text);
}

static void exhausted_search_is_an_error(void **state)
{
    struct regex *regex = NULL;
    struct regex_matcher *matcher = NULL;
    char text[64];
    bool found = false;
    size_t start, end;
    sluice_error err;
    (void)state;
    memset(text, 'a', sizeof(text));
    assert_int_equal(regex_compile(&regex, "(?:a|a)+[bc]", 12, "file", &err), SLUICE_OK);
    assert_int_equal(regex_matcher_open(&matcher, &err), SLUICE_OK);
    assert_int_equal(regex_find(matcher, regex, text, sizeof(text), 0, &found, &start, &end, &err), SLUICE_LIMIT);
    assert_true(fixture_is_one_line(&err));
    regex_free(regex);
    regex_matcher_close(matcher);
}

int run_regex_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meaning), cmocka_unit_test(refusals),         cmocka_unit_test(compile_errors),
        cmocka_unit_test(sizes),   cmocka_unit_test(runaway_searches), cmocka_unit_test(exhausted_search_is_an_error),
    };
    return cmocka_run_group_tests_name("text regex", tests, NULL, NULL);
}
