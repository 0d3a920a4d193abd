/* The engine as the files of this folder know it.
 *
 * Everything but the counters is set at open and constant until close, so it is read without a lock. Computing
 * (model, executor, device, pool, store) belongs to whoever holds the turn `compute`; the buffer of an
 * evaluation to whoever holds `evaluation`, which is taken first. */
#ifndef SLUICE_ENGINE_ENGINE_H
#define SLUICE_ENGINE_ENGINE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "container/container.h"
#include "device/device.h"
#include "engine/plan.h"
#include "engine/settings.h"
#include "engine/turn.h"
#include "experts/executor.h"
#include "experts/store.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "os/async_read.h"
#include "os/thread_pool.h"
#include "sluice/sluice.h"
#include "text/tokenizer.h"

/* Totals of computed tokens. */
struct engine_counters {
    uint64_t prefill_tokens, decode_tokens;
    double prefill_seconds, decode_seconds;
};

struct sluice_engine {
    struct log log;
    struct engine_settings settings;
    struct container *container;
    struct tokenizer *tokenizer; /* NULL: the container has none */
    struct kernel_table kernels;
    struct thread_pool *pool;
    uint64_t loading_peak; /* most memory in use while headers and tokenizer were read, 0 if it was more before */
    sluice_plan plan;
    struct async_reader *reader;
    struct device *device;
    struct expert_store *store;
    struct executor *executor;
    struct model *model;
    float *rows;          /* [settings.logits_rows][vocab_size], the logits of an evaluation */
    char reader_text[64]; /* how experts are read, in words */

    bool turns_ready; /* the two turns are initialised */
    struct turn evaluation;
    struct turn compute;

    pthread_mutex_t lock; /* guards what follows */
    bool lock_ready;      /* the mutex is initialised */
    uint32_t open_sessions;
    struct engine_counters counters;
};

/* Takes one of settings.sessions places; SLUICE_LIMIT when all are taken. */
sluice_status engine_enter_session(sluice_engine *engine, sluice_error *err);
void engine_leave_session(sluice_engine *engine);

/* Adds to the totals. */
void engine_count(sluice_engine *engine, const struct engine_counters *more);

/* What a plan is made for, from the parts that are open before it. */
struct plan_subject engine_plan_subject(const sluice_engine *engine);

#endif
