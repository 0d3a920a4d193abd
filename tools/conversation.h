/* The messages of a conversation, owned copies, in order: an optional system message, then turns. */
#ifndef SLUICE_TOOLS_CONVERSATION_H
#define SLUICE_TOOLS_CONVERSATION_H

#include <stddef.h>

#include "base/error.h"
#include "sluice/sluice.h"

struct conversation {
    sluice_message *messages; /* [n], texts owned */
    size_t n, cap;
};

void conversation_free(struct conversation *conversation); /* safe on a zeroed one; leaves it empty and usable */

sluice_status conversation_push(struct conversation *conversation, sluice_role role, const char *text,
                                sluice_error *err);
void conversation_pop(struct conversation *conversation); /* forgets the last message; there must be one */

/* Forgets all turns; the system message stays. */
void conversation_reset(struct conversation *conversation);

/* Puts, replaces or (text NULL) removes the system message. */
sluice_status conversation_set_system(struct conversation *conversation, const char *text, sluice_error *err);

#endif
