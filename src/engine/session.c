/* One conversation: its tokens, its cache, the logits after the last token.
 *
 * Everything a session needs while it computes is allocated when it opens. The engine's turn is taken for one chunk
 * of a prompt or one token at a time, so that sessions share the machine evenly. */
#include "engine/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

/* ---- Opening and closing -------------------------------------------------------------------------- */

static sluice_status allocate(sluice_session *session, sluice_error *err)
{
    sluice_engine *engine = session->engine;
    size_t context = engine->settings.context;
    size_t vocab_size = engine->container->config.vocab_size;
    session->tokens = mem_zalloc(context, sizeof *session->tokens);
    session->logits = mem_alloc_aligned(vocab_size, sizeof *session->logits);
    if (session->tokens == NULL || session->logits == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "no memory for a session");
    }
    if (engine->tokenizer != NULL) {
        session->piece = mem_zalloc(detokenizer_max_bytes(engine->tokenizer), 1);
        if (session->piece == NULL) {
            return error_set(err, SLUICE_NO_MEMORY, "no memory for the text of a session");
        }
        session_drop_character(session);
    }
    TRY(sampler_open(&session->sampler, (uint32_t)vocab_size, err));
    return kv_cache_open(&session->cache, engine->model, context, err);
}

sluice_status sluice_session_open(sluice_session **out, sluice_engine *engine, sluice_error *error)
{
    if (out == NULL || engine == NULL) {
        return error_set(error, SLUICE_INVALID, "no engine given");
    }
    TRY(engine_enter_session(engine, error));
    sluice_session *session = mem_zalloc(1, sizeof *session);
    if (session == NULL) {
        engine_leave_session(engine);
        return error_set(error, SLUICE_NO_MEMORY, "no memory for a session");
    }
    session->engine = engine;
    atomic_init(&session->cancel, false);
    sluice_status status = allocate(session, error);
    if (status != SLUICE_OK) {
        sluice_session_close(&session);
        return status;
    }
    *out = session;
    return SLUICE_OK;
}

void sluice_session_close(sluice_session **session)
{
    if (session == NULL || *session == NULL) {
        return;
    }
    sluice_session *closing = *session;
    kv_cache_close(&closing->cache);
    sampler_close(&closing->sampler);
    free(closing->piece);
    free(closing->logits);
    free(closing->tokens);
    engine_leave_session(closing->engine);
    free(closing);
    *session = NULL;
}

/* ---- Computing ------------------------------------------------------------------------------------ */

void session_drop_character(sluice_session *session)
{
    if (session->engine->tokenizer != NULL) {
        detokenizer_init(&session->detokenizer, session->engine->tokenizer, true);
    }
}

void session_append(sluice_session *session, uint32_t token)
{
    session->tokens[session->n] = token;
    session->n++;
    session->current = false;
}

sluice_status session_check_started(const sluice_session *session, sluice_error *err)
{
    if (session->n == 0) {
        return error_set(err, SLUICE_INVALID, "the session has no context yet");
    }
    return SLUICE_OK;
}

enum phase { PREFILL, DECODE }; /* which totals a computation counts for */

/* Computes the next `n` tokens of the context in a turn of its own, with the logits of the last n_logits of them. */
static sluice_status forward(sluice_session *session, enum phase phase, size_t n, float *logits, size_t n_logits,
                             sluice_error *err)
{
    sluice_engine *engine = session->engine;
    struct model_step step = {
        .ids = session->tokens + kv_cache_length(session->cache),
        .n = n,
        .logits = n_logits > 0 ? logits : NULL,
        .n_logits = n_logits,
        .cancel = &session->cancel,
    };
    TRY(turn_take(&engine->compute, &session->cancel, err));
    double start = clock_seconds();
    sluice_status status = model_forward(engine->model, engine->executor, session->cache, &step, err);
    double seconds = clock_seconds() - start;
    turn_give(&engine->compute);
    size_t done = status == SLUICE_OK ? n : 0;
    struct engine_counters counters = {0};
    if (phase == DECODE) {
        counters = (struct engine_counters){.decode_tokens = done, .decode_seconds = seconds};
    } else {
        counters = (struct engine_counters){.prefill_tokens = done, .prefill_seconds = seconds};
    }
    engine_count(engine, &counters);
    return status;
}

static sluice_status compute(sluice_session *session, enum phase phase, sluice_error *err)
{
    if (session->current) {
        return SLUICE_OK;
    }
    if (kv_cache_length(session->cache) == session->n) {
        kv_cache_truncate(session->cache, session->n - 1); /* its logits were lost: compute the last one again */
    }
    const struct log *log = phase == PREFILL ? &session->engine->log : NULL;
    size_t rows = session->engine->settings.prefill_rows;
    size_t start = kv_cache_length(session->cache);
    for (size_t at = start; at < session->n; at = kv_cache_length(session->cache)) {
        size_t left = session->n - at;
        size_t n = left < rows ? left : rows;
        log_progress(log, "prefill", at - start, session->n - start);
        TRY(forward(session, phase, n, session->logits, n == left, err));
    }
    log_progress(log, "prefill", session->n - start, session->n - start);
    session->current = true;
    return SLUICE_OK;
}

sluice_status session_compute(sluice_session *session, sluice_error *err)
{
    return compute(session, DECODE, err);
}

/* ---- Context -------------------------------------------------------------------------------------- */

static sluice_status check_tokens(const sluice_session *session, const uint32_t *tokens, size_t n, sluice_error *err)
{
    const sluice_engine *engine = session->engine;
    uint32_t vocab_size = engine->container->config.vocab_size;
    if (tokens == NULL || n == 0) {
        return error_set(err, SLUICE_INVALID, "no tokens given");
    }
    if (n > engine->settings.context) {
        return error_set(err, SLUICE_CONTEXT_FULL, "%zu tokens are more than the context of %u", n,
                         engine->settings.context);
    }
    for (size_t i = 0; i < n; i++) {
        if (tokens[i] >= vocab_size) {
            return error_set(err, SLUICE_INVALID, "token %zu is %u, but the vocabulary has %u ids", i, tokens[i],
                             vocab_size);
        }
    }
    return SLUICE_OK;
}

static size_t common_prefix(const sluice_session *session, const uint32_t *tokens, size_t n)
{
    size_t most = session->n < n ? session->n : n;
    size_t i = 0;
    while (i < most && session->tokens[i] == tokens[i]) {
        i++;
    }
    return i;
}

/* The context becomes these tokens, of which the first `kept` it has already; the cache keeps what it can. */
static void replace_tokens(sluice_session *session, const uint32_t *tokens, size_t n, size_t kept)
{
    session->current = false;
    session_drop_character(session);
    if (kv_cache_length(session->cache) > kept) {
        kv_cache_truncate(session->cache, kept);
    }
    memmove(session->tokens + kept, tokens + kept, (n - kept) * sizeof *tokens); /* may be the session's own array */
    session->n = n;
}

/* After a failure only what was computed counts. */
static void keep_computed(sluice_session *session)
{
    session->n = kv_cache_length(session->cache);
    session->current = false;
}

sluice_status sluice_session_sync(sluice_session *session, const uint32_t *tokens, size_t n, sluice_error *error)
{
    TRY(check_tokens(session, tokens, n, error));
    atomic_store(&session->cancel, false);
    size_t kept = common_prefix(session, tokens, n);
    if (kept < n || kept < session->n) {
        replace_tokens(session, tokens, n, kept);
    }
    sluice_status status = compute(session, PREFILL, error);
    if (status != SLUICE_OK) {
        keep_computed(session);
    }
    return status;
}

/* The last row's logits are the session's own. */
static sluice_status evaluate_rows(sluice_session *session, sluice_rows_callback *rows, void *user, sluice_error *err)
{
    const sluice_engine *engine = session->engine;
    size_t vocab_size = engine->container->config.vocab_size;
    size_t most = engine->settings.logits_rows;
    for (size_t at = 0; at < session->n; at = kv_cache_length(session->cache)) {
        size_t left = session->n - at;
        size_t n = left < most ? left : most;
        log_progress(&engine->log, "prefill", at, session->n);
        TRY(forward(session, PREFILL, n, engine->rows, n, err));
        if (!rows(user, at, n, engine->rows)) {
            return error_set(err, SLUICE_CANCELLED, "the evaluation was stopped by its caller");
        }
        memcpy(session->logits, engine->rows + (n - 1) * vocab_size, vocab_size * sizeof(float));
    }
    log_progress(&engine->log, "prefill", session->n, session->n);
    session->current = true;
    return SLUICE_OK;
}

sluice_status sluice_session_evaluate(sluice_session *session, const uint32_t *tokens, size_t n,
                                      sluice_rows_callback *rows, void *user, sluice_error *error)
{
    TRY(check_tokens(session, tokens, n, error));
    if (rows == NULL) {
        return error_set(error, SLUICE_INVALID, "no callback for the rows given");
    }
    atomic_store(&session->cancel, false);
    TRY(turn_take(&session->engine->evaluation, &session->cancel, error));
    replace_tokens(session, tokens, n, 0);
    sluice_status status = evaluate_rows(session, rows, user, error);
    if (status != SLUICE_OK) {
        keep_computed(session);
    }
    turn_give(&session->engine->evaluation);
    return status;
}

sluice_status sluice_session_set_sampling(sluice_session *session, const sluice_sampling *sampling, sluice_error *error)
{
    if (sampling == NULL) {
        return error_set(error, SLUICE_INVALID, "no sampling given");
    }
    return sampler_set(&session->sampler, sampling, error);
}

sluice_status sluice_session_next(sluice_session *session, uint32_t *token, sluice_error *error)
{
    TRY(session_check_started(session, error));
    if (session->n == session->engine->settings.context) {
        return error_set(error, SLUICE_CONTEXT_FULL, "the context of %zu tokens is full", session->n);
    }
    if (atomic_load(&session->cancel)) {
        return error_set(error, SLUICE_CANCELLED, "cancelled by the caller");
    }
    TRY(session_compute(session, error));
    uint64_t draws = session->sampler.draws;
    uint32_t picked = sampler_pick(&session->sampler, session->logits);
    if (!sluice_engine_is_eos(session->engine, picked)) {
        session_drop_character(session);
        session_append(session, picked);
        sluice_status status = session_compute(session, error);
        if (status != SLUICE_OK) {
            session->n--;
            session->sampler.draws = draws;
            return status;
        }
    }
    *token = picked;
    return SLUICE_OK;
}

const uint32_t *sluice_session_tokens(const sluice_session *session, size_t *n)
{
    *n = session->n;
    return session->tokens;
}

const float *sluice_session_logits(const sluice_session *session)
{
    return session->current ? session->logits : NULL;
}

/* A flag only: a signal handler may do no more. Whoever waits looks at it often. */
void sluice_session_cancel(sluice_session *session)
{
    atomic_store(&session->cancel, true);
}
