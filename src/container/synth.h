/* The parts of container_synth. Private to the module.
 *
 * synth.c        geometry, directory, order of work, removal after a failure
 * synth_plan.c   which tensors there are, their kinds, and how shards are cut
 * synth_write.c  random values, one shard at a time
 * synth_text.c   config.json, generation_config.json, tokenizer.json */
#ifndef SLUICE_CONTAINER_SYNTH_H
#define SLUICE_CONTAINER_SYNTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "container/config.h"
#include "container/layout.h"

#define SYNTH_VOCAB_MIN 512 /* 256 bytes and the special tokens fit, with room */
#define SYNTH_SHARD_NAME 32

struct synth_tensor {
    const char *name; /* without ".qs", in the plan's arena */
    uint32_t layer, expert;
    bool is_expert; /* a routed expert's; else expert is 0 */
    enum layout_form form;
    enum layout_role role;
    enum quant_kind kind; /* QUANT_F32 for vectors and the router */
    uint32_t group;
    uint32_t rows, cols;
};

struct synth_shard {
    size_t first, n; /* range of plan.tensors */
    char name[SYNTH_SHARD_NAME];
};

struct synth_plan {
    struct arena arena;
    struct synth_tensor *tensors; /* [n_tensors], by layer, then by name */
    size_t n_tensors, cap;
    struct synth_shard *shards; /* [n_shards] */
    size_t n_shards;
    uint64_t total_bytes; /* of tensor data */
};

/* group: columns a scale of an int4 matrix covers, 0 for one scale a row. */
sluice_status synth_plan_make(struct synth_plan *plan, const struct model_config *config, uint32_t group,
                              sluice_error *err);
void synth_plan_free(struct synth_plan *plan);

uint64_t synth_weight_bytes(const struct synth_tensor *tensor); /* U8 or F32 data */
uint64_t synth_scale_bytes(const struct synth_tensor *tensor);  /* of its ".qs", 0 if it has none */

/* Writes one shard to a new file. *done counts bytes over all shards and is reported to log. */
sluice_status synth_write_shard(const char *path, const struct synth_plan *plan, const struct synth_shard *shard,
                                uint64_t seed, uint64_t *done, const struct log *log, sluice_error *err);

/* Writes a new file of these bytes. */
sluice_status synth_write_bytes(const char *path, const void *data, size_t len, sluice_error *err);

/* The three JSON files. config.json comes last: without it nothing takes the directory for a container. */
sluice_status synth_write_texts(const char *dir, const struct model_config *config, sluice_error *err);

/* Fills eos ids of the byte-level tokenizer that synth_write_texts writes. */
void synth_set_eos(struct model_config *config);

#endif
