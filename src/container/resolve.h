/* From catalogue entries to typed descriptors: dtype, shape and kind of one tensor against what the config wants. */
#ifndef SLUICE_CONTAINER_RESOLVE_H
#define SLUICE_CONTAINER_RESOLVE_H

#include "base/error.h"
#include "container/catalogue.h"
#include "container/container.h"

/* What the byte counts of a U8 tensor and its scales say about a matrix. */
struct quant_guess {
    enum quant_kind kind;
    uint32_t group; /* columns a scale covers; 0 unless QUANT_INT4_GROUP */
};

enum quant_match {
    QUANT_MATCH_ONE,       /* exactly one kind fits */
    QUANT_MATCH_NONE,      /* no kind has these counts */
    QUANT_MATCH_AMBIGUOUS, /* int8 and int4 both fit */
};

/* bytes: of the U8 tensor; scales: count of its F32 companion. */
enum quant_match resolve_kind(uint32_t rows, uint32_t cols, uint64_t bytes, uint64_t scales, struct quant_guess *out);

/* A plain vector of n elements. The tensor must be in the catalogue. */
sluice_status resolve_vector(const struct catalogue *catalogue, const char *name, uint32_t n, struct stored_vector *out,
                             sluice_error *err);

/* A matrix [rows][cols]: U8 with scales in "name.qs", or plain. plain_only refuses the former. */
sluice_status resolve_matrix(const struct catalogue *catalogue, const char *name, uint32_t rows, uint32_t cols,
                             bool plain_only, struct stored_matrix *out, sluice_error *err);

/* True if the tensor is in the catalogue, and if it is U8 and needs scales, they too. Marks what it finds as used.
 * If not, *missing_suffix is what to append to the name to call what is missing. */
bool resolve_is_present(const struct catalogue *catalogue, const char *name, bool may_be_quantised,
                        const char **missing_suffix);

#endif
