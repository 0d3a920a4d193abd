/* The chat form of glm_moe_dsa (docs/design.md): messages into token ids. User text is never parsed for special tokens.
 */
#ifndef SLUICE_TEXT_CHAT_H
#define SLUICE_TEXT_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "text/tokenizer.h"

enum chat_role { CHAT_SYSTEM, CHAT_DEVELOPER, CHAT_USER, CHAT_ASSISTANT, CHAT_TOOL };

struct chat_tool_argument {
    const char *key;
    const char *value; /* strings bare, other values as JSON */
};
struct chat_tool_call {
    const char *name;
    const struct chat_tool_argument *arguments;
    size_t n_arguments;
};

struct chat_message {
    enum chat_role role;
    const char *text; /* UTF-8; assistant: the answer without its thinking, trimmed when written */
    const struct chat_tool_call *tool_calls; /* assistant only */
    size_t n_tool_calls;
};

struct chat_options {
    bool thinking;            /* ask for thinking: effort line first, open <think> last */
    const char *const *tools; /* [n_tools] one JSON object each, one line */
    size_t n_tools;
    bool add_generation_prompt; /* end with the opening of the next answer */
};

/* Appends the ids of the whole prompt. SLUICE_UNSUPPORTED if the tokenizer lacks a token the form needs, SLUICE_INVALID
 * naming the message for text that is missing or not UTF-8 (only an answer that calls tools may have no text) and for
 * calls outside an answer. On failure the list is as it was. */
sluice_status chat_encode(const struct tokenizer *tokenizer, const struct chat_message *messages, size_t n,
                          const struct chat_options *options, struct token_list *out, sluice_error *err);

#endif
