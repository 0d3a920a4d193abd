/* Text and ids: the tokenizer of an engine, or one opened alone.
 *
 * What is handed out belongs to the caller and is released with sluice_free. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buffer.h"
#include "engine/engine.h"
#include "engine/files.h"
#include "text/chat.h"

struct sluice_text {
    struct tokenizer *tokenizer;
};

void sluice_free(void *memory)
{
    free(memory);
}

static sluice_status check_tokenizer(const struct tokenizer *tokenizer, sluice_error *err)
{
    if (tokenizer == NULL) {
        return error_set(err, SLUICE_UNSUPPORTED, "the model has no tokenizer");
    }
    return SLUICE_OK;
}

/* The list becomes the caller's. An empty one is still an array that can be freed. */
static sluice_status hand_out(struct token_list *list, uint32_t **ids, size_t *n, sluice_error *err)
{
    if (list->ids == NULL) {
        list->ids = mem_zalloc(1, sizeof *list->ids);
        if (list->ids == NULL) {
            return error_set(err, SLUICE_NO_MEMORY, "tokens: out of memory");
        }
    }
    *ids = list->ids;
    *n = list->n;
    return SLUICE_OK;
}

static sluice_status encode(const struct tokenizer *tokenizer, const char *bytes, size_t len, bool special,
                            uint32_t **ids, size_t *n, sluice_error *err)
{
    struct token_list list = {0};
    TRY(check_tokenizer(tokenizer, err));
    if (bytes == NULL && len > 0) {
        return error_set(err, SLUICE_INVALID, "no text given");
    }
    sluice_status status = tokenizer_encode(tokenizer, bytes != NULL ? bytes : "", len, special, &list, err);
    if (status == SLUICE_OK) {
        status = hand_out(&list, ids, n, err);
    }
    if (status != SLUICE_OK) {
        token_list_free(&list);
    }
    return status;
}

static sluice_status check_ids(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n, sluice_error *err)
{
    size_t len;
    if (ids == NULL && n > 0) {
        return error_set(err, SLUICE_INVALID, "no tokens given");
    }
    for (size_t i = 0; i < n; i++) {
        if (tokenizer_bytes(tokenizer, ids[i], &len) == NULL) {
            return error_set(err, SLUICE_INVALID, "token %zu is %u, which the tokenizer does not have", i, ids[i]);
        }
    }
    return SLUICE_OK;
}

/* Appends the text of the ids, an unfinished character at the end as U+FFFD. */
static sluice_status append_text(struct buffer *text, const struct tokenizer *tokenizer, const uint32_t *ids, size_t n,
                                 sluice_error *err)
{
    struct detokenizer detokenizer;
    size_t most = detokenizer_max_bytes(tokenizer);
    detokenizer_init(&detokenizer, tokenizer, false);
    for (size_t i = 0; i < n; i++) {
        TRY(buffer_reserve(text, most, err));
        text->len += detokenizer_push(&detokenizer, ids[i], text->data + text->len);
        text->data[text->len] = '\0';
    }
    TRY(buffer_reserve(text, most, err));
    text->len += detokenizer_finish(&detokenizer, text->data + text->len);
    text->data[text->len] = '\0';
    return SLUICE_OK;
}

static sluice_status decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n, char **bytes, size_t *len,
                            sluice_error *err)
{
    TRY(check_tokenizer(tokenizer, err));
    TRY(check_ids(tokenizer, ids, n, err));
    struct buffer text;
    buffer_init(&text, SIZE_MAX / 2);
    sluice_status status = append_text(&text, tokenizer, ids, n, err);
    if (status != SLUICE_OK) {
        buffer_free(&text);
        return status;
    }
    *bytes = text.data;
    *len = text.len;
    return SLUICE_OK;
}

/* Normalisation can shorten a text before it becomes tokens, to a third at most. */
#define SHRINKS 4

/* Text that no context could hold is refused before memory is spent on its tokens, which the plan does not count. */
static sluice_status check_length(const sluice_engine *engine, uint64_t len, sluice_error *err)
{
    uint32_t context = engine->settings.context;
    if (engine->tokenizer != NULL && len / SHRINKS / context > detokenizer_max_bytes(engine->tokenizer)) {
        return error_set(err, SLUICE_CONTEXT_FULL, "the text has %llu bytes, more than a context of %u tokens can hold",
                         (unsigned long long)len, context);
    }
    return SLUICE_OK;
}

sluice_status sluice_tokenize(const sluice_engine *engine, const char *text, size_t len, bool special, uint32_t **ids,
                              size_t *n, sluice_error *error)
{
    TRY(check_length(engine, len, error));
    return encode(engine->tokenizer, text, len, special, ids, n, error);
}

sluice_status sluice_detokenize(const sluice_engine *engine, const uint32_t *ids, size_t n, char **text, size_t *len,
                                sluice_error *error)
{
    return decode(engine->tokenizer, ids, n, text, len, error);
}

sluice_status sluice_text_open(sluice_text **out, const char *model_dir, sluice_error *error)
{
    if (model_dir == NULL) {
        return error_set(error, SLUICE_INVALID, "no model directory given");
    }
    struct tokenizer *tokenizer;
    TRY(files_open_tokenizer(&tokenizer, model_dir, error));
    if (tokenizer == NULL) {
        return error_set(error, SLUICE_UNSUPPORTED, "%s: no tokenizer.json", model_dir);
    }
    sluice_text *text = mem_zalloc(1, sizeof *text);
    if (text == NULL) {
        tokenizer_close(&tokenizer);
        return error_set(error, SLUICE_NO_MEMORY, "no memory for a tokenizer");
    }
    text->tokenizer = tokenizer;
    *out = text;
    return SLUICE_OK;
}

void sluice_text_close(sluice_text **text)
{
    if (text == NULL || *text == NULL) {
        return;
    }
    tokenizer_close(&(*text)->tokenizer);
    free(*text);
    *text = NULL;
}

sluice_status sluice_text_encode(const sluice_text *text, const char *bytes, size_t len, bool special, uint32_t **ids,
                                 size_t *n, sluice_error *error)
{
    return encode(text->tokenizer, bytes, len, special, ids, n, error);
}

sluice_status sluice_text_decode(const sluice_text *text, const uint32_t *ids, size_t n, char **bytes, size_t *len,
                                 sluice_error *error)
{
    return decode(text->tokenizer, ids, n, bytes, len, error);
}

static sluice_status convert_message(struct chat_message *out, const sluice_message *message, size_t i,
                                     sluice_error *err)
{
    static const enum chat_role roles[] = {
        [SLUICE_SYSTEM] = CHAT_SYSTEM,       [SLUICE_DEVELOPER] = CHAT_DEVELOPER, [SLUICE_USER] = CHAT_USER,
        [SLUICE_ASSISTANT] = CHAT_ASSISTANT, [SLUICE_TOOL] = CHAT_TOOL,
    };
    if ((size_t)message->role >= sizeof roles / sizeof roles[0]) {
        return error_set(err, SLUICE_INVALID, "message %zu has the unknown role %d", i, (int)message->role);
    }
    if (message->text == NULL) {
        return error_set(err, SLUICE_INVALID, "message %zu has no text", i);
    }
    *out = (struct chat_message){.role = roles[message->role], .text = message->text};
    return SLUICE_OK;
}

static sluice_status convert_messages(struct chat_message *out, const sluice_message *messages, size_t n,
                                      sluice_error *err)
{
    for (size_t i = 0; i < n; i++) {
        TRY(convert_message(&out[i], &messages[i], i, err));
    }
    return SLUICE_OK;
}

static uint64_t text_length(const sluice_message *messages, size_t n)
{
    uint64_t len = 0;
    for (size_t i = 0; i < n; i++) {
        len += strlen(messages[i].text);
    }
    return len;
}

sluice_status sluice_chat_tokenize(const sluice_engine *engine, const sluice_message *messages, size_t n, bool thinking,
                                   uint32_t **ids, size_t *n_ids, sluice_error *error)
{
    const struct chat_options options = {.thinking = thinking, .add_generation_prompt = true};
    struct token_list list = {0};
    TRY(check_tokenizer(engine->tokenizer, error));
    if (messages == NULL || n == 0) {
        return error_set(error, SLUICE_INVALID, "a conversation needs at least one message");
    }
    struct chat_message *converted = mem_zalloc(n, sizeof *converted);
    if (converted == NULL) {
        return error_set(error, SLUICE_NO_MEMORY, "no memory for %zu messages", n);
    }
    sluice_status status = convert_messages(converted, messages, n, error);
    if (status == SLUICE_OK) {
        status = check_length(engine, text_length(messages, n), error);
    }
    if (status == SLUICE_OK) {
        status = chat_encode(engine->tokenizer, converted, n, &options, &list, error);
    }
    if (status == SLUICE_OK) {
        status = hand_out(&list, ids, n_ids, error);
    }
    if (status != SLUICE_OK) {
        token_list_free(&list);
    }
    free(converted);
    return status;
}
