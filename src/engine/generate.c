/* Generating an answer: token after token, text whole character by whole character.
 *
 * One step makes the logits current, samples, appends the token and passes its text. A token's text is thus passed
 * before the token itself is computed, and the last token of an answer is not computed at all until something
 * follows it. Nothing is allocated after the stop strings have been prepared. */
#include <assert.h>
#include <stddef.h>

#include "engine/session.h"
#include "engine/stop.h"

struct generation {
    sluice_session *session;
    const sluice_generate_options *options;
    struct stop_matcher matcher;
    bool wants_text; /* the text matters, for the callback or for stop strings */
    size_t n;        /* tokens appended */
    bool done;
    sluice_stop stop; /* why, once done */
};

const char *sluice_stop_text(sluice_stop stop)
{
    static const char *const texts[] = {
        [SLUICE_STOP_EOS] = "the answer is complete",           [SLUICE_STOP_STRING] = "a stop string appeared",
        [SLUICE_STOP_LIMIT] = "the limit of tokens is reached", [SLUICE_STOP_CONTEXT] = "the context is full",
        [SLUICE_STOP_CALLER] = "stopped by the caller",         [SLUICE_STOP_CANCELLED] = "cancelled",
    };
    bool known = (size_t)stop < sizeof texts / sizeof texts[0];
    return known ? texts[stop] : "unknown reason";
}

static void finish(struct generation *generation, sluice_stop stop)
{
    generation->done = true;
    generation->stop = stop;
}

/* Passes text to the caller, who may end the generation unless it has ended already. */
static void pass(struct generation *generation, const char *text, size_t len)
{
    const sluice_generate_options *options = generation->options;
    if (len == 0 || options->text == NULL) {
        return;
    }
    if (!options->text(options->user, text, len) && !generation->done) {
        finish(generation, SLUICE_STOP_CALLER);
    }
}

/* Whole characters that a token brought, `len` bytes of session->piece. */
static void add_text(struct generation *generation, size_t len)
{
    sluice_session *session = generation->session;
    const char *released;
    size_t released_len;
    if (stop_matcher_push(&generation->matcher, session->piece, len, &released, &released_len)) {
        session_drop_character(session);
        finish(generation, SLUICE_STOP_STRING);
    }
    pass(generation, released, released_len);
}

static void add_token_text(struct generation *generation, uint32_t token)
{
    sluice_session *session = generation->session;
    if (generation->wants_text) {
        add_text(generation, detokenizer_push(&session->detokenizer, token, session->piece));
    }
}

/* The model ended its text: bytes that still wait for the rest of a character get none. */
static void end_text(struct generation *generation)
{
    sluice_session *session = generation->session;
    if (generation->wants_text) {
        add_text(generation, detokenizer_finish(&session->detokenizer, session->piece));
    }
}

/* Text held back for a stop string that did not come. */
static void flush_text(struct generation *generation)
{
    const char *released;
    size_t len;
    stop_matcher_flush(&generation->matcher, &released, &len);
    pass(generation, released, len);
}

static sluice_status step(struct generation *generation, sluice_error *err)
{
    sluice_session *session = generation->session;
    uint32_t most = generation->options->max_tokens;
    if (most > 0 && generation->n == most) {
        finish(generation, SLUICE_STOP_LIMIT);
        return SLUICE_OK;
    }
    if (session->n == session->engine->settings.context) {
        finish(generation, SLUICE_STOP_CONTEXT);
        return SLUICE_OK;
    }
    sluice_status status = session_compute(session, err);
    if (status == SLUICE_CANCELLED || atomic_load(&session->cancel)) {
        finish(generation, SLUICE_STOP_CANCELLED);
        return SLUICE_OK;
    }
    if (status != SLUICE_OK) {
        return status;
    }
    uint32_t token = sampler_pick(&session->sampler, session->logits);
    if (sluice_engine_is_eos(session->engine, token)) {
        finish(generation, SLUICE_STOP_EOS);
        end_text(generation);
        return SLUICE_OK;
    }
    session_append(session, token);
    generation->n++;
    add_token_text(generation, token);
    return SLUICE_OK;
}

static sluice_status begin(struct generation *generation, sluice_error *err)
{
    sluice_session *session = generation->session;
    const sluice_generate_options *options = generation->options;
    const struct tokenizer *tokenizer = session->engine->tokenizer;
    size_t max_piece = 0;
    generation->wants_text = options->text != NULL || options->n_stop_strings > 0;
    if (generation->wants_text && tokenizer == NULL) {
        return error_set(err, SLUICE_UNSUPPORTED, "the model has no tokenizer: ids can be generated, text cannot");
    }
    if (generation->wants_text) {
        max_piece = detokenizer_max_bytes(tokenizer);
        session->detokenizer.skip_special = !options->special;
    } else {
        session_drop_character(session);
    }
    return stop_matcher_open(&generation->matcher, options->stop_strings, options->n_stop_strings, max_piece, err);
}

sluice_status sluice_session_generate(sluice_session *session, const sluice_generate_options *options,
                                      sluice_stop *stop, size_t *n_tokens, sluice_error *error)
{
    if (options == NULL || stop == NULL || (options->n_stop_strings > 0 && options->stop_strings == NULL)) {
        return error_set(error, SLUICE_INVALID, "generation without options, stop strings or a place for the reason");
    }
    TRY(session_check_started(session, error));
    struct generation generation = {.session = session, .options = options};
    TRY(begin(&generation, error));
    atomic_store(&session->cancel, false);
    sluice_status status = SLUICE_OK;
    while (status == SLUICE_OK && !generation.done) {
        status = step(&generation, error);
    }
    bool cut = status == SLUICE_OK && (generation.stop == SLUICE_STOP_CALLER || generation.stop == SLUICE_STOP_STRING);
    if (!cut) {
        flush_text(&generation);
    }
    stop_matcher_close(&generation.matcher);
    if (status == SLUICE_OK) {
        *stop = generation.stop;
        if (n_tokens != NULL) {
            *n_tokens = generation.n;
        }
    }
    return status;
}
