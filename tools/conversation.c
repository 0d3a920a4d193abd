/* Messages of a conversation: see conversation.h. */
#include "conversation.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static void message_free(sluice_message *message)
{
    free((char *)message->text);
    message->text = NULL;
}

void conversation_free(struct conversation *conversation)
{
    while (conversation->n > 0) {
        conversation_pop(conversation);
    }
    free(conversation->messages);
    *conversation = (struct conversation){0};
}

void conversation_pop(struct conversation *conversation)
{
    message_free(&conversation->messages[--conversation->n]);
}

static sluice_status conversation_reserve(struct conversation *conversation, sluice_error *err)
{
    size_t cap, bytes;
    sluice_message *grown;

    if (conversation->n < conversation->cap) {
        return SLUICE_OK;
    }
    if (!size_mul(conversation->cap, 2, &cap) || !size_add(cap, 8, &cap) || !size_mul(cap, sizeof *grown, &bytes) ||
        (grown = realloc(conversation->messages, bytes)) == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "no memory for the conversation");
    }
    conversation->messages = grown;
    conversation->cap = cap;
    return SLUICE_OK;
}

sluice_status conversation_push(struct conversation *conversation, sluice_role role, const char *text,
                                sluice_error *err)
{
    TRY(conversation_reserve(conversation, err));
    size_t size = strlen(text) + 1;
    char *copy = mem_zalloc(size, 1);
    if (copy == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "no memory for the conversation");
    }
    memcpy(copy, text, size);
    conversation->messages[conversation->n++] = (sluice_message){role, copy};
    return SLUICE_OK;
}

static size_t system_count(const struct conversation *conversation)
{
    return conversation->n > 0 && conversation->messages[0].role == SLUICE_SYSTEM ? 1 : 0;
}

void conversation_reset(struct conversation *conversation)
{
    while (conversation->n > system_count(conversation)) {
        conversation_pop(conversation);
    }
}

sluice_status conversation_set_system(struct conversation *conversation, const char *text, sluice_error *err)
{
    size_t old = system_count(conversation);

    if (text != NULL) {
        TRY(conversation_push(conversation, SLUICE_SYSTEM, text, err));
        sluice_message added = conversation->messages[--conversation->n];
        memmove(conversation->messages + 1, conversation->messages, conversation->n * sizeof added);
        conversation->messages[0] = added;
        conversation->n++;
    }
    if (old > 0) {
        size_t at = text != NULL ? 1 : 0;
        message_free(&conversation->messages[at]);
        conversation->n--;
        memmove(conversation->messages + at, conversation->messages + at + 1,
                (conversation->n - at) * sizeof *conversation->messages);
    }
    return SLUICE_OK;
}
