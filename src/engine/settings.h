/* The caller's options with every default filled in and every bound checked.
 *
 * Settings that depend on the model (the context) need its configuration; nothing else here does. */
#ifndef SLUICE_ENGINE_SETTINGS_H
#define SLUICE_ENGINE_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "container/config.h"
#include "sluice/sluice.h"

struct engine_settings {
    uint64_t memory_limit; /* bytes the caller allows, 0: no limit of his own */
    uint32_t context;      /* tokens a session can hold */
    uint32_t sessions;     /* sessions that may be open at once */
    uint32_t threads;      /* computing threads */
    uint32_t prefill_rows; /* tokens computed at once */
    uint32_t logits_rows;  /* of those, rows whose logits are computed at once by an evaluation */
    uint32_t cpu_features; /* mask of enum cpu_feature, those this machine has */
};

/* SLUICE_INVALID naming the option that is out of range. */
sluice_status settings_resolve(struct engine_settings *out, const sluice_engine_options *options,
                               const struct model_config *config, sluice_error *err);

/* The caller's callbacks as the modules below know them. */
struct log settings_log(const sluice_engine_options *options);

#endif
