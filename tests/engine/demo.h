/* The demo model as the tests of the engine use it: opened in one call, with its reference prompts and a place
 * for generated text. Failures end the test that calls. */
#ifndef SLUICE_TESTS_ENGINE_DEMO_H
#define SLUICE_TESTS_ENGINE_DEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/sluice.h"

#define DEMO_DIR SLUICE_MODELS_DIR "/demo"
#define DEMO_QUESTION "What does happy mean?"
#define DEMO_ANSWER                                                                                                   \
    "As an adjective, happy means enjoying or showing or marked by joy or pleasure. It can also mean marked by good " \
    "fortune."
#define DEMO_PROMPTS 4
#define DEMO_VOCAB 4096

/* An emulated processor takes about half a second for a token: tests of many tokens are skipped there. */
#ifdef SLUICE_TEST_EMULATED
#define DEMO_EMULATED true
#else
#define DEMO_EMULATED false
#endif

struct demo_prompt {
    uint32_t ids[512]; /* the prompt, then its greedy continuation, not stopped at eos */
    size_t n_prompt, n;
    float margin[512]; /* [n] distance of the two largest logits */
};

/* Prompt i of reference.json. */
void demo_load_prompt(struct demo_prompt *out, size_t i);

/* Options for the demo: two threads, a context of 512, chunks of 16. */
sluice_engine_options demo_options(void);

/* The smallest memory limit with which these options can be opened next. */
uint64_t demo_least_memory(const sluice_engine_options *options);

/* NULL: demo_options. */
sluice_engine *demo_open(const sluice_engine_options *options);
void demo_close(sluice_engine **engine);

sluice_session *demo_session(sluice_engine *engine);
void demo_sync(sluice_session *session, const uint32_t *ids, size_t n);

/* Ids of one user message; *n gets their number. Valid until the next call. */
const uint32_t *demo_ask(const sluice_engine *engine, const char *question, size_t *n);

/* A session whose context is the question above. */
sluice_session *demo_question(sluice_engine *engine);

/* Generated text. */
struct demo_text {
    char bytes[4096];
    size_t len;
    size_t pieces;
    size_t stop_after; /* the callback returns false at this piece, 0: never */
};

/* The callback that collects it. */
bool demo_collect(void *text, const char *bytes, size_t len);

/* Options of a generation into *text. */
sluice_generate_options demo_generate_options(struct demo_text *text);

/* Generates with success and returns the reason; *n (may be NULL) gets the tokens. */
sluice_stop demo_generate(sluice_session *session, const sluice_generate_options *options, size_t *n);

/* Generates greedily up to n tokens and fails unless these ids come. */
void demo_expect_ids(sluice_session *session, const uint32_t *ids, size_t n);

#endif
