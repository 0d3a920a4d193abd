/* The chat form of glm_moe_dsa.
 *
 * A prompt is a row of special tokens with ordinary text between them. Every text that comes from outside, be it a
 * message, an argument or a tool's declaration, is encoded without added tokens: nobody can write himself into another
 * role. Text is gathered until the next special token and encoded as one piece, because where its parts are joined may
 * matter to the ids. */
#include "text/chat.h"

#include <string.h>

#include "base/buffer.h"
#include "text/utf8.h"

/* What stands around the declarations, apart from the tags. */
#define TOOLS_HEADING                                                                                    \
    "\n# Tools\n\nThe functions declared between the <tools> tags, one JSON object a line, are yours to" \
    " call whenever they help with the user's request.\n<tools>\n"
#define TOOLS_CALLING "</tools>\n\nWrite a call in this form, with one key and one value for each argument:\n"

struct chat_writer {
    const struct tokenizer *tokenizer;
    struct token_list *out;
    struct buffer text; /* waits to be encoded */
    sluice_error *err;
};

static sluice_status flush_text(struct chat_writer *writer)
{
    TRY(tokenizer_encode(writer->tokenizer, writer->text.data, writer->text.len, false, writer->out, writer->err));
    buffer_clear(&writer->text);
    return SLUICE_OK;
}

static sluice_status write_token(struct chat_writer *writer, const char *token)
{
    uint32_t id;
    if (!tokenizer_find(writer->tokenizer, token, &id)) {
        return error_set(writer->err, SLUICE_UNSUPPORTED, "the chat form needs the token %s, which the tokenizer lacks",
                         token);
    }
    TRY(flush_text(writer));
    return token_list_push(writer->out, id, writer->err);
}

static sluice_status write_tokens(struct chat_writer *writer, const char *first, const char *second)
{
    TRY(write_token(writer, first));
    return write_token(writer, second);
}

static sluice_status write_text(struct chat_writer *writer, const char *text)
{
    return buffer_append_str(&writer->text, text, writer->err);
}

/* ---- Checks ---------------------------------------------------------------------------------------- */

static sluice_status check_text(const char *text, const char *what, size_t index, sluice_error *err)
{
    if (text == NULL) {
        return error_set(err, SLUICE_INVALID, "%s %zu: content that is not text", what, index);
    }
    size_t len = strlen(text), invalid = utf8_find_invalid(text, len);
    if (invalid < len) {
        return error_set(err, SLUICE_INVALID, "%s %zu: not UTF-8 at byte %zu", what, index, invalid);
    }
    return SLUICE_OK;
}

static sluice_status check_calls(const struct chat_message *message, size_t index, sluice_error *err)
{
    if (message->n_tool_calls > 0 && message->role != CHAT_ASSISTANT) {
        return error_set(err, SLUICE_INVALID, "message %zu: only an answer of the assistant can call tools", index);
    }
    for (size_t i = 0; i < message->n_tool_calls; i++) {
        const struct chat_tool_call *call = &message->tool_calls[i];
        TRY(check_text(call->name, "name of a tool call in message", index, err));
        for (size_t j = 0; j < call->n_arguments; j++) {
            TRY(check_text(call->arguments[j].key, "key of a tool call in message", index, err));
            TRY(check_text(call->arguments[j].value, "value of a tool call in message", index, err));
        }
    }
    return SLUICE_OK;
}

static const char *const message_names[] = {
    [CHAT_SYSTEM] = "system message",       [CHAT_DEVELOPER] = "developer message", [CHAT_USER] = "user message",
    [CHAT_ASSISTANT] = "assistant message", [CHAT_TOOL] = "tool message",
};

static sluice_status check_input(const struct chat_message *messages, size_t n, const struct chat_options *options,
                                 sluice_error *err)
{
    for (size_t i = 0; i < options->n_tools; i++) {
        TRY(check_text(options->tools[i], "tool", i, err));
        if (strpbrk(options->tools[i], "\r\n") != NULL) {
            return error_set(err, SLUICE_INVALID, "tool %zu: its declaration must be one line", i);
        }
    }
    for (size_t i = 0; i < n; i++) {
        if ((unsigned)messages[i].role > CHAT_TOOL) {
            return error_set(err, SLUICE_INVALID, "message %zu: unknown role", i);
        }
        /* an answer may consist of calls alone */
        if (messages[i].text != NULL || messages[i].n_tool_calls == 0) {
            TRY(check_text(messages[i].text, message_names[messages[i].role], i, err));
        }
        TRY(check_calls(&messages[i], i, err));
    }
    return SLUICE_OK;
}

/* ---- Parts of the prompt --------------------------------------------------------------------------- */

/* One call; key and value may be placeholders. */
static sluice_status write_argument(struct chat_writer *writer, const char *key, const char *value)
{
    TRY(write_token(writer, "<arg_key>"));
    TRY(write_text(writer, key));
    TRY(write_tokens(writer, "</arg_key>", "<arg_value>"));
    TRY(write_text(writer, value));
    return write_token(writer, "</arg_value>");
}

static sluice_status write_tool_call(struct chat_writer *writer, const struct chat_tool_call *call)
{
    TRY(write_token(writer, "<tool_call>"));
    TRY(write_text(writer, call->name));
    for (size_t i = 0; i < call->n_arguments; i++) {
        TRY(write_argument(writer, call->arguments[i].key, call->arguments[i].value));
    }
    return write_token(writer, "</tool_call>");
}

static sluice_status write_tools(struct chat_writer *writer, const struct chat_options *options)
{
    static const struct chat_tool_argument argument = {.key = "argument name", .value = "argument value"};
    static const struct chat_tool_call form = {.name = "function name", .arguments = &argument, .n_arguments = 1};
    TRY(write_token(writer, "<|system|>"));
    TRY(write_text(writer, TOOLS_HEADING));
    for (size_t i = 0; i < options->n_tools; i++) {
        TRY(write_text(writer, options->tools[i]));
        TRY(write_text(writer, "\n"));
    }
    TRY(write_text(writer, TOOLS_CALLING));
    return write_tool_call(writer, &form);
}

static sluice_status write_answer(struct chat_writer *writer, const struct chat_message *message)
{
    TRY(write_token(writer, "<|assistant|>"));
    TRY(write_tokens(writer, "<think>", "</think>"));
    if (message->text != NULL) {
        size_t len = strlen(message->text), skip = utf8_space_prefix(message->text, len);
        len -= skip;
        len -= utf8_space_suffix(message->text + skip, len);
        TRY(buffer_append(&writer->text, message->text + skip, len, writer->err));
    }
    for (size_t i = 0; i < message->n_tool_calls; i++) {
        TRY(write_tool_call(writer, &message->tool_calls[i]));
    }
    return SLUICE_OK;
}

static sluice_status write_message(struct chat_writer *writer, const struct chat_message *message, bool follows_tool)
{
    switch (message->role) {
    case CHAT_SYSTEM:
    case CHAT_DEVELOPER:
        TRY(write_token(writer, "<|system|>"));
        return write_text(writer, message->text);
    case CHAT_USER:
        TRY(write_token(writer, "<|user|>"));
        return write_text(writer, message->text);
    case CHAT_ASSISTANT:
        return write_answer(writer, message);
    case CHAT_TOOL:
        if (!follows_tool) {
            TRY(write_token(writer, "<|observation|>"));
        }
        TRY(write_token(writer, "<tool_response>"));
        TRY(write_text(writer, message->text));
        return write_token(writer, "</tool_response>");
    }
    return SLUICE_OK;
}

static sluice_status write_prompt(struct chat_writer *writer, const struct chat_message *messages, size_t n,
                                  const struct chat_options *options)
{
    TRY(write_tokens(writer, "[gMASK]", "<sop>"));
    if (options->thinking) {
        TRY(write_token(writer, "<|system|>"));
        TRY(write_text(writer, "Reasoning Effort: Max"));
    }
    if (options->n_tools > 0) {
        TRY(write_tools(writer, options));
    }
    for (size_t i = 0; i < n; i++) {
        bool follows_tool = i > 0 && messages[i - 1].role == CHAT_TOOL;
        TRY(write_message(writer, &messages[i], follows_tool));
    }
    if (options->add_generation_prompt) {
        TRY(write_tokens(writer, "<|assistant|>", "<think>"));
        if (!options->thinking) {
            TRY(write_token(writer, "</think>"));
        }
    }
    return flush_text(writer);
}

sluice_status chat_encode(const struct tokenizer *tokenizer, const struct chat_message *messages, size_t n,
                          const struct chat_options *options, struct token_list *out, sluice_error *err)
{
    TRY(check_input(messages, n, options, err));
    size_t n_before = out->n;
    struct chat_writer writer = {.tokenizer = tokenizer, .out = out, .err = err};
    buffer_init(&writer.text, SIZE_MAX / 4);
    sluice_status status = write_prompt(&writer, messages, n, options);
    buffer_free(&writer.text);
    if (status != SLUICE_OK) {
        out->n = n_before;
    }
    return status;
}
