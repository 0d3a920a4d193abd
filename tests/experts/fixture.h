/* A container of random experts made for one test: raw shard files in a temporary directory, and the descriptors that
 * container_open would give for them. Every offset is the test's choice, the weights stay in memory for comparison. */
#ifndef SLUICE_TESTS_EXPERTS_FIXTURE_H
#define SLUICE_TESTS_EXPERTS_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "container/container.h"
#include "device/reference.h"
#include "support/temp_dir.h"

#define FIXTURE_MIXED (-1) /* every kind of weights, expert by expert */
#define FIXTURE_SHARDS_MAX 8

struct fixture_options {
    uint32_t layers, dense, experts, k, hidden, intermediate;
    uint32_t shards; /* tensors are dealt out in equal runs, so that experts straddle */
    int kind;        /* enum quant_kind or FIXTURE_MIXED */
    uint32_t skew;   /* bytes before the first tensor of each shard */
    uint32_t gap;    /* bytes between tensors */
};

struct expert_fixture {
    struct fixture_options options;
    struct temp_dir dir;
    struct container container;
    struct os_file shards[FIXTURE_SHARDS_MAX];
    struct expert_weights *weights; /* [layers * experts], sparse layers only */
    char (*names)[96];              /* of the tensors */
    size_t n_names;
};

/* As in public files: in each shard first the scales, then the weights. Aborts when files cannot be made. */
void fixture_make(struct expert_fixture *out, const struct fixture_options *options);
void fixture_free(struct expert_fixture *fixture);

const struct expert_weights *fixture_expert(const struct expert_fixture *fixture, uint32_t layer, uint32_t expert);
const struct stored_mlp *fixture_stored(const struct expert_fixture *fixture, uint32_t layer, uint32_t expert);

/* Overwrites bytes of a shard's file. */
void fixture_poke(const struct expert_fixture *fixture, uint32_t shard, uint64_t offset, const void *data, size_t len);

/* Whether every byte of the view equals the expert's. */
bool fixture_same(const struct expert_weights *view, const struct expert_weights *expected);

#endif
