/* A container directory, opened and checked: untrusted input ends here.
 *
 * container_open reads config, generation config and every shard header, checks names, shapes, dtypes,
 * offsets and counts of every tensor against the config, and resolves them into the typed descriptors
 * below. It reads no weight. What it returns can be trusted: later code computes sizes from it without
 * further checks. Values (NaN in norms, scales, router) are checked when they are read. */
#ifndef SLUICE_CONTAINER_CONTAINER_H
#define SLUICE_CONTAINER_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "container/config.h"
#include "os/file.h"
#include "quant/matrix.h"

enum tensor_dtype { DTYPE_U8, DTYPE_F32, DTYPE_BF16, DTYPE_F16 };

/* Where the bytes of one tensor lie. */
struct tensor_ref {
    const char *name; /* owned by the container */
    uint32_t shard;   /* index into container.shards */
    enum tensor_dtype dtype;
    uint64_t offset; /* absolute, in the shard's file */
    uint64_t bytes;
};

/* A plain vector or matrix (norm, bias, router) of n elements; F32, BF16 or F16 on disk. */
struct stored_vector {
    struct tensor_ref data;
    uint32_t n;
};

/* A weight matrix. kind F32 covers plain tensors of dtype F32, BF16 and F16 (scales.bytes = 0). */
struct stored_matrix {
    enum quant_kind kind;
    uint32_t rows, cols, group;
    struct tensor_ref weights;
    struct tensor_ref scales;
};

struct stored_mlp {
    struct stored_matrix gate, up, down;
};

struct stored_indexer {
    struct stored_matrix wq_b, wk, weights_proj;
    struct stored_vector k_norm_weight, k_norm_bias;
};

struct stored_layer {
    bool sparse;
    bool has_indexer; /* full layer with its tensors present, and the container's indexer is complete */
    struct stored_vector input_layernorm, post_attention_layernorm, q_a_layernorm, kv_a_layernorm;
    struct stored_matrix q_a_proj, q_b_proj, kv_a_proj_with_mqa, kv_b_proj, o_proj;
    struct stored_indexer indexer;
    struct stored_mlp mlp;                        /* dense layers: the MLP; sparse layers: the shared expert */
    struct stored_matrix router;                  /* sparse: mlp.gate.weight [experts][hidden], kind F32 */
    struct stored_vector e_score_correction_bias; /* sparse: [experts] */
    struct stored_mlp *experts;                   /* sparse: [n_routed_experts] */
};

struct stored_mtp {
    struct stored_layer layer; /* index num_hidden_layers */
    struct stored_matrix eh_proj;
    struct stored_vector enorm, hnorm, shared_head_norm;
};

struct container {
    struct model_config config;
    char *dir;
    struct os_file *shards; /* [n_shards], in name order */
    uint32_t n_shards;
    uint64_t n_tensors;
    uint8_t identity[16]; /* hash over config.json and every shard's header and size */
    bool has_indexer;     /* every full layer has its indexer; else attention is dense */
    bool has_mtp;         /* the MTP layer is complete */
    struct stored_matrix embed_tokens, lm_head;
    struct stored_vector norm;
    struct stored_layer *layers;     /* [num_hidden_layers] */
    struct stored_mtp *mtp;          /* NULL unless has_mtp */
    struct container_memory *memory; /* private */
};

/* direct: also open every shard with O_DIRECT where granted. Warnings (partial MTP, partial or absent
 * indexer) go to log. On failure *out is untouched and one line names the file, tensor or field. */
sluice_status container_open(struct container **out, const char *dir, bool direct, const struct log *log,
                             sluice_error *err);
void container_close(struct container **container);

/* Bytes in memory of a matrix's weights and scales as the spine holds them (BF16 and F16 become F32). */
uint64_t stored_matrix_bytes(const struct stored_matrix *matrix);

/* Reads n elements as F32 (converting BF16 and F16); SLUICE_NUMERIC naming the tensor if one is not finite. */
sluice_status container_read_f32(const struct container *container, const struct tensor_ref *ref, uint64_t n,
                                 float *dst, sluice_error *err);

/* Reads a matrix into memory given by the caller (weights: quantised bytes as stored, or F32; scales as
 * quant_row_scales says, checked finite) and fills the view. */
sluice_status container_read_matrix(const struct container *container, const struct stored_matrix *matrix,
                                    void *weights, float *scales, struct quant_matrix *out, sluice_error *err);

/* Checks every value that must be finite – norms, routers, biases, scales of routed experts included, weights that are
 * not quantised – and describes the container as JSON (zero-terminated, released with free): identity, geometry,
 * shards, tensors; per role bytes and number of tensors by kind; whether MTP layer and indexer are complete, partial or
 * absent, and why. SLUICE_NUMERIC names the tensor and the element. */
sluice_status container_describe(const struct container *container, const struct log *log, char **json,
                                 sluice_error *err);

struct synth_geometry {
    uint32_t hidden;       /* a multiple of 8, at least 64; below 1024 the other dimensions shrink with it */
    uint32_t intermediate; /* of an expert, a multiple of 8; dense layers have 2 * hidden */
    uint32_t experts, top_k;
    uint32_t layers, dense; /* the first `dense` layers are dense; the MTP layer is not counted */
    uint32_t vocab;         /* at least 512 */
    uint32_t group;         /* columns a scale of an int4 matrix covers; 0: one scale a row */
    uint32_t mtp;           /* 1: with an MTP layer */
    uint64_t seed;
};

/* Writes a random container, shard by shard, with config and a byte-level tokenizer, into a directory that is new or
 * empty. The same geometry and seed give the same bytes. After a failure nothing is left. */
sluice_status container_synth(const char *dir, const struct synth_geometry *geometry, const struct log *log,
                              sluice_error *err);

#endif
