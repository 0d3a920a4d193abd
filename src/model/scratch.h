/* The activations of one chunk: every buffer that a forward writes, allocated once for max_rows and context.
 *
 * All lie in one mapping, laid out by the same walk that model_memory uses to count them. */
#ifndef SLUICE_MODEL_SCRATCH_H
#define SLUICE_MODEL_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/model.h"
#include "os/pages.h"

/* m stands for max_rows. */
struct model_scratch {
    float *x;      /* [m][hidden_size], the residual stream */
    float *h;      /* [m][hidden_size], its norm */
    float *branch; /* [m][hidden_size], what a sublayer adds to x */

    float *q_lat; /* [m][q_lora_rank] */
    float *kv;    /* [m][kv_lora_rank + rope] */
    float *q;     /* [m][heads][nope + rope] */
    float *query; /* [m][heads][kv_lora_rank + rope]: absorbed query, then the mix of latents in its first part */
    float *value; /* [m][heads][v] */

    float *index_key;        /* [m][index_head_dim] */
    float *index_query;      /* [m][index_n_heads][index_head_dim] */
    float *index_weights;    /* [m][index_n_heads] */
    float *index_scores;     /* [index_rows][context_blocks * 64] */
    uint32_t *selected;      /* [m][index_topk], ascending; of the rows that see more positions than that */
    uint8_t *selected_bytes; /* [context], for a trace */

    float *router;        /* [m][n_routed_experts] */
    uint32_t *route_ids;  /* [m][num_experts_per_tok] */
    float *route_weights; /* [m][num_experts_per_tok] */

    float *gate; /* [m][intermediate_size], dense layers */
    float *up;   /* [m][intermediate_size] */

    void *act;             /* prepared inputs of a weight product */
    unsigned char *worker; /* [pool size][worker_bytes], private to a worker inside one job */

    size_t index_rows;   /* rows that the indexer scores at once */
    size_t index_stride; /* floats of a row of index_scores */
    size_t score_stride; /* positions that attention can weigh at once, rounded up */
    size_t worker_bytes; /* a multiple of 64 */
    struct os_pages memory;
};

uint64_t scratch_bytes(const struct model_options *options);
sluice_status scratch_open(struct model_scratch *out, const struct model_options *options, sluice_error *err);
void scratch_close(struct model_scratch *scratch); /* safe on a zeroed one */

#endif
