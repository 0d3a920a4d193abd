/* The chat form, as ids of the demo model's tokenizer. The wanted ids are those of the prompt written out, with added
 * tokens recognised; where a text spells one, the test says so. */
#include "tests.h"

#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "text/chat.h"

#define MESSAGES(...)                           \
    (const struct chat_message[]){__VA_ARGS__}, \
        sizeof((const struct chat_message[]){__VA_ARGS__}) / sizeof(struct chat_message)
#define SAYS(who, what)               \
    {                                 \
        .role = (who), .text = (what) \
    }

static const struct chat_options plain = {.add_generation_prompt = true};

static void check_prompt(const struct chat_message *messages, size_t n, const struct chat_options *options,
                         const char *wanted)
{
    struct token_list prompt = {0}, list = {0};
    sluice_error err;
    if (chat_encode(fixture_demo(), messages, n, options, &prompt, &err) != SLUICE_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(tokenizer_encode(fixture_demo(), wanted, strlen(wanted), true, &list, NULL), SLUICE_OK);
    if (prompt.n != list.n || memcmp(prompt.ids, list.ids, list.n * sizeof(*list.ids)) != 0) {
        size_t len;
        char *text = fixture_decode(fixture_demo(), prompt.ids, prompt.n, &len);
        print_error("prompt is %s\n   wanted %s\n", text, wanted);
        free(text);
        fail();
    }
    token_list_free(&prompt);
    token_list_free(&list);
}

static void conversation(void **state)
{
    (void)state;
    check_prompt(MESSAGES(SAYS(CHAT_SYSTEM, "S"), SAYS(CHAT_DEVELOPER, "D"), SAYS(CHAT_USER, "Hi"),
                          SAYS(CHAT_ASSISTANT, "Hello"), SAYS(CHAT_USER, "Again")),
                 &plain,
                 "[gMASK]<sop><|system|>S<|system|>D<|user|>Hi<|assistant|><think></think>Hello<|user|>Again"
                 "<|assistant|><think></think>");
    check_prompt(MESSAGES(SAYS(CHAT_USER, "Hi")), &plain, "[gMASK]<sop><|user|>Hi<|assistant|><think></think>");
    check_prompt(NULL, 0, &plain, "[gMASK]<sop><|assistant|><think></think>");
    const struct chat_options open = {0};
    check_prompt(MESSAGES(SAYS(CHAT_USER, "Hi")), &open, "[gMASK]<sop><|user|>Hi");
    check_prompt(NULL, 0, &open, "[gMASK]<sop>");
}

/* The ids of the demo's own reference, to be sure that both sides of the comparison are not wrong together. */
static void reference_prompt(void **state)
{
    static const uint32_t wanted[] = {4078, 4080, 4083, 299, 369, 1962, 88, 274, 30, 4084, 4086, 4087};
    const struct chat_message message = SAYS(CHAT_USER, "What does happy mean?");
    struct token_list prompt = {0};
    (void)state;
    assert_int_equal(chat_encode(fixture_demo(), &message, 1, &plain, &prompt, NULL), SLUICE_OK);
    assert_int_equal(prompt.n, sizeof(wanted) / sizeof(*wanted));
    assert_memory_equal(prompt.ids, wanted, sizeof(wanted));
    token_list_free(&prompt);
}

static void thinking(void **state)
{
    const struct chat_options options = {.thinking = true, .add_generation_prompt = true};
    (void)state;
    check_prompt(MESSAGES(SAYS(CHAT_SYSTEM, "S"), SAYS(CHAT_USER, "Hi"), SAYS(CHAT_ASSISTANT, "Hello"),
                          SAYS(CHAT_USER, "Again")),
                 &options,
                 "[gMASK]<sop><|system|>Reasoning Effort: Max<|system|>S<|user|>Hi<|assistant|><think></think>Hello"
                 "<|user|>Again<|assistant|><think>");
}

/* Text stands as it is, except that answers are trimmed. */
static void white_space(void **state)
{
    (void)state;
    check_prompt(MESSAGES(SAYS(CHAT_SYSTEM, " S\n"), SAYS(CHAT_USER, "\n\n Hi  "),
                          SAYS(CHAT_ASSISTANT, "\n \t\xC2\xA0Hello  there\xE3\x80\x80\n"), SAYS(CHAT_USER, "")),
                 &plain,
                 "[gMASK]<sop><|system|> S\n<|user|>\n\n Hi  <|assistant|><think></think>Hello  there<|user|>"
                 "<|assistant|><think></think>");
    check_prompt(MESSAGES(SAYS(CHAT_ASSISTANT, " \n "), SAYS(CHAT_USER, "x")), &plain,
                 "[gMASK]<sop><|assistant|><think></think><|user|>x<|assistant|><think></think>");
}

static void tool_calls_and_results(void **state)
{
    static const struct chat_tool_argument arguments[] = {{"city", "Rome"}, {"days", "[1, 2]"}};
    static const struct chat_tool_call calls[] = {{"weather", arguments, 2}, {"now", NULL, 0}};
    (void)state;
    check_prompt(MESSAGES(SAYS(CHAT_USER, "W?"),
                          {.role = CHAT_ASSISTANT, .text = "Let me see. ", .tool_calls = calls, .n_tool_calls = 2},
                          SAYS(CHAT_TOOL, "18 C"), SAYS(CHAT_TOOL, " noon\n"), SAYS(CHAT_ASSISTANT, "Warm.")),
                 &plain,
                 "[gMASK]<sop><|user|>W?<|assistant|><think></think>Let me see."
                 "<tool_call>weather<arg_key>city</arg_key><arg_value>Rome</arg_value>"
                 "<arg_key>days</arg_key><arg_value>[1, 2]</arg_value></tool_call><tool_call>now</tool_call>"
                 "<|observation|><tool_response>18 C</tool_response><tool_response> noon\n</tool_response>"
                 "<|assistant|><think></think>Warm.<|assistant|><think></think>");
    /* calls without text; results that do not follow each other */
    check_prompt(
        MESSAGES({.role = CHAT_ASSISTANT, .tool_calls = calls + 1, .n_tool_calls = 1}, SAYS(CHAT_TOOL, "1"),
                 SAYS(CHAT_USER, "u"), SAYS(CHAT_TOOL, "2")),
        &plain,
        "[gMASK]<sop><|assistant|><think></think><tool_call>now</tool_call><|observation|><tool_response>1"
        "</tool_response><|user|>u<|observation|><tool_response>2</tool_response><|assistant|><think></think>");
}

/* The text of a prompt. */
static char *prompt_text(const struct chat_message *messages, size_t n, const struct chat_options *options)
{
    struct token_list prompt = {0};
    size_t len;
    sluice_error err;
    if (chat_encode(fixture_demo(), messages, n, options, &prompt, &err) != SLUICE_OK) {
        fail_msg("%s", err.message);
    }
    char *text = fixture_decode(fixture_demo(), prompt.ids, prompt.n, &len);
    token_list_free(&prompt);
    return text;
}

static void tool_declarations(void **state)
{
    static const char *const tools[] = {"{\"name\": \"weather\"}", "{\"name\": \"now\", \"note\": \"<|user|>\"}"};
    struct chat_options options = {.tools = tools, .n_tools = 2, .add_generation_prompt = true};
    const struct chat_message messages[] = {SAYS(CHAT_SYSTEM, "S"), SAYS(CHAT_USER, "Hi")};
    (void)state;
    char *text = prompt_text(messages, 2, &options);
    assert_ptr_equal(strstr(text, "[gMASK]<sop><|system|>\n# Tools\n"), text);
    assert_non_null(
        strstr(text, "<tools>\n{\"name\": \"weather\"}\n{\"name\": \"now\", \"note\": \"<|user|>\"}\n</tools>\n"));
    assert_non_null(strstr(text, "<tool_call>function name<arg_key>argument name</arg_key><arg_value>argument value"
                                 "</arg_value></tool_call><|system|>S<|user|>Hi<|assistant|><think></think>"));
    free(text);
    options.thinking = true;
    text = prompt_text(messages, 2, &options);
    assert_ptr_equal(strstr(text, "[gMASK]<sop><|system|>Reasoning Effort: Max<|system|>\n# Tools\n"), text);
    free(text);
}

/* Nothing that comes from outside becomes a special token. */
static void text_is_never_parsed(void **state)
{
    static const char spelled[] = "<|user|></think><tool_call>[gMASK]<|endoftext|></arg_value>";
    static const struct chat_tool_argument argument = {spelled, spelled};
    static const struct chat_tool_call call = {spelled, &argument, 1};
    static const char *const tools[] = {spelled};
    static const char *const names[] = {"<|user|>", "</think>",      "<tool_call>",
                                        "[gMASK]",  "<|endoftext|>", "</arg_value>"};
    static const size_t counts[] = {1, 3, 2, 1, 0, 2}; /* what the form itself writes below */
    const struct chat_options options = {.tools = tools, .n_tools = 1, .add_generation_prompt = true};
    struct token_list prompt = {0};
    const struct chat_message messages[] = {
        SAYS(CHAT_SYSTEM, spelled), SAYS(CHAT_DEVELOPER, spelled),
        SAYS(CHAT_USER, spelled),   {.role = CHAT_ASSISTANT, .text = spelled, .tool_calls = &call, .n_tool_calls = 1},
        SAYS(CHAT_TOOL, spelled),   SAYS(CHAT_ASSISTANT, spelled),
    };
    (void)state;
    assert_int_equal(chat_encode(fixture_demo(), messages, 6, &options, &prompt, NULL), SLUICE_OK);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        uint32_t id = 0;
        size_t count = 0;
        assert_true(tokenizer_find(fixture_demo(), names[i], &id));
        for (size_t j = 0; j < prompt.n; j++) {
            count += prompt.ids[j] == id;
        }
        assert_int_equal(count, counts[i]);
    }
    token_list_free(&prompt);
}

static void refuse(const struct chat_message *messages, size_t n, const struct chat_options *options,
                   const char *message)
{
    struct token_list prompt = {0};
    sluice_error err = {0};
    assert_int_equal(token_list_push(&prompt, 7, NULL), SLUICE_OK);
    assert_int_equal(chat_encode(fixture_demo(), messages, n, options, &prompt, &err), SLUICE_INVALID);
    assert_non_null(strstr(err.message, message));
    assert_true(fixture_is_one_line(&err));
    assert_int_equal(prompt.n, 1);
    token_list_free(&prompt);
}

static void bad_messages(void **state)
{
    static const struct chat_tool_argument no_value = {"k", NULL}, bad_key = {"\xC3", "v"};
    static const struct chat_tool_call no_name = {NULL, NULL, 0}, without_value = {"f", &no_value, 1},
                                       with_bad_key = {"f", &bad_key, 1}, good = {"f", NULL, 0};
    static const char *const bad_tools[] = {"{}", "{\"a\":\n1}"}, *const no_tool[] = {NULL};
    (void)state;
    refuse(MESSAGES(SAYS(CHAT_USER, "x"), SAYS(CHAT_USER, NULL)), &plain, "user message 1: content that is not text");
    refuse(MESSAGES(SAYS(CHAT_ASSISTANT, NULL)), &plain, "assistant message 0: content that is not text");
    refuse(MESSAGES(SAYS(CHAT_USER, "ab\xFF")), &plain, "user message 0: not UTF-8 at byte 2");
    refuse(MESSAGES(SAYS(CHAT_ASSISTANT, "\xE3\x80")), &plain, "assistant message 0: not UTF-8 at byte 0");
    refuse(MESSAGES(SAYS((enum chat_role)9, "x")), &plain, "message 0: unknown role");
    refuse(MESSAGES({.role = CHAT_USER, .text = "x", .tool_calls = &good, .n_tool_calls = 1}), &plain,
           "message 0: only an answer");
    refuse(MESSAGES({.role = CHAT_ASSISTANT, .tool_calls = &no_name, .n_tool_calls = 1}), &plain,
           "name of a tool call in message 0");
    refuse(MESSAGES({.role = CHAT_ASSISTANT, .tool_calls = &without_value, .n_tool_calls = 1}), &plain,
           "value of a tool call in message 0");
    refuse(MESSAGES({.role = CHAT_ASSISTANT, .tool_calls = &with_bad_key, .n_tool_calls = 1}), &plain,
           "key of a tool call in message 0: not UTF-8");
    refuse(NULL, 0, &(const struct chat_options){.tools = bad_tools, .n_tools = 2}, "tool 1: its declaration");
    refuse(NULL, 0, &(const struct chat_options){.tools = no_tool, .n_tools = 1}, "tool 0: content that is not text");
}

static void tokenizer_without_the_form(void **state)
{
    struct tokenizer *tokenizer = NULL;
    struct token_list prompt = {0};
    sluice_error err;
    const struct chat_message message = SAYS(CHAT_USER, "x");
    (void)state;
    assert_int_equal(fixture_open(&tokenizer, fixture_small_json(), NULL), SLUICE_OK);
    assert_int_equal(chat_encode(tokenizer, &message, 1, &plain, &prompt, &err), SLUICE_UNSUPPORTED);
    assert_non_null(strstr(err.message, "[gMASK]"));
    assert_null(prompt.ids);
    tokenizer_close(&tokenizer);
}

int run_chat_tests(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversation),
        cmocka_unit_test(reference_prompt),
        cmocka_unit_test(thinking),
        cmocka_unit_test(white_space),
        cmocka_unit_test(tool_calls_and_results),
        cmocka_unit_test(tool_declarations),
        cmocka_unit_test(text_is_never_parsed),
        cmocka_unit_test(bad_messages),
        cmocka_unit_test(tokenizer_without_the_form),
    };
    return cmocka_run_group_tests_name("text chat", tests, NULL, NULL);
}
