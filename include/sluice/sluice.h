/* sluice: GLM-5.2 (glm_moe_dsa) on the machine you own.
 *
 * Two nouns. An engine owns the model, the threads, the files and the expert store, and may be shared by
 * any number of threads. A session is one conversation: tokens, cache and sampler; one thread at a time,
 * except sluice_session_cancel. Sessions of one engine take turns at computing, token by token.
 *
 * The library never prints, never exits and never reads the environment. Out-parameters are written only
 * on success. Every function that can fail returns a sluice_status and fills *error when error is not
 * NULL. Strings are UTF-8. Decoding a token allocates nothing. */
#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the library, "major.minor.patch". */
SLUICE_API const char *sluice_version(void);

/* ---- Engine ---------------------------------------------------------------------------------------- */

typedef struct sluice_engine sluice_engine;

typedef enum sluice_numerics { SLUICE_NUMERICS_F32 } sluice_numerics;
typedef enum sluice_device { SLUICE_DEVICE_CPU } sluice_device;

typedef struct sluice_engine_options {
    const char *model_dir;  /* container directory; required */
    uint64_t memory_limit;  /* bytes for the whole process; 0: what the machine and its cgroup allow */
    uint32_t context;       /* tokens a session can hold; 0: the smaller of 8192 and the model's own limit */
    uint32_t sessions;      /* sessions that may be open at once; 0 means 1. The plan counts each one's cache */
    uint32_t threads;       /* computing threads; 0: one per processor */
    uint32_t prefill_chunk; /* prompt tokens computed at once; 0 means 64. Never changes a result */
    sluice_numerics numerics;
    sluice_device device;
    const char *cpu_features;                      /* NULL: all; else a comma-separated mask: "avx2", "scalar" */
    void (*message)(void *user, const char *line); /* warnings; may be NULL */
    void (*progress)(void *user, const char *what, uint64_t done, uint64_t total); /* long work; may be NULL */
    void *user; /* passed to both callbacks, which may come from any thread that calls into the engine */
} sluice_engine_options;

/* Fills in the defaults: everything 0 or NULL. */
SLUICE_API void sluice_engine_options_init(sluice_engine_options *options);

/* Opens a model. The memory plan is computed, and refused with SLUICE_LIMIT, before any weight is read. */
SLUICE_API sluice_status sluice_engine_open(sluice_engine **out, const sluice_engine_options *options,
                                            sluice_error *error);

/* Closes an engine and sets *engine to NULL; safe on NULL. Its sessions must be closed before: otherwise
 * SLUICE_BUSY and the engine stays open. */
SLUICE_API sluice_status sluice_engine_close(sluice_engine **engine, sluice_error *error);

/* Facts about an open engine. */
typedef struct sluice_engine_info {
    uint32_t vocab_size, hidden_size, layers, sparse_layers, experts, experts_per_token;
    uint32_t context; /* tokens a session can hold */
    uint32_t threads;
    uint64_t planned_bytes;  /* peak memory the plan allows */
    uint64_t expert_slots;   /* slots in the store, all layers together */
    const char *numerics;    /* "f32" */
    const char *device;      /* "cpu" */
    const char *cpu_kernels; /* "avx2", "c" */
    const char *reader;      /* how experts are read: "pread x8 (O_DIRECT)", ... */
    bool has_mtp, has_indexer, has_tokenizer;
} sluice_engine_info;
SLUICE_API void sluice_engine_get_info(const sluice_engine *engine, sluice_engine_info *out);

/* True if generation stops at this id. */
SLUICE_API bool sluice_engine_is_eos(const sluice_engine *engine, uint32_t id);

/* ---- Memory plan ----------------------------------------------------------------------------------- */

typedef struct sluice_plan_line {
    char what[64];
    uint64_t bytes;
} sluice_plan_line;

#define SLUICE_PLAN_LINES 16

typedef struct sluice_plan {
    uint64_t limit;      /* the limit in force */
    char limit_from[32]; /* "memory_limit" (the option), "cgroup", "physical memory" */
    uint64_t total;      /* planned peak, <= limit when fits */
    uint64_t minimum;    /* smallest limit that would fit this context */
    uint32_t context;
    uint64_t expert_slots, slot_bytes, expert_count;
    uint32_t slots_per_layer; /* experts of one layer that can stay resident */
    bool fits;
    size_t n_lines;
    sluice_plan_line lines[SLUICE_PLAN_LINES]; /* they add up to total */
    char advice[256];                          /* when it does not fit: the smallest change that would */
} sluice_plan;

/* Computes the plan without reading a weight. SLUICE_OK also when it does not fit: look at fits. */
SLUICE_API sluice_status sluice_plan_compute(sluice_plan *out, const sluice_engine_options *options,
                                             sluice_error *error);

/* ---- Text ------------------------------------------------------------------------------------------ */

/* Ids of a text. *ids is released with sluice_free. special: recognise added tokens such as <|user|>
 * inside the text; otherwise they are ordinary characters. SLUICE_UNSUPPORTED without a tokenizer;
 * SLUICE_CONTEXT_FULL for text so long that no context of this engine could hold it. */
SLUICE_API sluice_status sluice_tokenize(const sluice_engine *engine, const char *text, size_t len, bool special,
                                         uint32_t **ids, size_t *n, sluice_error *error);

/* Text of ids, added tokens included; *text is zero-terminated and released with sluice_free. */
SLUICE_API sluice_status sluice_detokenize(const sluice_engine *engine, const uint32_t *ids, size_t n, char **text,
                                           size_t *len, sluice_error *error);

/* The tokenizer alone, without the model's weights: for tools that only handle text. */
typedef struct sluice_text sluice_text;
SLUICE_API sluice_status sluice_text_open(sluice_text **out, const char *model_dir, sluice_error *error);
SLUICE_API void sluice_text_close(sluice_text **text);
SLUICE_API sluice_status sluice_text_encode(const sluice_text *text, const char *bytes, size_t len, bool special,
                                            uint32_t **ids, size_t *n, sluice_error *error);
SLUICE_API sluice_status sluice_text_decode(const sluice_text *text, const uint32_t *ids, size_t n, char **bytes,
                                            size_t *len, sluice_error *error);

typedef enum sluice_role { SLUICE_SYSTEM, SLUICE_DEVELOPER, SLUICE_USER, SLUICE_ASSISTANT, SLUICE_TOOL } sluice_role;

typedef struct sluice_message {
    sluice_role role;
    const char *text;
} sluice_message;

/* Ids of a conversation in the model's chat form, ending with the opening of the next answer. Fails as
 * sluice_tokenize does. */
SLUICE_API sluice_status sluice_chat_tokenize(const sluice_engine *engine, const sluice_message *messages, size_t n,
                                              bool thinking, uint32_t **ids, size_t *n_ids, sluice_error *error);

SLUICE_API void sluice_free(void *memory); /* what the functions above returned; safe on NULL */

/* ---- Session --------------------------------------------------------------------------------------- */

typedef struct sluice_session sluice_session;

typedef struct sluice_sampling {
    float temperature; /* 0: greedy, the default */
    float top_p;       /* 1: off */
    uint32_t top_k;    /* 0: off */
    float min_p;       /* 0: off; drop tokens below min_p times the likeliest one's probability */
    uint64_t seed;
} sluice_sampling;
SLUICE_API void sluice_sampling_init(sluice_sampling *sampling);

/* SLUICE_LIMIT when options.sessions sessions are open already. */
SLUICE_API sluice_status sluice_session_open(sluice_session **out, sluice_engine *engine, sluice_error *error);
SLUICE_API void sluice_session_close(sluice_session **session); /* safe on NULL */

/* SLUICE_INVALID for values out of range; restarts the random stream from the seed. */
SLUICE_API sluice_status sluice_session_set_sampling(sluice_session *session, const sluice_sampling *sampling,
                                                     sluice_error *error);

/* Makes the context equal to these n tokens (n >= 1), keeping the longest common prefix and computing the
 * rest. SLUICE_CONTEXT_FULL if n exceeds the context, SLUICE_INVALID for an id outside the vocabulary: both
 * leave the session as it was. After SLUICE_IO or SLUICE_CANCELLED the context holds the tokens computed
 * so far and the session stays usable. */
SLUICE_API sluice_status sluice_session_sync(sluice_session *session, const uint32_t *tokens, size_t n,
                                             sluice_error *error);

/* Samples the next token from the last logits, writes it to *token and appends it to the context, computing its
 * logits. An eos token is returned but not appended. SLUICE_CONTEXT_FULL: the context is full, nothing was
 * sampled. SLUICE_INVALID before the first sync. After any failure the context and the random stream are as
 * before, so that the same call samples the same token again. */
SLUICE_API sluice_status sluice_session_next(sluice_session *session, uint32_t *token, sluice_error *error);

/* The tokens in the context; valid until the session changes. */
SLUICE_API const uint32_t *sluice_session_tokens(const sluice_session *session, size_t *n);

/* Logits [vocab_size] after the last token; NULL before the first sync and while the last token is not computed
 * yet (after a generate, or a call that failed; a sync to the same tokens computes it). Valid until the session
 * changes. */
SLUICE_API const float *sluice_session_logits(const sluice_session *session);

/* Receives logits [n_rows][vocab_size] of the tokens first .. first + n_rows - 1, valid during the call; false stops
 * the evaluation (SLUICE_CANCELLED). It must not evaluate on the same engine. */
typedef bool sluice_rows_callback(void *user, size_t first, size_t n_rows, const float *logits);

/* Logits of every position: empties the session, appends the n tokens (1 <= n <= context) and passes the rows in
 * order, a few at a time. The context then holds the tokens as after a sync. Errors as sync. */
SLUICE_API sluice_status sluice_session_evaluate(sluice_session *session, const uint32_t *tokens, size_t n,
                                                 sluice_rows_callback *rows, void *user, sluice_error *error);

/* Makes the call in progress return SLUICE_CANCELLED soon; from any thread or a signal handler. The flag is
 * cleared when a sync, an evaluate or a generate starts; a next that finds it set returns SLUICE_CANCELLED. */
SLUICE_API void sluice_session_cancel(sluice_session *session);

/* Called with each piece of finished text; false stops the generation (SLUICE_STOP_CALLER). */
typedef bool sluice_text_callback(void *user, const char *text, size_t len);

typedef enum sluice_stop {
    SLUICE_STOP_EOS,      /* the model ended its answer */
    SLUICE_STOP_STRING,   /* a stop string appeared; it is not part of the text */
    SLUICE_STOP_LIMIT,    /* max_tokens were generated */
    SLUICE_STOP_CONTEXT,  /* the context is full */
    SLUICE_STOP_CALLER,   /* the callback returned false */
    SLUICE_STOP_CANCELLED /* sluice_session_cancel */
} sluice_stop;
SLUICE_API const char *sluice_stop_text(sluice_stop stop);

typedef struct sluice_generate_options {
    uint32_t max_tokens;             /* 0: as many as the context holds */
    const char *const *stop_strings; /* [n_stop_strings], none empty */
    size_t n_stop_strings;
    sluice_text_callback *text; /* may be NULL */
    void *user;
    bool special; /* also pass the text of special tokens */
} sluice_generate_options;

/* Generates from the current context until something stops it. Text is whole characters, and never part of
 * what may yet become a stop string; what was held back for that reason is passed at the end unless it became one.
 *
 * Every generated token except eos is in the context afterwards, the one that completed a stop string or reached
 * a limit included, so that a later sync of the conversation keeps all of it. The last one is not computed yet:
 * the next call on the session does that, together with what follows.
 * *n_tokens (may be NULL) counts the tokens appended. A cancelled generation is SLUICE_OK with SLUICE_STOP_CANCELLED.
 *
 * A failure such as SLUICE_IO passes the text so far, leaves the tokens of it in the context and the session
 * usable: another generate continues as if nothing had happened. A character that the end of a call cut in two is
 * completed by a generate that follows directly.
 *
 * SLUICE_INVALID before the first sync or for a stop string that is empty or not UTF-8; SLUICE_UNSUPPORTED for text or
 * stop strings without a tokenizer. */
SLUICE_API sluice_status sluice_session_generate(sluice_session *session, const sluice_generate_options *options,
                                                 sluice_stop *stop, size_t *n_tokens, sluice_error *error);

/* ---- Statistics ------------------------------------------------------------------------------------ */

typedef struct sluice_stats {
    uint64_t prefill_tokens, decode_tokens;
    double prefill_seconds, decode_seconds;
    uint64_t expert_hits, expert_misses;
    uint64_t bytes_read;      /* expert bytes from disk */
    double disk_wait_seconds; /* computing stood still for the disk */
    uint64_t peak_rss_bytes, planned_bytes;
} sluice_stats;

/* Totals since the engine was opened. */
SLUICE_API void sluice_engine_get_stats(const sluice_engine *engine, sluice_stats *out);

/* ---- Containers ------------------------------------------------------------------------------------ */

/* Checks a container directory, values of norms, router and scales and the tokenizer included, and describes it as JSON
 * (geometry, kinds, counts, bytes by role, completeness of MTP layer and indexer; zero-terminated, sluice_free). */
SLUICE_API sluice_status sluice_inspect(const char *model_dir, const sluice_engine_options *callbacks, char **json,
                                        sluice_error *error);

typedef struct sluice_synth_options {
    uint32_t hidden, intermediate, experts, top_k, layers, dense, vocab, group, mtp;
    uint64_t seed;
    void (*progress)(void *user, const char *what, uint64_t done, uint64_t total); /* may be NULL */
    bool (*cancelled)(void *user); /* asked every few MiB: true ends with SLUICE_CANCELLED; may be NULL */
    void *user;
} sluice_synth_options;
SLUICE_API void sluice_synth_options_init(sluice_synth_options *options); /* the real geometry, four layers */

/* Writes a random container, shard by shard, into a directory that is new or empty. What fails or is cancelled leaves
 * nothing behind. */
SLUICE_API sluice_status sluice_synth(const char *dir, const sluice_synth_options *options, sluice_error *error);

#ifdef __cplusplus
}
#endif
#endif
