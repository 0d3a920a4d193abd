/* A session as the files of this folder know it.
 *
 * tokens [0, n) are the context. Of these the cache holds the first kv_cache_length; the rest, if any, is not
 * computed yet: a generate leaves its last token so. logits are those after the last token only while `current` is
 * true. Whoever needs them calls session_compute, which computes what is missing. */
#ifndef SLUICE_ENGINE_SESSION_H
#define SLUICE_ENGINE_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/sampler.h"
#include "model/model.h"
#include "text/tokenizer.h"

struct sluice_session {
    sluice_engine *engine;
    struct kv_cache *cache;
    uint32_t *tokens; /* [context] */
    size_t n;
    float *logits; /* [vocab_size] */
    bool current;  /* logits belong to tokens[n - 1] */
    struct sampler sampler;
    atomic_bool cancel;
    struct detokenizer detokenizer; /* may hold the first bytes of a character between two generates */
    char *piece;                    /* [detokenizer_max_bytes], NULL without a tokenizer */
};

/* Makes `logits` current, as part of decoding. On failure the context keeps all its tokens, and a further call goes
 * on where this one ended. */
sluice_status session_compute(sluice_session *session, sluice_error *err);

/* Appends a token that is not computed yet. The context has room. */
void session_append(sluice_session *session, uint32_t token);

/* Forgets a character that the last generate left unfinished. */
void session_drop_character(sluice_session *session);

/* Fails with SLUICE_INVALID before the first sync. */
sluice_status session_check_started(const sluice_session *session, sluice_error *err);

#endif
